"""Files of events: complete when they have their name, never with part of a transaction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.capture.event_rows import event_rows, lsn
from rowtide.cdc.errors.jobs import EventsNotWritten
from rowtide.cdc.following.sinks import Filing, Rotation

LARGE, LONG = 1 << 30, 3600.0


def contents(folder: Path) -> dict[str, list[str]]:
    """Return the identities in each complete file."""
    files = sorted(folder.glob("changes-*.jsonl"))
    return {
        str(int(file.stem.removeprefix("changes-"))): [json.loads(line)["id"] for line in file.read_text().splitlines()]
        for file in files
    }


def test_a_file_is_complete_at_the_end_of_a_transaction(tmp_path: Path) -> None:
    filing = Filing(tmp_path, Rotation(1, LONG))
    assert list(filing.deliver(event_rows(3, 3, 5), lsn(4))) == [lsn(4)]
    assert list(filing.deliver(event_rows(5, 5), lsn(4))) == []
    assert contents(tmp_path) == {"3": ["e-3-0", "e-3-1"]}
    assert list(filing.deliver(event_rows(), lsn(6))) == [lsn(6)]
    assert contents(tmp_path)["5"] == ["e-5-2", "e-5-0", "e-5-1"]


def test_a_file_that_is_old_enough_is_completed(tmp_path: Path) -> None:
    filing = Filing(tmp_path, Rotation(LARGE, 0.0))
    assert list(filing.deliver(event_rows(3), lsn(3))) == [lsn(3)]
    young = Filing(tmp_path, Rotation(LARGE, LONG))
    list(young.deliver(event_rows(8), lsn(8)))
    assert young.settle() is None
    assert list(contents(tmp_path)) == ["3"]
    assert young.close() == lsn(8)


def test_closing_leaves_an_open_transaction_out(tmp_path: Path) -> None:
    filing = Filing(tmp_path, Rotation(LARGE, LONG))
    list(filing.deliver(event_rows(3, 4, 4), lsn(3)))
    assert filing.close() == lsn(3)
    assert contents(tmp_path) == {"3": ["e-3-0"]}
    filing = Filing(tmp_path, Rotation(LARGE, LONG))
    list(filing.deliver(event_rows(7), lsn(6)))
    filing.close()
    assert [path.name for path in tmp_path.iterdir()] == ["changes-0000000000000000003.jsonl"]


def test_a_file_written_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    for last in (4, 5):
        filing = Filing(tmp_path, Rotation(LARGE, LONG))
        list(filing.deliver(event_rows(*range(3, last)), lsn(last)))
        filing.close()
    assert contents(tmp_path) == {"3": ["e-3-0", "e-4-1"]}


def test_without_events_there_is_no_file(tmp_path: Path) -> None:
    filing = Filing(tmp_path, Rotation(LARGE, LONG))
    assert list(filing.deliver(event_rows(), lsn(9))) == [lsn(9)]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    filing = Filing(tmp_path / "away", Rotation(LARGE, LONG))
    with pytest.raises(EventsNotWritten, match="away: No such file"):
        list(filing.deliver(event_rows(1), lsn(1)))
    assert filing.close() is None
