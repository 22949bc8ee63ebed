from __future__ import annotations

import pytest

from builders.commands.check_facts import GIBIBYTE, place
from rowtide.core.errors import RowtideError
from rowtide.diagnosis.places import ObjectPlace, Place, check_places, check_taken
from rowtide.diagnosis.result import CheckResult, State
from rowtide.log.errors import LogStoreTaken
from rowtide.storage.errors import StorageSchemeUnsupported


def results(*places: Place) -> list[CheckResult]:
    return list(check_places(places))


def test_places_with_room_have_no_findings() -> None:
    assert results(place("lake"), place("log store")) == []


def test_missing_place_stops_and_is_its_only_finding() -> None:
    (result,) = results(place("log store", is_missing=True, free_bytes=0))
    assert (result.state, result.message) == (State.FAILING, "/log store is not on this machine")


@pytest.mark.parametrize(
    ("subject", "fact"),
    [
        ("lake", "the lake /lake is not writable: Read-only file system"),
        ("log store", 'the log store "/log store" cannot be written: Read-only file system'),
    ],
)
def test_a_place_that_cannot_be_written_stops(subject: str, fact: str) -> None:
    (result,) = results(place(subject, problem="Read-only file system"))
    assert (result.state, result.message) == (State.FAILING, fact)


@pytest.mark.parametrize(
    ("free", "total", "is_little"),
    [
        (GIBIBYTE, 20 * GIBIBYTE, False),
        (GIBIBYTE - 1, 2 * GIBIBYTE, True),
        (5 * GIBIBYTE, 100 * GIBIBYTE, False),
        (5 * GIBIBYTE - 1, 100 * GIBIBYTE, True),
    ],
)
def test_less_than_a_gibibyte_or_a_twentieth_is_little_room(free: int, total: int, *, is_little: bool) -> None:
    found = results(place(free_bytes=free, total_bytes=total))
    assert [result.state for result in found] == [State.WARNING] * is_little


def test_a_disk_is_reported_once() -> None:
    lake, log_store = (place(subject, free_bytes=0) for subject in ("lake", "log store"))
    assert [result.subject for result in results(lake, log_store)] == ["lake"]
    other = place("log store", free_bytes=0, device=2)
    assert [result.subject for result in results(lake, other)] == ["lake", "log store"]


def test_a_bucket_that_cannot_be_listed_stops() -> None:
    assert results(ObjectPlace("lake", "s3://a/b", None)) == []
    (result,) = results(ObjectPlace("log store", "s3://a/b", "there is no such bucket"))
    assert (result.state, result.subject) == (State.FAILING, "log store")
    assert result.message == "s3://a/b cannot be listed: there is no such bucket"


@pytest.mark.parametrize(
    "error",
    [LogStoreTaken("/lake/log", "7002 rowtide_9", "7001 rowtide_5"), StorageSchemeUnsupported("ftp://a/log", "ftp")],
)
def test_a_log_store_that_cannot_be_had_is_put_elsewhere(error: RowtideError) -> None:
    (result,) = check_taken((error,))
    assert (result.state, result.subject, result.message) == (State.FAILING, "log store", error.filled_fact)
    assert "--log-store" in str(result.remediation)
