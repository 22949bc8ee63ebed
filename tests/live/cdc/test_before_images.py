"""What the log carries of rows before their change: whole rows, or keys; set with an instance, put back with it."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages, ImageKind
from rowtide.log.membership import Enabled

KEY, FULL = BeforeImages.KEY, BeforeImages.FULL
DOCUMENT_BYTES = 1_000_000


def identity_of(logged: LoggedDatabase, table: str) -> str:
    return str(logged.execute(f"select relreplident from pg_class where oid = '{table}'::regclass")[0][0])


def test_key_images_need_default_identity_restored_on_disable(logged: LoggedDatabase) -> None:
    tables = ("plain", "indexed", "already", "never")
    for table in tables:
        logged.execute(f"create table {table} (id int primary key, code int not null)")
    logged.execute(
        "create unique index by_code on indexed (code)",
        "alter table indexed replica identity using index by_code",
        "alter table already replica identity full",
        "alter table never replica identity nothing",
    )
    logged.enable()
    for table in tables:
        logged.cdc.enable_table(table, before_images=KEY)
    assert [identity_of(logged, table) for table in tables] == ["d", "d", "f", "d"]
    for table in tables:
        logged.cdc.disable_table(table)
    assert [identity_of(logged, table) for table in tables] == ["d", "i", "f", "n"]


def test_identity_is_full_while_any_instance_needs_full_images(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, name text)")
    logged.enable()
    logged.cdc.enable_table("item", capture_instance="keys", before_images=KEY)
    assert identity_of(logged, "item") == "d"
    logged.cdc.enable_table("item", capture_instance="rows", before_images=FULL)
    assert identity_of(logged, "item") == "f"
    logged.cdc.disable_table("item", capture_instance="keys")
    assert identity_of(logged, "item") == "f"
    logged.cdc.enable_table("item", capture_instance="keys", before_images=KEY)
    assert identity_of(logged, "item") == "f"
    logged.cdc.disable_table("item", capture_instance="rows")
    logged.cdc.disable_table("item", capture_instance="keys")
    assert identity_of(logged, "item") == "d"


def test_reinitializing_keeps_what_an_instance_wants(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, name text)")
    logged.enable()
    logged.cdc.enable_table("item", before_images=KEY)
    logged.cdc.reinitialize("to see whether keys stay enough")
    assert identity_of(logged, "item") == "d"
    events = [event for event in logged.read_log().events if isinstance(event, Enabled)]
    assert '"before_images":"key"' in events[-1].member.definition


def write_document(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table item (id int primary key, counter int, document text)",
        "alter table item alter document set storage external",
        f"insert into item values (1, 1, repeat('x', {DOCUMENT_BYTES}))",
    )


@pytest.mark.parametrize(
    ("before_images", "image", "before"), [(KEY, ImageKind.NONE, None), (FULL, ImageKind.FULL, ["1", "1"])]
)
def test_unchanged_toast_value_is_logged_only_with_full_identity(
    logged: LoggedDatabase, before_images: BeforeImages, image: ImageKind, before: list[str] | None
) -> None:
    write_document(logged)
    logged.enable()
    logged.cdc.enable_table("item", before_images=before_images)
    ((begun,),) = logged.execute("select pg_current_wal_insert_lsn()")
    logged.execute(*["update item set counter = counter + 1"] * 10)
    ((written,),) = logged.execute(f"select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{begun}')")
    logged.read_log()
    first, *_ = logged.records()
    assert (first["operation"], first["image"], first["absent"]) == (Operation.UPDATE, image, b"\x04")
    assert first["before"] == (None if before is None else [*before, "x" * DOCUMENT_BYTES])
    assert first["after"] == ["1", "2", None]
    assert (written > 10 * DOCUMENT_BYTES) == (before_images is FULL)


def test_a_delete_and_an_update_of_the_key_carry_the_old_key(logged: LoggedDatabase) -> None:
    logged.execute("create table item (name text, id int primary key)", "insert into item values ('a', 1)")
    logged.enable()
    logged.cdc.enable_table("item", before_images=KEY)
    logged.execute("update item set id = 2", "delete from item")
    logged.read_log()
    assert [(row["operation"], row["image"], row["before"], row["after"]) for row in logged.records()] == [
        (Operation.UPDATE, ImageKind.KEY, [None, "1"], ["a", "2"]),
        (Operation.DELETE, ImageKind.KEY, [None, "2"], None),
    ]


def test_a_virtual_column_does_not_hinder_keys(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, twice int generated always as (id * 2) virtual)")
    logged.enable()
    logged.cdc.enable_table("item", before_images=KEY)
    logged.execute("insert into item values (1)", "update item set id = 2")
    logged.read_log()
    assert [row["after"] for row in logged.records()] == [["1"], ["2"]]


def test_the_command_line_says_what_whole_rows_cost(logged: LoggedDatabase) -> None:
    write_document(logged)
    logged.execute("create table small (id int primary key, name text)", "insert into small values (1, 'a')")
    logged.enable()
    planned = rowtide("cdc", "enable-table", "item", "--before-images", "key", "--dry-run", "--db", logged.url)
    assert "replica identity" not in planned.output
    enabled = rowtide("cdc", "enable-table", "item", "--db", logged.url)
    assert "logs the old row with its large values (document)" in enabled.errors
    assert "1.0 MB of the table lie out of line. `--before-images key` logs keys only." in enabled.errors
    for quiet in (["item", "--before-images", "key", "--capture-instance", "keys"], ["small"]):
        assert "large values" not in rowtide("cdc", "enable-table", *quiet, "--db", logged.url).errors
