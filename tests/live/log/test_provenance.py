"""The server that was read is taken for no copy, whatever became of its slot, its log store or a table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from rowtide.log import reader
from rowtide.log.errors import SlotAdvanced, SlotMissing
from rowtide.log.membership import ControlRow, Heartbeat
from rowtide.log.opening import open_log_reader

ROWS = "select xid::text, written_at::text from rowtide.control order by id"


@pytest.fixture
def item(logged: LoggedDatabase) -> LoggedDatabase:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.execute("insert into item values (1)")
    return logged


def require_next_row_read(item: LoggedDatabase, number: int, epoch: int) -> None:
    """What is written now is read, in an epoch."""
    item.execute(f"insert into item values ({number})")
    assert item.read_log().epoch == epoch
    assert item.inserted()[-1] == str(number)


def test_the_last_row_that_was_read_is_kept(item: LoggedDatabase) -> None:
    for _ in range(3):
        before = item.read_log().control_row
        item.execute("alter table item add more int", "alter table item drop more")
    state = item.read_log()
    assert before is not None
    # The last one when the log reader began, two of DDL, and the last one now.
    rows = item.execute(ROWS)
    assert len(rows) == 4
    assert [ControlRow(int(xid), at) for xid, at in rows][:: len(rows) - 1] == [before, state.control_row]


def test_heartbeats_delete_what_is_stored(item: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_HEARTBEAT_INTERVAL_S", 0.1)
    item.execute("create table other (id int)")
    with open_log_reader(item.url) as log_reader:

        def has_beaten() -> bool:
            item.execute(*["insert into other values (1)"] * 5)
            log_reader.step()
            return len([event for event in item.manifest().state.events if isinstance(event, Heartbeat)]) >= 5

        wait_until(has_beaten, what="five heartbeats")
    assert len(item.execute(ROWS)) <= 3


def test_a_server_whose_slot_was_dropped_is_reinitialized(item: LoggedDatabase) -> None:
    item.read_log()
    item.drop_slot()
    item.execute("insert into item values (2)")
    with pytest.raises(SlotMissing, match="RT-2102"):
        item.read_log()
    item.cdc.reinitialize("a test")
    require_next_row_read(item, 3, epoch=1)


def test_a_log_store_that_was_set_back_is_no_copys(item: LoggedDatabase, tmp_path: Path) -> None:
    item.read_log()
    log_store = Path(item.cdc.get_source().log_store)
    shutil.copytree(log_store, tmp_path / "earlier")
    for number in (2, 3):
        require_next_row_read(item, number, epoch=0)
    shutil.rmtree(log_store)
    shutil.copytree(tmp_path / "earlier", log_store)
    with pytest.raises(SlotAdvanced, match="RT-2105"):
        item.read_log()
    item.cdc.reinitialize("a test")
    require_next_row_read(item, 4, epoch=1)


def test_an_emptied_table_makes_no_copy(item: LoggedDatabase) -> None:
    item.read_log()
    item.execute("truncate rowtide.control restart identity")
    require_next_row_read(item, 2, epoch=0)
    require_next_row_read(item, 3, epoch=0)
