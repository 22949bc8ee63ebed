"""Of a module's tests `make test` takes the shortest, at least one, for as long as a module may take."""

from __future__ import annotations

from pathlib import Path

import pytest

import selection
from selection import SECONDS_A_MODULE, Measured, find_untimely

MODULE = "tests/live/cdc/test_scans.py"


def name(*tests: str) -> list[str]:
    return [f"{MODULE}::{test}" for test in tests]


def test_the_shortest_are_taken_first() -> None:
    short, long, middle = name("test_short", "test_long", "test_middle")
    measured = Measured({short: 1.0, long: SECONDS_A_MODULE, middle: SECONDS_A_MODULE - 1.0})
    assert find_untimely({long: 1, short: 1, middle: 1}, measured) == [long]


def test_cases_are_counted() -> None:
    many, one = name("test_many", "test_one")
    measured = Measured({many: SECONDS_A_MODULE / 4, one: SECONDS_A_MODULE / 2})
    assert find_untimely({many: 2, one: 1}, measured) == []
    assert find_untimely({many: 3, one: 1}, measured) == [many]


def test_one_is_always_taken() -> None:
    longer, long = name("test_longer", "test_long")
    measured = Measured({longer: 3 * SECONDS_A_MODULE, long: 2 * SECONDS_A_MODULE})
    assert find_untimely({longer: 1, long: 1}, measured) == [longer]


def test_a_test_that_was_too_short_to_be_noted_takes_nothing() -> None:
    noted, new = name("test_noted", "test_new")
    measured = Measured({noted: SECONDS_A_MODULE})
    assert measured.find(new) == 0.0
    assert measured.find("tests/scenarios/cdc/test_new_module.py::test_new") > 0.0


def test_a_run_renews_the_entries_of_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, renewed, quick = name("test_kept", "test_renewed", "test_quick")
    measured = tmp_path / "seconds.json"
    measured.write_text(f'{{"{kept}": 2.0, "{renewed}": 3.0, "{quick}": 4.0}}')
    monkeypatch.setattr(selection, "MEASURED", measured)
    recorder = selection.Recorder()
    for nodeid, seconds in ((f"{renewed}[1]", 1.0), (f"{renewed}[2]", 2.0), (quick, 0.01)):
        recorder.pytest_runtest_logreport(
            pytest.TestReport(nodeid, (MODULE, 0, nodeid), {}, "passed", None, "call", duration=seconds)
        )
    recorder.pytest_sessionfinish()
    assert Measured.read().seconds == {kept: 2.0, renewed: 1.5}
