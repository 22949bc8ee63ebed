"""Which tests `make test` leaves to `make test-all`, and which of them share a process.

Beside the tests that bear the mark `exhaustive`, those are left that were asked of another database already: of the
databases that a fixture offers, each test takes one, not the same for all tests.
"""

from __future__ import annotations

import ast
import re
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
    *("across", "dropped", "either", "enabled", "fixture", "home", "on", "servers_are"),
    *("failpoint", "functions", "tracked_by", "window", "winning"),
}
"""What offers several databases, places to be killed, or ways to do the same: all tests of a module take the same one,
or each its own."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: defaultdict[tuple[str, str], defaultdict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.get_closest_marker("soak") is None and (place := _place(item)) is not None:
            turning_by, case, alternative = place
            cases[turning_by, case][alternative].append(item)
    for (turning_by, _), alternatives in cases.items():
        names = sorted(alternatives)
        taken = names[crc32(turning_by.encode()) % len(names)]
        for item in (item for name in names if name != taken for item in alternatives[name]):
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


def _place(item: pytest.Item) -> tuple[str, str, str] | None:
    """Return by what a test takes its turn, its case and its alternative; None where nothing is offered."""
    call = getattr(item, "callspec", None)
    offering = FOR_A_MODULE | FOR_A_TEST
    if call is None or not offering.intersection(call.params):
        return None
    values = {name: re.sub(" at 0x[0-9a-f]+", "", repr(value)) for name, value in sorted(call.params.items())}
    alternative = str({name: value for name, value in values.items() if name in offering})
    others = {name: value for name, value in values.items() if name not in offering}
    case = f"{item.nodeid.partition('[')[0]} {others}"
    return item.path.name if FOR_A_MODULE.intersection(call.params) else case, case, alternative
