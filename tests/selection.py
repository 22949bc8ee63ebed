"""Which tests `make test` leaves to `make test-all`, and which of them share a process.

Beside the tests that bear the mark `exhaustive`, those are left whose turn it is not: of the cases of a test, its
parameters and the databases that its fixtures offer, a twelfth is taken, at least one, not the same for all tests.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from pathlib import Path
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TESTS = Path(__file__).parent
QUICK = TESTS / "unit"
"""Here every case is taken."""
FOR_A_MODULE = ("captured_types", "servers")
"""Fixtures that all tests of a module take in the same form, since each form costs its set-up."""
CASES_A_TURN = 12
ON_SPARK = "spark"
SECONDS_A_TEST = {"scenarios": 12.0, "properties": 6.0, "live": 2.0, "conformance": 1.0, "integration": 1.0}
"""About how long a test takes, by its folder; elsewhere it is soon over."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        is_left_already = item.get_closest_marker("soak") or item.get_closest_marker("exhaustive")
        if not is_left_already and not item.path.is_relative_to(QUICK):
            cases[item.nodeid.partition("[")[0]].append(item)
    for of_test in cases.values():
        for item in _left_out(of_test):
            item.add_marker("exhaustive")


def _left_out(cases: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield the cases of one test whose turn it is not."""
    forms: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in cases:
        forms[_form(item)].append(item)
    taken, *left = sorted(forms, key=lambda form: crc32(f"{item.path.name}{form}".encode()))
    for form in left:
        yield from forms[form]
    in_turn = sorted(forms[taken], key=_turn)
    yield from in_turn[-(-len(in_turn) // CASES_A_TURN) :]


def _turn(item: pytest.Item) -> int:
    """Return a case's place among those of its test; those without a server, which take a third of the time, come up
    more often.
    """
    return crc32(item.nodeid.encode()) // (1 if item.get_closest_marker("live") else 4)


def _form(item: pytest.Item) -> str:
    """Return the forms of a module's fixtures that a case takes."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return str({name: str(parameters[name]) for name in FOR_A_MODULE if name in parameters})


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    """Give a module's tests to one worker, since they share what they start; all tests on Spark share its JVM."""
    return LongestFirst(config, log)


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Begins with those on Spark, then what takes longest: at the end no worker is alone with long tests."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        super().__init__(config, log)
        self._on_spark = frozenset(find_tests_given({ON_SPARK}))

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        name = test.partition("[")[0].rpartition("::")[2]
        return ON_SPARK if (module, name) in self._on_spark else module

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self._duration_s), last=False)
        super()._assign_work_unit(node)

    def _duration_s(self, scope: str) -> float:
        _, folder, *_ = f"{scope}/".split("/")
        return inf if scope == ON_SPARK else SECONDS_A_TEST.get(folder, 0.02) * len(self.workqueue[scope])


def find_tests_given(fixtures: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield module and name of the tests that get one of these fixtures, directly or by others."""
    giving = set(fixtures)
    _add_giving(giving, {name: found for path in (TESTS / "fixtures").glob("*.py") for name, found in _arguments(path)})
    for path in TESTS.rglob("test_*.py"):
        arguments = dict(_arguments(path))
        if any(giving & found for found in arguments.values()):
            here = set(giving)
            _add_giving(here, arguments)
            yield from ((path.relative_to(TESTS.parent).as_posix(), name) for name in arguments.keys() & here)


def _add_giving(giving: set[str], arguments: Mapping[str, set[str]]) -> None:
    """Add the functions that take what gives Spark, directly or not."""
    while further := {name for name, taken in arguments.items() if taken & giving} - giving:
        giving |= further


def _arguments(path: Path) -> Iterator[tuple[str, set[str]]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            yield node.name, {argument.arg for argument in node.args.args}
