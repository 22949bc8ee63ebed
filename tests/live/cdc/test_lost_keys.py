"""Keys that identify rows no longer: what cannot be told apart is refused, with a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.commands.command_lines import rowtide as run
from rowtide.cdc.enabling.joining import LostKeys
from rowtide.cdc.errors.enabling import IndexNotUsable
from rowtide.cdc.errors.querying import KeyLost
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.targets.options import ApplyEngine

if TYPE_CHECKING:
    from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase

TABLES = (
    "create table plain (id int primary key, name text)",
    "create table indexed (id int not null, name text)",
    "create unique index by_id on indexed (id)",
)
LOSSES = {
    "deferrable": ("plain", "alter table plain drop constraint plain_pkey, add primary key (id) deferrable"),
    "wider": (
        "plain",
        "alter table plain drop constraint plain_pkey, alter name set not null, add primary key (id, name)",
    ),
    "index": ("indexed", "drop index by_id"),
    "null": ("indexed", "alter table indexed alter id drop not null"),
}


def rows_of(captured: CapturedDatabase, instance: str, at: CommitLsn | None = None) -> list[tuple[object, ...]]:
    found = Lake(str(captured.lake)).get_table_as_of(instance, at, ["id", "name"]).to_arrow().read_all()
    return sorted((row["id"], row["name"]) for row in found.to_pylist())


def test_an_index_over_nulls_is_no_key(logged: LoggedDatabase) -> None:
    logged.execute(
        "create table item (id int, name text)",
        "insert into item values (null, 'a'), (null, 'b')",
        "alter table item add constraint numbered not null id not valid",
        "create unique index by_id on item (id)",
    )
    logged.enable()
    with pytest.raises(IndexNotUsable, match="index by_id of table public.item cannot identify rows: .*id"):
        logged.cdc.enable_table("item", index_name="by_id")


def test_a_deferrable_key_is_no_key(captured: CapturedDatabase) -> None:
    captured.execute(
        "create table item (id int primary key deferrable initially immediate, name text)",
        "insert into item values (1, 'a'), (2, 'b'), (3, 'c')",
    )
    captured.enable("item", snapshot=True)
    captured.copy_tables()
    captured.execute("update item set id = id + 1")
    captured.capture()

    assert rows_of(captured, "public_item") == [(2, "a"), (3, "b"), (4, "c")]
    (listed,) = captured.cdc.list_instances("public", "item")
    assert not listed.supports_net_changes


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_told", [True, False])
def test_a_lost_key_is_refused_from_then_on(captured: CapturedDatabase, loss: str, is_told: bool) -> None:  # noqa: FBT001
    table, statement = LOSSES[loss]
    instance = f"public_{table}"
    captured.execute(*TABLES, f"insert into {table} values (1, 'a'), (2, 'b')")
    captured.cdc.enable_db(str(captured.lake))
    if not is_told:
        captured.execute("drop event trigger rowtide_announce_ddl", "drop event trigger rowtide_announce_gone")
    captured.cdc.enable_table(table, index_name="by_id" if table == "indexed" else None, snapshot=True)
    captured.copy_tables()
    before = captured.cdc.get_max_lsn()
    assert before is not None
    captured.execute(statement, f"insert into {table} values (3, 'c')")
    if not is_told:
        LostKeys(open_engine(captured.url), captured.url).announce()
    captured.capture()

    lake = Lake(str(captured.lake))
    assert rows_of(captured, instance, before) == [(1, "a"), (2, "b")]
    with pytest.raises(KeyLost, match="RT-22862"):
        lake.get_table_as_of(instance)
    with pytest.raises(KeyLost, match="RT-22862"):
        lake.get_net_changes(instance)
    assert lake.get_all_changes(instance).to_arrow().read_all().num_rows
    health = run("health", "--db", captured.url)
    assert "FAILING" in health.output.upper()
    assert f"instance {instance}" in health.output


@pytest.mark.exhaustive
def test_a_key_that_is_replaced_in_one_transaction_stays(captured: CapturedDatabase) -> None:
    captured.execute(*TABLES, "insert into plain values (1, 'a')")
    captured.enable("plain", snapshot=True)
    captured.copy_tables()
    with captured.transaction() as session:
        session.execute("alter table plain drop constraint plain_pkey")
        session.execute("alter table plain add primary key (id)")
    captured.execute("insert into plain values (2, 'b')")
    captured.capture()

    assert rows_of(captured, "public_plain") == [(1, "a"), (2, "b")]


def test_a_target_stops_where_the_key_is_lost(captured: CapturedDatabase) -> None:
    captured.execute(*TABLES, "insert into plain values (1, 'a')")
    captured.enable("plain", snapshot=True)
    captured.copy_tables()
    applied = AppliedTargets(captured)
    applied.add("now", "public_plain", engine=ApplyEngine.AUTO)
    applied.follow()
    captured.execute(LOSSES["deferrable"][1], "insert into plain values (2, 'b')")
    applied.follow()

    assert "RT-22862" in str(applied.notes()["public_plain"])


def test_a_type_that_is_dropped_is_in_the_history(captured: CapturedDatabase) -> None:
    captured.execute("create type mood as enum ('well')", "create table item (id int primary key, now mood)")
    captured.enable("item")
    captured.execute("drop type mood cascade", "insert into item values (1)")
    captured.capture()

    (change,) = captured.cdc.get_ddl_history("public_item")
    assert (change.ddl_command, change.inferred) == ("drop type mood cascade", False)
