"""What can become of slot, publication, log store and captured tables: found, and mended by what is printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.checks import matching, only, run_mend, stopping
from builders.log.log_stores import opened
from builders.servers.ddl import forget_triggers
from rowtide.diagnosis.result import CheckResult, State
from rowtide.handle import connect
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest

LOST = {
    "select pg_drop_replication_slot('{slot}')": "does not exist",
    "select pg_replication_slot_advance('{slot}', pg_current_wal_lsn())": "past the recorded position",
    'drop publication "{slot}"': "it was dropped",
    'alter publication "{slot}" drop table item': "it lost public.item",
    "alter publication \"{slot}\" set (publish = 'insert')": "no longer publishes every operation",
}
"""What is done to slot and publication, and how it is reported."""
CHANGED = {
    "alter table a replica identity default": "its replica identity is no longer full",
    "drop table b": "its table public.b was dropped",
}
"""What is done to tables a and b, and how it is reported."""
HARMLESS = (
    "alter table c rename to thing",
    "alter table thing set schema cellar",
    "alter table d rename column name to label",
    "alter table e alter name type varchar(9)",
)


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    """Table `item` is captured, one column of it is not, and the log reader has met it."""
    logged.execute(
        "create schema cellar",
        "create table item (id int primary key, name text, spare int)",
        "create table other (id int)",
    )
    logged.enable()
    logged.cdc.enable_table("item", columns=("id", "name"))
    logged.execute("insert into item values (1, 'a', 0)")
    logged.read_log()
    return logged


def check(logged: LoggedDatabase, *tables: str) -> tuple[CheckResult, ...]:
    return connect(logged.url).check(tables)


def test_captured_database_has_no_findings_about_other_tables(enabled: LoggedDatabase) -> None:
    assert {finding.subject for finding in check(enabled)} <= {"server", "lake"}
    assert matching(check(enabled, "other"), "no primary key") != []


def is_free(database: LoggedDatabase, slot: str) -> bool:
    found = database.execute(f"select active from pg_replication_slots where slot_name = '{slot}'")
    return not any(active for (active,) in found)


@pytest.mark.exhaustive
def test_what_was_lost_is_named_and_reinitializing_goes_on(enabled: LoggedDatabase) -> None:
    slot = enabled.cdc.get_source().slot
    for statement, words in LOST.items():
        # The log reader has closed its connection; the server lets go of the slot when it has noticed.
        wait_until(lambda: is_free(enabled, slot), what="the slot is free")
        enabled.execute("insert into other values (1)", statement.replace("{slot}", slot), "update item set spare = 1")
        finding = only(check(enabled), words)
        assert finding.state is State.FAILING
        run_mend(finding, enabled.url)
        assert stopping(check(enabled)) == []
        enabled.read_log()


def test_changed_captured_tables_are_named_before_capture_stops(logged: LoggedDatabase) -> None:
    tables = "abcde"
    logged.execute("create schema cellar", *(f"create table {name} (id int, name text)" for name in tables))
    logged.enable(*tables)
    logged.read_log()
    forget_triggers(logged)
    logged.execute(*CHANGED, *HARMLESS)
    findings = check(logged)
    for words in CHANGED.values():
        finding = only(findings, words)
        severity = State.WARNING if "dropped" in words else State.FAILING
        assert (finding.state, finding.subject[:-1]) == (severity, "instance public_")
        run_mend(finding, logged.url)
    logged.read_log()
    assert stopping(check(logged)) == []


def test_missing_event_triggers_are_made_by_what_is_printed(enabled: LoggedDatabase) -> None:
    forget_triggers(enabled)
    run_mend(only(check(enabled), "event triggers are missing"), enabled.url)
    assert matching(check(enabled), "event triggers") == []


def test_a_column_that_is_gone_is_reported(enabled: LoggedDatabase) -> None:
    enabled.execute("alter table item drop column name")
    finding = only(check(enabled), "captured columns are gone")
    assert (finding.state, finding.subject) == (State.HEALTHY, "instance public_item")


def test_an_instance_the_log_reader_has_not_read_is_reported(enabled: LoggedDatabase) -> None:
    enabled.cdc.enable_table("other")
    assert only(check(enabled), "has not read yet").subject == "instance public_other"
    enabled.read_log()
    assert matching(check(enabled), "has not read yet") == []


def test_the_lake_and_the_log_store_are_looked_at(enabled: LoggedDatabase) -> None:
    log_store = Path(enabled.cdc.get_source().log_store)
    manifest = min((log_store / "manifest").iterdir())
    content = manifest.read_bytes()
    manifest.write_text("{}")
    assert "is damaged" in only(check(enabled), "log store: ").message
    manifest.write_bytes(content)
    assert stopping(check(enabled)) == []
    shutil.rmtree(enabled.lake)
    assert {(finding.subject, finding.state) for finding in matching(check(enabled), "not on this machine")} == {
        ("lake", State.FAILING),
        ("log store", State.FAILING),
    }
    assert not enabled.lake.exists()


def test_printed_command_completes_an_interrupted_enabling(logged: LoggedDatabase) -> None:
    logged.enable()
    source = logged.cdc.get_source()
    logged.execute(f"select pg_drop_replication_slot('{source.slot}')")
    shutil.rmtree(Path(source.log_store) / "manifest")
    run_mend(only(check(logged), "has no manifest"), logged.url)
    assert stopping(check(logged)) == []


def test_a_log_store_of_another_history_shows_by_its_identity(enabled: LoggedDatabase, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    Manifest(open_store(str(elsewhere))).append(opened())
    enabled.execute(f"update rowtide.source set log_store = '{elsewhere}'")
    found = only(check(enabled), "belongs to slot rowtide_5 of system 7001, not to this database")
    assert found.subject == "log store"
    assert "reinitialize" not in str(found.remediation)


@pytest.mark.exhaustive
def test_places_are_looked_at_before_enabling(logged: LoggedDatabase, tmp_path: Path) -> None:
    database = connect(logged.url)
    assert stopping(database.check(lake=str(tmp_path / "new" / "lake"))) == []
    assert not (tmp_path / "new").exists()
    assert "not writable" in only(database.check(lake="/proc/lake"), "lake").message
    assert only(database.check(lake="s3://bucket/lake"), "log store").state is State.FAILING
    Manifest(open_store(str(tmp_path / "taken" / "log"))).append(opened())
    taken = only(database.check(lake=str(tmp_path / "taken")), "belongs to another source")
    assert taken.state is State.FAILING


def test_a_schema_of_our_name_is_renamed_by_what_is_printed(logged: LoggedDatabase) -> None:
    logged.execute("create schema cdc")
    run_mend(only(check(logged), "did not make"), logged.url)
    assert stopping(check(logged)) == []
    logged.enable()


def test_what_a_dump_without_rows_left_does_not_stop_enabling(logged: LoggedDatabase) -> None:
    logged.execute(
        "create schema rowtide",
        "create function rowtide.rowtide_note_rewrite() returns event_trigger language plpgsql as 'begin end'",
        "create event trigger rowtide_note_rewrite on table_rewrite execute function rowtide.rowtide_note_rewrite()",
    )
    run_mend(only(check(logged), "restored without its rows"), logged.url)
    logged.enable()
    holders = "select evtfoid::regproc::text from pg_event_trigger where evtname = 'rowtide_note_rewrite'"
    assert logged.execute(holders) == [("rowtide.rowtide_note_rewrite",)]


def test_a_virtual_column_is_not_mended_by_a_full_identity(enabled: LoggedDatabase) -> None:
    enabled.execute("alter table item add column twice int generated always as (id * 2) virtual")
    enabled.execute("update item set name = 'b'")
    finding = only(check(enabled), "its replica identity is no longer full")

    assert finding.state is State.FAILING
    assert "enable it with --before-images key: column twice is virtual" in str(finding.remediation)
