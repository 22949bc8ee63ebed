"""Which tests `make test` leaves to `make test-all`, how long each takes, and which of them share a process.

Beside the tests that bear the mark `exhaustive`, those are left whose turn it is not: of the cases of a test, its
parameters and the databases that its fixtures offer, a twelfth is taken, at least one, not the same for all tests.
Then a module's tests are left for which it has no time: the shortest are taken first, at least one.
"""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from zlib import crc32

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

TESTS = Path(__file__).parent
QUICK = TESTS / "unit"
"""Here every case is taken."""
OF_GRANTS = "tests/live/rights/test_grants_of_"
"""Here, too: docs/reference/grants.md promises that each of its rows is run, and without each of its rights."""
FOR_A_MODULE = ("captured_types", "servers")
"""Fixtures that all tests of a module take in the same form, since each form costs its set-up."""
CASES_A_TURN = 12
ON_SPARK = "spark"
SECONDS_A_MODULE = 6.0
"""How long the tests of a module may take together, outside `unit`."""
SECONDS_A_TEST = {"scenarios": 12.0, "properties": 6.0, "live": 2.0, "conformance": 1.0, "integration": 1.0}
"""About how long a test takes that was never measured, by its folder; elsewhere it is soon over."""
MEASURED = TESTS / "seconds.json"
"""How long a case of each test took on two cores with four workers; `--record-seconds` renews it."""
RECORD = "--record-seconds"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(RECORD, action="store_true", help=f"note in tests/{MEASURED.name} how long the tests take")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(RECORD) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        is_left_already = item.get_closest_marker("soak") or item.get_closest_marker("exhaustive")
        if not (is_left_already or item.path.is_relative_to(QUICK) or item.nodeid.startswith(OF_GRANTS)):
            cases[_test(item.nodeid)].append(item)
    taken: defaultdict[str, dict[str, list[pytest.Item]]] = defaultdict(dict)
    for test, of_test in cases.items():
        left = [*_left_out(of_test)]
        _leave(left)
        taken[_module(test)][test] = [item for item in of_test if item not in left]
    measured = Measured.read()
    for tests in taken.values():
        for test in find_untimely({test: len(of_test) for test, of_test in tests.items()}, measured):
            _leave(tests[test])


class Measured:
    """How long a case of each test took."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = seconds
        self._modules = frozenset(map(_module, seconds))

    @classmethod
    def read(cls) -> Measured:
        """Return what was recorded: tests of less than 0.1 s are left out."""
        return cls(json.loads(MEASURED.read_text()))

    def find(self, test: str) -> float:
        """Return how long a case takes, estimated for a test whose module was never measured."""
        if test in self.seconds:
            return self.seconds[test]
        return 0.0 if _module(test) in self._modules else SECONDS_A_TEST.get(_folder(test), 0.02)


def find_untimely(cases: Mapping[str, int], measured: Measured) -> Sequence[str]:
    """Return the tests of a module for which it has no time, given how many cases of each are taken."""
    seconds = {test: number * measured.find(test) for test, number in cases.items()}
    left = []
    used = 0.0
    for position, test in enumerate(sorted(cases, key=lambda test: (seconds[test], test))):
        used += seconds[test]
        if position and used > SECONDS_A_MODULE:
            left.append(test)
    return left


class Recorder:
    """Notes how long the tests of a run take."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[_test(report.nodeid)][report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        found = {test: sum(cases.values()) / len(cases) for test, cases in self._seconds.items()}
        kept = {test: seconds for test, seconds in Measured.read().seconds.items() if test not in found}
        worth = {test: round(seconds, 1) for test, seconds in found.items() if seconds >= 0.1}
        MEASURED.write_text(json.dumps(dict(sorted({**kept, **worth}.items())), indent=0) + "\n")


def _test(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _module(test: str) -> str:
    return test.partition("::")[0]


def _folder(test: str) -> str:
    _, folder, *_ = f"{test}/".split("/")
    return folder


def _leave(items: Iterable[pytest.Item]) -> None:
    for item in items:
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
        self._measured = Measured.read()
        self._known: dict[str, float] = {}

    def _split_scope(self, nodeid: str) -> str:
        module, _, test = nodeid.partition("::")
        name = test.partition("[")[0].rpartition("::")[2]
        return ON_SPARK if (module, name) in self._on_spark else module

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(max(self.workqueue, key=self._duration_s), last=False)
        super()._assign_work_unit(node)

    def _duration_s(self, scope: str) -> float:
        if scope not in self._known:
            cases = self.workqueue[scope]
            seconds = sum(self._measured.find(_test(nodeid)) for nodeid in cases)
            self._known[scope] = inf if scope == ON_SPARK else seconds
        return self._known[scope]


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
