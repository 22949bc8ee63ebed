"""What a table can be enabled with: an index that identifies rows, net changes or none, and what the log then has."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.cdc.errors.enabling import IndexNotUsable, IndexUnknown, KeyImagesDiffer, NetChangesNeedKey
from rowtide.cdc.instances import Instance, decode_instance
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages, ImageKind
from rowtide.log.membership import Enabled

KEY = BeforeImages.KEY


def identity_of(logged: LoggedDatabase, table: str) -> tuple[str, str | None]:
    ((identity, index),) = logged.execute(
        "select c.relreplident, (select x.relname from pg_index i join pg_class x on x.oid = i.indexrelid "
        f"where i.indrelid = c.oid and i.indisreplident) from pg_class c where c.oid = '{table}'::regclass"
    )
    return str(identity), index


def last_definition(logged: LoggedDatabase) -> Instance:
    """Return the definition that the last enable message carries."""
    enabled = [event for event in logged.read_log().events if isinstance(event, Enabled)]
    return decode_instance(enabled[-1].member.definition)


def test_index_and_net_changes_options_are_recorded(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table item (id int primary key, region text not null, code text not null, note text)",
        'create unique index "By Code" on item (code, region) include (note)',
    )
    logged.enable()
    enable = ("cdc", "enable-table", "item", "--no-snapshot", "--db", logged.url)
    for name, options in (("one", ["--index", "By Code"]), ("two", ["--no-net-changes", "--columns", "id,[code]"])):
        ended = rowtide(*enable, "--capture-instance", name, *options)
        assert (ended.code, ended.errors) == (0, f"Enabled: capture instance {name}.\n")
    one, two = logged.cdc.list_instances()
    assert (one.index_name, one.index_column_list, one.supports_net_changes) == ("By Code", "[code], [region]", True)
    assert (two.index_name, two.index_column_list, two.supports_net_changes) == ("item_pkey", "[id]", False)
    assert two.captured_column_list == "[id], [code]"


def test_indexes_that_do_not_identify_rows_are_refused(logged: LoggedDatabase) -> None:
    """Also those of a table of the same name elsewhere."""
    logged.execute(
        "create table item (code text not null, note text, constraint late unique (code) deferrable)",
        "create index plain on item (code)",
        "create unique index partly on item (code) where note is null",
        "create unique index made on item (lower(code))",
        "create unique index holey on item (code, note)",
        "create unique index usable on item (code)",
        "create schema other",
        "create table other.item (code text not null)",
        "create unique index elsewhere on other.item (code)",
    )
    logged.enable()
    for index in ("late", "plain", "partly", "made", "holey"):
        with pytest.raises(IndexNotUsable, match=f"index {index} of table public.item"):
            logged.cdc.enable_table("item", index_name=index)
    with pytest.raises(IndexUnknown):
        logged.cdc.enable_table("item", index_name="elsewhere")
    with pytest.raises(NetChangesNeedKey):
        logged.cdc.enable_table("item", supports_net_changes=True)
    assert logged.cdc.list_instances() == ()
    assert logged.cdc.enable_table("item", index_name="usable") == "public_item"


def test_chosen_index_is_replica_identity_until_disabled(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table item (code text not null, note text)",
        'create unique index "By Code" on item (code)',
        "alter table item replica identity nothing",
    )
    logged.enable()
    logged.cdc.enable_table("item", index_name="By Code", before_images=KEY)
    assert identity_of(logged, "item") == ("i", "By Code")
    logged.execute("insert into item values ('a', 'x')", "update item set code = 'b'", "delete from item")
    logged.read_log()
    found = [(row["operation"], row["image"], row["before"]) for row in logged.records()]
    assert found == [
        (Operation.INSERT, ImageKind.NONE, None),
        (Operation.UPDATE, ImageKind.KEY, ["a", None]),
        (Operation.DELETE, ImageKind.KEY, ["b", None]),
    ]
    logged.cdc.disable_table("item")
    assert identity_of(logged, "item") == ("n", None)


def test_instances_with_different_keys_need_full_images(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table item (id int primary key, code text not null)", "create unique index by_code on item (code)"
    )
    logged.enable()
    logged.cdc.enable_table("item", capture_instance="one", before_images=KEY)
    with pytest.raises(KeyImagesDiffer, match="by_code beside those of item_pkey"):
        logged.cdc.enable_table("item", capture_instance="two", index_name="by_code", before_images=KEY)
    assert identity_of(logged, "item") == ("d", None)
    logged.cdc.enable_table("item", capture_instance="two", index_name="by_code")
    assert identity_of(logged, "item") == ("f", None)


def test_reinitialize_keeps_the_index_unless_it_was_dropped(logged: LoggedDatabase) -> None:
    logged.execute("create table item (code text not null, note text)", "create unique index by_code on item (code)")
    logged.enable()
    logged.cdc.enable_table("item", index_name="by_code", role_name=None)
    logged.cdc.reinitialize("to see whether the index stays")
    kept = last_definition(logged)
    assert (kept.index_name, kept.supports_net_changes) == ("by_code", True)
    logged.execute("drop index by_code")
    logged.cdc.reinitialize("to see what becomes of it without")
    without = last_definition(logged)
    assert (without.index_name, without.supports_net_changes, without.index_columns) == (None, False, ())


def test_check_warns_of_an_index_in_use_that_was_dropped(logged: LoggedDatabase) -> None:
    logged.execute("create table item (code text not null)", "create unique index by_code on item (code)")
    logged.enable()
    logged.cdc.enable_table("item", index_name="by_code", before_images=KEY)
    logged.read_log()
    check = ("check", "--db", logged.url, "--format", "csv")
    assert "identifies rows" not in rowtide(*check).output
    assert "no primary key" not in rowtide(*check).output
    logged.execute("drop index by_code")
    output = rowtide(*check).output
    assert "no valid unique index of its table identifies rows by code any more" in output
    assert "its replica identity no longer has the key" in output


def test_a_dry_run_shows_role_and_identity(logged: LoggedDatabase) -> None:
    logged.execute("create table item (code text not null)", "create unique index by_code on item (code)")
    logged.enable()
    planned = rowtide(
        *("cdc", "enable-table", "item", "--db", logged.url, "--dry-run"),
        *("--index", "by_code", "--before-images", "key", "--role", "Some readers"),
    )
    lines = planned.output.splitlines()
    assert lines[0] == 'create role "Some readers";'
    assert 'alter table "public"."item" replica identity using index "by_code";' in lines
    assert logged.cdc.list_instances() == ()
    assert logged.execute("select 1 from pg_roles where rolname = 'Some readers'") == []


@pytest.mark.exhaustive
def test_the_index_identifies_the_rows_of_changes(captured: CapturedDatabase) -> None:
    """A change of its column is a delete and an insert; net changes have one row for each of its values."""
    captured.execute("create table item (code text not null, note text)", "create unique index by_code on item (code)")
    captured.enable()
    captured.cdc.enable_table("item", index_name="by_code", before_images=KEY)
    captured.execute(
        "insert into item values ('a', 'x'), ('b', 'y')",
        "update item set code = 'c' where code = 'a'",
        "update item set note = 'z' where code = 'b'",
        "delete from item where code = 'b'",
    )
    captured.capture()
    rows = [(2, "a"), (2, "b"), (1, "a"), (2, "c"), (4, "b"), (1, "b")]
    assert captured.values("public_item", "code", row_filter="all") == rows
    net = captured.cdc.get_net_changes("public_item", spark=captured.spark).collect()
    assert [(row["__$operation"], row["code"], row["note"]) for row in net] == [(2, "c", "x")]
