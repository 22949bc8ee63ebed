"""A change that the server cannot send costs its table that transaction; all other tables continue by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.command_lines import rowtide
from builders.commands.hints import run_printed
from builders.faults.failpoints import LOG_READER_FAILPOINTS
from builders.log.log_reader_processes import is_streaming, log_reader
from builders.servers.unsendable_changes import TABLES, lacking, open_western, unsendable, write, write_around
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log import reader
from rowtide.log.errors import ChangeUnreadable
from rowtide.log.store.segments import PENDING

BEHIND_THE_RANGE = ("manifest_entry.after", "slot_confirmation.before", "slot_confirmation.after")


@pytest.fixture
def western(each_server: EmbeddedServer, lake: Path) -> Iterator[LoggedDatabase]:
    """A database with three tables that are captured."""
    with open_captured(each_server, lake) as database:
        yield database


@contextmanager
def open_captured(server: EmbeddedServer, lake: Path) -> Iterator[LoggedDatabase]:
    with open_western(server, lake) as database:
        database.execute(*TABLES)
        database.enable("item", "other", "third")
        yield database


def read_ids(database: LoggedDatabase, table: str) -> list[str]:
    """Return what the log store has of the rows that were inserted into a table."""
    tables = {one.table_id for one in database.manifest().state.tables.values() if one.shape.name == table}
    return [record["after"][0] for record in database.records() if record["table_id"] in tables]


def test_only_its_table_lacks_the_unsendable_changes_transaction(western: LoggedDatabase) -> None:
    write(western, "insert into other values (1)", "insert into item values (1)")
    write_around(western, "item")
    western.execute("insert into other values (5)", "insert into item values (5)")
    state = western.read_log()
    assert read_ids(western, "other") == ["1", "2", "4", "5"]
    assert read_ids(western, "item") == ["1", "5"]
    assert read_ids(western, "third") == ["2", "4"]
    ((table, _),) = lacking(state)
    assert table == "item"
    assert state.gaps == ()
    assert "no equivalent in encoding" in state.incomplete[0].reason


def test_two_tables_are_left_out_of_one_transaction(western: LoggedDatabase) -> None:
    write_around(western, "third", "item")
    state = western.read_log()
    assert read_ids(western, "other") == ["2", "4"]
    assert sorted(table for table, _ in lacking(state)) == ["item", "third"]
    assert len({lsn for _, lsn in lacking(state)}) == 1


@pytest.mark.exhaustive
def test_a_transaction_without_any_sendable_change_is_passed(western: LoggedDatabase) -> None:
    write(western, unsendable("item", 1))
    write(western, unsendable("item", 2))
    western.execute("insert into other values (1)")
    state = western.read_log()
    assert read_ids(western, "other") == ["1"]
    assert [table for table, _ in lacking(state)] == ["item", "item"]
    (first, second) = {lsn for _, lsn in lacking(state)}
    assert first != second


def test_an_unsendable_change_at_the_end_of_the_log_is_passed(western: LoggedDatabase) -> None:
    write(western, unsendable("item", 1))
    ((end,),) = western.execute("select (pg_current_wal_insert_lsn() - '0/0')::bigint")
    assert [table for table, _ in lacking(western.read_log(end - 1))] == ["item"]


@pytest.mark.exhaustive
def test_both_instances_of_a_table_lack_the_transaction(western: LoggedDatabase) -> None:
    western.cdc.enable_table("item", capture_instance="again")
    write_around(western, "item")
    assert [table for table, _ in lacking(western.read_log())] == ["item", "item"]


def test_a_partitioned_table_is_left_out_as_one(western: LoggedDatabase) -> None:
    western.execute(
        "create table whole (id int primary key, name text) partition by range (id)",
        "create table low partition of whole for values from (0) to (3)",
        "create table high partition of whole for values from (3) to (10)",
    )
    western.enable("whole")
    write_around(western, "whole")
    state = western.read_log()
    assert [table for table, _ in lacking(state)] == ["whole"]
    assert read_ids(western, "other") == ["2", "4"]


def test_a_table_is_left_out_of_several_batches(western: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_BATCH_MESSAGES", 100)
    write(
        western,
        "insert into other select generate_series(1, 250)",
        "insert into item select generate_series(1, 250)",
        unsendable("item", 300),
        "insert into other select generate_series(301, 550)",
    )
    western.execute("insert into item values (301)")
    state = western.read_log()
    assert len(read_ids(western, "other")) == 500
    assert read_ids(western, "item") == ["301"]
    assert sorted(western.store().list(PENDING)) == sorted(one.path for one in state.segments if PENDING in one.path)


def test_a_table_disabled_after_the_transaction_has_its_changes(western: LoggedDatabase) -> None:
    write_around(western, "item")
    western.cdc.disable_table("other")
    western.execute("drop table third", "insert into item values (5)")
    state = western.read_log()
    assert read_ids(western, "other") == ["2", "4"]
    assert read_ids(western, "third") == ["2", "4"]
    assert read_ids(western, "item") == ["5"]
    assert [table for table, _ in lacking(state)] == ["item"]


def test_a_table_that_is_enabled_again_lacks_nothing(western: LoggedDatabase) -> None:
    write_around(western, "item")
    western.read_log()
    western.cdc.disable_table("item")
    western.enable("item")
    western.execute("insert into item values (5)")
    assert western.read_log().incomplete == ()
    assert read_ids(western, "item") == ["5"]


@pytest.mark.parametrize("failpoint", LOG_READER_FAILPOINTS)
def test_a_killed_log_reader_leaves_the_table_out_once(server: EmbeddedServer, lake: Path, failpoint: str) -> None:
    with open_captured(server, lake) as western:
        western.execute("insert into item values (1)")
        western.read_log()
        write_around(western, "item")
        with log_reader(western, ROWTIDE_FAILPOINT=failpoint) as process:
            assert process.wait(60) == -9
        assert len(western.manifest().state.incomplete) == (failpoint in BEHIND_THE_RANGE)
        assert read_ids(western, "other") == (["2", "4"] if failpoint in BEHIND_THE_RANGE else [])
        western.execute("insert into item values (5)")
        state = western.read_log()
        assert [table for table, _ in lacking(state)] == ["item"]
        assert read_ids(western, "other") == ["2", "4"]
        assert read_ids(western, "item") == ["1", "5"]


def test_a_log_reader_goes_on_by_itself_and_confirms(western: LoggedDatabase) -> None:
    with log_reader(western) as process:
        wait_until(lambda: is_streaming(western), what="the log reader streams")
        for number in range(1, 4):
            write(western, f"insert into other values ({number})", unsendable("item", number))
        wait_until(lambda: read_ids(western, "other") == ["1", "2", "3"], what="the other table is read")
        assert process.poll() is None
        last = western.manifest().state.incomplete[-1].lsn
        wait_until(lambda: confirmed(western) > last.log, what="the server may forget it")


def confirmed(database: LoggedDatabase) -> int:
    query = "select (confirmed_flush_lsn - '0/0')::bigint from pg_replication_slots where database = current_database()"
    return int(database.execute(query)[0][0])


def test_without_a_tables_publication_the_log_reader_stops(western: LoggedDatabase) -> None:
    """It is made again when the log is read, and counts for what is written from then on."""
    western.read_log()
    publication = publication_of(western, "other")
    western.execute(f"drop publication {publication}")
    write_around(western, "item")
    with pytest.raises(
        ChangeUnreadable, match=r"RT-2121: a change of public\.item .* no equivalent in encoding"
    ) as stopped:
        western.read_log()
    assert publication_of(western, "other") == publication
    assert western.manifest().state.incomplete == ()
    run_printed(stopped.value, western.url)
    write(western, "insert into other values (12)", unsendable("item", 13))
    assert [table for table, _ in lacking(western.read_log())] == ["item"]
    assert read_ids(western, "other") == ["12"]


def test_with_an_altered_publication_the_log_reader_stops(western: LoggedDatabase) -> None:
    western.read_log()
    publication = publication_of(western, "other")
    western.execute(f"alter publication {publication} drop table other")
    write_around(western, "item")
    western.execute(f"alter publication {publication} add table other")
    with pytest.raises(ChangeUnreadable, match=r"public\.other has no publication of its own, or others altered it"):
        western.read_log()


def publication_of(database: LoggedDatabase, table: str) -> str:
    """Return the name of the publication of a table alone."""
    ((name,),) = database.execute(
        f"select p.pubname::text from pg_publication p join pg_publication_rel r on r.prpubid = p.oid "
        f"where r.prrelid = '{table}'::regclass and p.pubname ~ '_[0-9]+_[0-9]+$'"
    )
    return str(name)


def publications(database: LoggedDatabase) -> list[str]:
    return [name for (name,) in database.execute("select pubname::text from pg_publication order by 1")]


@pytest.mark.exhaustive
def test_publications_go_with_their_tables(western: LoggedDatabase) -> None:
    everything = publications(western)
    item = publication_of(western, "item")
    western.cdc.disable_table("item")
    assert publications(western) == [name for name in everything if name != item]
    dropped = publication_of(western, "third")
    western.execute("drop table third")
    western.read_log()
    assert publications(western) == [name for name in everything if name not in (item, dropped)]
    western.cdc.disable_db()
    assert publications(western) == []


@pytest.mark.exhaustive
def test_publications_of_others_stay(western: LoggedDatabase) -> None:
    ours = western.cdc.get_source().publication
    others = [f"{ours}_12x", f"{ours}_mine", f"{ours}1_12", f"{ours}x12"]
    abandoned = f"{ours}_12"
    western.execute(*(f'create publication "{name}"' for name in (*others, abandoned)))
    western.read_log()
    assert {name for name in publications(western) if name in (*others, abandoned)} == set(others)
    western.cdc.disable_db()
    assert publications(western) == sorted(others)


def test_check_reports_none_of_the_publications(western: LoggedDatabase) -> None:
    western.read_log()
    assert "publication" not in rowtide("check", "--db", western.url).output.replace("publication_", "")


def test_check_and_health_name_the_table(western: LoggedDatabase) -> None:
    write_around(western, "item")
    (one,) = western.read_log().incomplete
    for command, form in (("check", "jsonl"), ("health", "json")):
        told = rowtide(command, "--format", form, "--db", western.url).output
        assert f"public.item lacks changes of the transaction that commits at LSN {one.lsn}" in told
        assert "public.other lacks" not in told


def lose_publications(western: LoggedDatabase) -> None:
    """Drop the publications of single tables, and what is known of them."""
    own = "select pubname::text from pg_publication where pubname ~ '^rowtide_[0-9]+_'"
    western.execute(
        *(f"drop publication {name}" for (name,) in western.execute(own)), "delete from rowtide.table_publications"
    )


def test_tables_that_lost_their_publications_get_others(western: LoggedDatabase) -> None:
    lose_publications(western)
    western.read_log()
    write_around(western, "item")
    assert [table for table, _ in lacking(western.read_log())] == ["item"]
    assert read_ids(western, "other") == ["2", "4"]


def test_a_table_in_use_gets_its_publication_the_next_time(western: LoggedDatabase) -> None:
    lose_publications(western)
    with western.transaction() as writer:
        writer.execute("insert into other values (1)")
        western.read_log()
        assert publication_of(western, "item") in publications(western)
        assert len(publications(western)) == 4  # of all members, of announcements, of `item` and `third`
    western.read_log()
    assert publication_of(western, "other") in publications(western)
