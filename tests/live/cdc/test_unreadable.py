"""What cannot be read stops the log reader with its LSN, and can be skipped; what is too large is omitted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import SparkRuntimeException

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.cuts import Cut, cut_at
from builders.faults.failpoints import OMITTING_FAILPOINTS, SKIP_FAILPOINTS
from builders.servers.unsendable_changes import TABLES, open_western, write_around
from rowtide.cdc.capture import capture as capture_module
from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.querying import RangeOverGap
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import register
from rowtide.lake.session import pinned
from rowtide.log.errors import TransactionReadable, TransactionUnreadable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LARGE = "convert_to(repeat('x', 33554432), 'UTF8')"
MOST_ROW_BYTES = 50 << 20
"""As with Spark's memory half as large."""
BEYOND_THE_SERVER = "convert_to(repeat('x', 540000000), 'UTF8')"
"""Its text form has two digits for each byte: more than a gigabyte, which is all that the server can hold."""


def make_tables(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, value bytea)", "create table other (id int)")
    logged.enable("item", "other")
    logged.execute("insert into other values (1)", "insert into item values (1)")


BROKEN = "insert into rowtide.control (kind, content) values ('enable', 'no member')"


def write_unreadable(logged: LoggedDatabase, statement: str = BROKEN) -> None:
    """Commit one transaction of which one change cannot be read, with readable ones around it."""
    with logged.transaction() as transaction:
        transaction.execute("insert into item values (2)")
        transaction.execute("insert into other values (2)")
        transaction.execute(statement.encode())
        transaction.execute("insert into item values (4)")


def write_too_large(captured: CapturedDatabase) -> CommitLsn:
    """Commit and capture a transaction of which one change is omitted; return its LSN."""
    write_unreadable(captured, f"insert into item values (3, {LARGE})")
    captured.capture(most_row_bytes=MOST_ROW_BYTES)
    (lacking,) = captured.manifest().state.list_omitted_by(READER)
    return lacking.lsn


def stop_at_unreadable(logged: LoggedDatabase) -> CommitLsn:
    """Read until the log reader stops; return the LSN that it names."""
    with pytest.raises(TransactionUnreadable) as stopped:
        logged.read_log()
    return CommitLsn.parse(stopped.value.lsn)


@pytest.mark.exhaustive
def test_a_row_beyond_sparks_memory_is_left_out_and_reported(captured: CapturedDatabase) -> None:
    make_tables(captured)
    lsn = write_too_large(captured)
    captured.execute("insert into item values (5)", "insert into other values (5)")
    captured.capture()
    state = captured.manifest().state
    assert state.gaps == ()
    (lacking,) = state.list_omitted_by(READER)
    members = {member.member_id: member.table for member in state.members}
    assert members[lacking.member_id] == "item"
    assert lacking.reason.startswith("a row takes 67,")
    assert lacking.reason.endswith(" bytes, of at most 52,428,800 that memory is enough for")
    told = rowtide("check", "--format", "jsonl", "--db", captured.url)
    assert f"public.item lacks changes of the transaction that commits at LSN {lsn}" in told.output
    captured.cdc.disable_table("item")
    assert captured.read_log().omitted_by_readers == ()


@pytest.mark.exhaustive
def test_leaving_out_that_is_cut_is_done_once(captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    make_tables(captured)
    write_unreadable(captured, f"insert into item values (3, {LARGE})")
    for place in OMITTING_FAILPOINTS:
        with monkeypatch.context() as patched:
            patched.setattr(capture_module, "failpoint", cut_at(place))
            with pytest.raises(Cut):
                captured.capture(most_row_bytes=MOST_ROW_BYTES)
        assert len(captured.manifest().state.omitted_by_readers) == place.endswith("after")
    captured.capture(most_row_bytes=MOST_ROW_BYTES)
    assert len(captured.manifest().state.omitted_by_readers) == 1
    assert [row["id"] for row in captured.changes("public_other")] == [1, 2]


def test_skipped_transaction_is_a_gap_and_reading_continues(logged: LoggedDatabase) -> None:
    make_tables(logged)
    write_unreadable(logged)
    lsn = stop_at_unreadable(logged)
    logged.execute("insert into item values (5)")
    assert "an announcement of kind enable" in str(logged.cdc.find_unreadable(lsn))
    logged.cdc.skip_transaction(lsn)
    (gap,) = logged.read_log().gaps
    assert (gap.after.value, gap.before.value) == (lsn.value, lsn.value + 1)
    assert logged.inserted() == ["1", "1", "5"]


def test_only_the_transaction_that_stops_reading_can_be_skipped(logged: LoggedDatabase) -> None:
    make_tables(logged)
    write_unreadable(logged)
    lsn = stop_at_unreadable(logged)
    for other in (lsn.decrement(), lsn.increment()):
        with pytest.raises(TransactionUnreadable, match=str(lsn)):
            logged.cdc.skip_transaction(other)
    logged.cdc.skip_transaction(lsn)
    with pytest.raises(TransactionReadable, match="RT-2122"):
        logged.cdc.skip_transaction(lsn)
    assert len(logged.read_log().gaps) == 1


@pytest.mark.parametrize("failpoint", SKIP_FAILPOINTS)
def test_skipping_that_is_killed_is_done_once(logged: LoggedDatabase, failpoint: str) -> None:
    make_tables(logged)
    write_unreadable(logged)
    lsn = stop_at_unreadable(logged)
    command = ("cdc", "skip-transaction", str(lsn), "--yes", "--db", logged.url)
    killed = rowtide_process(*command, environment={"ROWTIDE_FAILPOINT": failpoint})
    assert killed.code == -9
    assert (
        f"Lost: every change of the transaction that commits at LSN {lsn}; a change of rowtide.control" in killed.errors
    )
    again = rowtide_process(*command)
    if failpoint.endswith("before"):
        assert again.code == 0
    else:
        again.require_error(2122)
    assert [gap.after.value for gap in logged.read_log().gaps] == [lsn.value]


@pytest.mark.exhaustive
def test_row_that_the_server_cannot_send_is_left_out(large: LoggedDatabase) -> None:
    make_tables(large)
    write_unreadable(large, f"insert into item values (3, {BEYOND_THE_SERVER})")
    for _ in range(20):
        large.execute("insert into other values (7)")
    state = large.read_log()
    assert large.inserted() == ["1", "1", "2", *["7"] * 20]
    (lacking,) = state.incomplete
    assert lacking.reason.startswith("the server says: invalid memory alloc request size")
    assert [member.table for member in state.members if member.member_id == lacking.member_id] == ["item"]
    assert state.gaps == ()


@pytest.fixture(params=["logged_16", pytest.param("logged", marks=pytest.mark.soak)])
def large(request: pytest.FixtureRequest) -> LoggedDatabase:
    logged: LoggedDatabase = request.getfixturevalue(request.param)
    return logged


@pytest.mark.exhaustive
def test_only_ranges_with_a_skipped_transaction_are_refused(captured: CapturedDatabase) -> None:
    make_tables(captured)
    captured.capture()
    write_unreadable(captured)
    lsn = stop_at_unreadable(captured)
    captured.cdc.skip_transaction(lsn)
    captured.execute("insert into item values (5)")
    captured.capture()
    before, after = lsn.decrement(), lsn.increment()
    assert [row["id"] for row in captured.changes("public_item", to_lsn=before)] == [1]
    assert [row["id"] for row in captured.changes("public_item", from_lsn=after)] == [5]
    for from_lsn, to_lsn in ((None, None), (lsn, None), (None, lsn)):
        with pytest.raises(RangeOverGap, match=f"RT-313: .* contains {lsn}: .* skipped: rowtide.control"):
            captured.changes("public_item", "all", from_lsn, to_lsn)


@pytest.mark.exhaustive
def test_only_ranges_that_contain_what_was_left_out_are_refused(captured: CapturedDatabase) -> None:
    make_tables(captured)
    captured.capture()
    lsn = write_too_large(captured)
    captured.execute("insert into item values (5)")
    captured.capture()
    assert [row["id"] for row in captured.changes("public_other")] == [1, 2]
    assert [row["id"] for row in captured.changes("public_item", to_lsn=lsn.decrement())] == [1]
    assert [row["id"] for row in captured.changes("public_item", from_lsn=lsn.increment())] == [5]
    with pytest.raises(RangeOverGap, match=f"RT-313: .* contains {lsn}: the transaction was skipped: a row takes"):
        captured.changes("public_item")


@pytest.mark.exhaustive
def test_only_ranges_with_an_unsendable_change_are_refused(
    each_server: EmbeddedServer, lake: Path, spark: SparkSession
) -> None:
    with open_western(each_server, lake) as western:
        captured = CapturedDatabase(western.url, lake, western.session, spark)
        captured.execute(*TABLES)
        captured.enable("item", "other")
        captured.execute("insert into other values (1)", "insert into item values (1)")
        write_around(captured, "item")
        captured.execute("insert into item values (5)")
        captured.capture()
        (lacking,) = captured.manifest().state.incomplete
        lsn = lacking.lsn
        assert [row["id"] for row in captured.changes("public_other")] == [1, 2, 4]
        assert [row["id"] for row in captured.changes("public_item", to_lsn=lsn.decrement())] == [1]
        assert [row["id"] for row in captured.changes("public_item", from_lsn=lsn.increment())] == [5]
        with pytest.raises(
            RangeOverGap, match=f"RT-313: .* contains {lsn}: the transaction was skipped: the server says"
        ):
            captured.changes("public_item")
        captured.cdc.disable_table("item")
        captured.enable("item")
        captured.execute("insert into item values (6)")
        captured.capture()
        assert [row["id"] for row in captured.changes("public_item")] == [6]


@pytest.mark.exhaustive
def test_sql_functions_refuse_ranges_with_a_skipped_transaction(captured: CapturedDatabase) -> None:
    make_tables(captured)
    write_unreadable(captured)
    lsn = stop_at_unreadable(captured)
    captured.cdc.skip_transaction(lsn)
    captured.execute("insert into item values (5)")
    captured.capture()
    spark = pinned(captured.spark)
    register(spark, str(captured.lake))

    def count(low: str) -> int:
        bounds = f"{low}, (select fn_cdc_get_max_lsn())"
        return spark.sql(f"select * from fn_cdc_get_all_changes_public_item({bounds}, 'all')").count()

    assert count(str(lsn.value + 1)) == 1
    with pytest.raises(SparkRuntimeException, match=f"RT-313: .* contains {lsn.value}: the transaction was skipped"):
        count("(select fn_cdc_get_min_lsn('public_item'))")
