"""What a table's owner defines is not run with more rights than the owner has: triggers, and queries of their rows."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from builders.servers.hostile_owners import VALUES, HostileOwner, hostile_owner
from rowtide.core.anchors import Anchor
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.tracking import ChangeTracking, PurgeType, Storage

STORAGES = (Storage.ROW, Storage.SIDE)
CONTEXTS = ("", "as assignment", "as implicit")
TABLE = "create table app.t (id app.key_type primary key, v int)"


@pytest.fixture
def owner(each_server: EmbeddedServer) -> Iterator[HostileOwner]:
    with hostile_owner(each_server) as made:
        yield made


@pytest.fixture
def tracking(owner: HostileOwner) -> Iterator[ChangeTracking]:
    """Change tracking by a superuser."""
    with psycopg.connect(owner.url, autocommit=True) as session:
        yield ChangeTracking(session)


def changes_since(tracking: ChangeTracking, anchor: Anchor | None = None) -> tuple[list[tuple[object, ...]], Anchor]:
    with tracking.changes(["app.t"], anchor) as changes:
        return sorted((str(one.operation), *one.row) for one in changes), changes.anchor


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kind", VALUES)
def test_casts_of_a_tracked_key_run_as_nobody_else(
    owner: HostileOwner, tracking: ChangeTracking, kind: str, storage: Storage, context: str
) -> None:
    type_name, first, second, third = VALUES[kind]
    owner.run(TABLE.replace("app.key_type", type_name))
    tracking.enable_tracking("app.t", storage=storage)
    owner.define_casts(type_name, context)
    owner.run(f"insert into app.t values ('{first}', 1), ('{second}', 2)")
    found, anchor = changes_since(tracking)
    assert found == sorted([("insert", first, 1), ("insert", second, 2)])

    owner.run("update app.t set v = 5 where v = 1", "delete from app.t where v = 2")
    owner.run(f"insert into app.t values ('{third}', 3)")
    found, anchor = changes_since(tracking, anchor)
    assert found == [("delete", second), ("insert", third, 3), ("update", first, 5)]
    packed = tracking.pack_tombstone_key("app.t", [third])
    assert tracking.unpack_tombstone_key("app.t", packed) == (third,)
    owner.run(f"update app.t set id = '{second}' where v = 3", "truncate app.t")
    assert changes_since(tracking, anchor)[0] == [("delete", first), ("delete", third)]
    assert tracking.purge_tombstone_table_data("app.t", PurgeType.CSN_BASED, 2**62) > 0
    assert owner.sprung() == 0


@pytest.mark.parametrize("storage", STORAGES)
def test_a_key_that_becomes_of_the_owners_type_runs_nothing(
    owner: HostileOwner, tracking: ChangeTracking, storage: Storage
) -> None:
    owner.run("create table app.t (id int primary key, v int)", "insert into app.t values (1, 1), (2, 1)")
    tracking.enable_tracking("app.t", storage=storage)
    owner.define_casts("app.span", "as assignment")
    owner.try_to(
        'drop trigger "__sysTracking_key" on app.t',
        'drop trigger "__sysTracking_update" on app.t',
        'drop trigger "__sysTracking_update_key" on app.t',
        'drop trigger "__sysTracking_insert" on app.t',
        *(f'alter table app.t alter column "{name}" drop default' for name in ("__sysInsertTxBsn", "__sysChangeTxBsn")),
        """alter table app.t alter column "__sysInsertTxBsn" type app.span using '[1,2)'""",
        "alter table app.t alter column id type app.span using app.span(id, id + 1)",
    )
    owner.try_to("delete from app.t where v = 1 and id @> 1", "truncate app.t")

    assert owner.sprung() == 0


@pytest.mark.parametrize("storage", STORAGES)
def test_types_and_tables_of_the_session_hide_none(
    owner: HostileOwner, tracking: ChangeTracking, storage: Storage
) -> None:
    owner.run("create table app.t (id text primary key, v int)", "insert into app.t values ('x', 1), ('y', 1)")
    tracking.enable_tracking("app.t", storage=storage)
    _, anchor = changes_since(tracking)
    owner.run(
        *(
            f"create domain pg_temp.{name} as pg_catalog.{name} check (app.spring() is null or true)"
            for name in ("text", "uuid", "int8", "bool")
        ),
        "create temp table pg_class (oid oid, relname name)",
    )
    owner.run("update app.t set id = 'z' where id = 'y'", "delete from app.t where id = 'x'", "truncate app.t")

    assert changes_since(tracking, anchor)[0] == [("delete", "x"), ("delete", "y")]
    assert owner.sprung() == 0


def test_a_policy_is_not_evaluated_by_a_truncate(owner: HostileOwner, tracking: ChangeTracking) -> None:
    owner.run("create table app.t (id int primary key, v int)", "insert into app.t values (1, 1)")
    tracking.enable_tracking("app.t")
    _, anchor = changes_since(tracking)
    owner.run(
        "create policy trap on app.t using (app.spring() is null or true)",
        "alter table app.t enable row level security",
        "alter table app.t force row level security",
        "truncate app.t",
    )
    assert changes_since(tracking, anchor)[0] == [("delete", 1)]
    assert owner.sprung() == 0


@pytest.mark.parametrize("storage", STORAGES)
def test_partitions_are_added_by_the_owner(owner: HostileOwner, tracking: ChangeTracking, storage: Storage) -> None:
    if storage is Storage.SIDE:
        pytest.skip("partitioned tables have stamps in their rows")
    owner.run("create table app.t (id int primary key, v int) partition by range (id)")
    owner.run("create table app.t1 partition of app.t for values from (0) to (10)")
    tracking.enable_tracking("app.t", storage=storage)
    owner.run("create table app.t2 partition of app.t for values from (10) to (20)", "insert into app.t values (11, 1)")

    assert changes_since(tracking)[0] == [("insert", 11, 1)]
