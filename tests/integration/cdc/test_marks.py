"""Low-water marks in `lsn_time_mapping`: transactions share commit times, and cycles may have none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from builders.capture.publications import transactions
from rowtide.cdc.cleanup.retention import LowWaterMark, LowWaterMarks
from rowtide.cdc.errors.capturing import LowWaterMarkUnknown
from rowtide.cdc.system_tables import RecordedCycle, SystemTables
from rowtide.core.lsn import CommitLsn, Position


def second(number: int) -> datetime:
    return datetime.fromtimestamp(number, UTC)


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> LowWaterMarks:
    """Transactions 1 to 5 at the seconds 10, 20, 20, 20 and 30, in two cycles, with one between that has none."""
    system_tables = SystemTables(str(tmp_path_factory.mktemp("marks")), "a source")
    system_tables.ensure()
    seconds = {1: 10, 2: 20, 3: 20, 4: 20, 5: 30}
    for cycle, lsns in enumerate([(1, 2, 3), (), (4, 5)], 1):
        recorded = RecordedCycle(cycle, Position(10 * cycle), Position(10 * cycle + 10))
        system_tables.publish(system_tables.read(), recorded, transactions(*lsns, seconds=seconds), [])
    return LowWaterMarks(system_tables.lake)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kept_s", "lsn"), [(0, 5), (5, 5), (10, 2), (15, 2), (20, 1), (1000, 1)])
def test_the_retention_counts_back_from_the_last_transaction(marks: LowWaterMarks, kept_s: int, lsn: int) -> None:
    mark = marks.by_retention(timedelta(seconds=kept_s))
    assert mark is not None
    assert mark.lsn == CommitLsn(lsn)


@pytest.mark.parametrize(("lsn", "first"), [(1, 1), (2, 2), (3, 2), (4, 2), (5, 5)])
def test_of_transactions_of_one_time_the_first_is_the_mark(marks: LowWaterMarks, lsn: int, first: int) -> None:
    assert marks.at(CommitLsn(lsn)).lsn == CommitLsn(first)


def test_a_mark_has_the_time_of_its_transaction_in_utc(marks: LowWaterMarks) -> None:
    assert marks.at(CommitLsn(3)) == LowWaterMark(CommitLsn(2), second(20))


def test_an_lsn_between_transactions_is_no_mark(marks: LowWaterMarks) -> None:
    with pytest.raises(LowWaterMarkUnknown):
        marks.at(CommitLsn(6))


def test_low_endpoint_has_the_time_of_its_first_transaction(marks: LowWaterMarks) -> None:
    reference = marks.reference(CommitLsn(2))
    assert reference is not None
    assert reference.time == second(20)
    assert reference.set_at > second(30)
    assert marks.reference(CommitLsn(6)) is None


def test_a_transaction_is_found_in_its_cycle(marks: LowWaterMarks) -> None:
    assert [marks.cycle_of(CommitLsn(lsn)) for lsn in (3, 4, 6)] == [1, 3, None]


def test_without_transactions_there_is_no_mark(lake: Path) -> None:
    system_tables = SystemTables(str(lake), "a source")
    system_tables.ensure()
    system_tables.publish(system_tables.read(), RecordedCycle(1, Position(10), Position(20)), transactions(), [])
    assert LowWaterMarks(system_tables.lake).by_retention(timedelta(0)) is None
