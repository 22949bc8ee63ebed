"""Which tests `make test` leaves to `make test-all`, and which of them share a process.

Beside the tests that bear the mark `exhaustive`, those are left that were asked of another database already: of the
databases that a fixture offers, each test takes one, not the same for all tests.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
FOR_A_MODULE = {"captured_types", "servers"}
FOR_A_TEST = {
    *("each_server", "hub", "large", "merged", "odd", "server_of_odd", "sqlite_file", "tracked_file", "untracked"),
    *("functions", "window", "winning"),
}
"""What offers several databases, or ways to do the same: all tests of a module take the same one, or each its own."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    offered: defaultdict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("soak") is None and (case := _case(item)) is not None:
            offered[case].append(item)
    for (turning_by, _), items_alike in offered.items():
        # pytest sorts the tests of a module by what its fixtures offer.
        alternatives = sorted(items_alike, key=lambda item: item.nodeid)
        turn = crc32(turning_by.encode()) % len(alternatives)
        for item in alternatives[:turn] + alternatives[turn + 1 :]:
            item.add_marker("exhaustive")


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Give the tests of a module to one worker, since they share what they start; all that need Spark share its JVM."""
    on_spark = set(find_modules_on_spark())

    def scope(nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return "spark" if module in on_spark else module

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = scope
    return scheduler


def find_modules_on_spark() -> Iterator[str]:
    """Yield the modules with a test that gets Spark by its fixtures, as pytest names them."""
    fixtures = {
        name: arguments for path in (TESTS / "fixtures").glob("*.py") for name, arguments in _arguments(path).items()
    }
    giving = {"spark"}
    while further := {name for name, arguments in fixtures.items() if arguments & giving} - giving:
        giving |= further
    for path in TESTS.rglob("test_*.py"):
        if any(arguments & giving for arguments in _arguments(path).values()):
            yield path.relative_to(TESTS.parent).as_posix()


def _arguments(path: Path) -> dict[str, set[str]]:
    tree = ast.parse(path.read_text())
    return {
        node.name: {argument.arg for argument in node.args.args}
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


def _case(item: pytest.Item) -> tuple[str, str] | None:
    """Return by what a test takes its turn, and what it has in common with the same on other databases, if any."""
    call = getattr(item, "callspec", None)
    if call is None or not (FOR_A_MODULE | FOR_A_TEST).intersection(call.params):
        return None
    # Where values go with the database, they have no index of their own.
    others = [
        (name, value if isinstance(value, str) else call.indices[name])
        for name, value in sorted(call.params.items())
        if name not in FOR_A_MODULE | FOR_A_TEST
    ]
    case = f"{item.nodeid.partition('[')[0]} {others}"
    return item.path.name if FOR_A_MODULE.intersection(call.params) else case, case
