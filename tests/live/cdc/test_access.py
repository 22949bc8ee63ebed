"""Who may enable tables, and who may read what is captured."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cdc.errors.enabling import NotOwner, ReadingDenied, RoleNotCreated
from rowtide.cdc.errors.querying import InstanceNotReadable, InstanceUnknown
from rowtide.handle import connect

MakeRole = Callable[[str], str]


def as_role(logged: LoggedDatabase, role: str) -> ChangeDataCapture:
    return connect(logged.url.replace("postgres@", f"{role.replace(' ', '%20')}@")).cdc


def readable(cdc: ChangeDataCapture) -> list[str]:
    return [listed.capture_instance for listed in cdc.list_instances()]


def test_without_gating_role_select_on_captured_columns_suffices(make_role: MakeRole, logged: LoggedDatabase) -> None:
    clerk = make_role("login")
    logged.execute("create table item (id int primary key, name text, secret text)")
    logged.enable()
    logged.cdc.enable_table("item", capture_instance="part", columns=("id", "name"))
    logged.cdc.enable_table("item", capture_instance="whole")
    cdc = as_role(logged, clerk)
    with pytest.raises(ReadingDenied, match=f'RT-229: role {clerk} .*grant select on "public"."item" to "{clerk}"`'):
        cdc.get_all_changes("part")
    assert readable(cdc) == []
    logged.execute(f'grant select (id, name) on item to "{clerk}"')
    assert readable(cdc) == ["part"]
    assert [column.column_name for column in cdc.get_captured_columns("part")] == ["id", "name"]
    with pytest.raises(InstanceNotReadable, match="RT-22981"):
        cdc.get_captured_columns("whole")
    assert cdc.get_column_ordinal("whole", "id") is None
    logged.execute(f'grant select on item to "{clerk}"')
    assert readable(cdc) == ["part", "whole"]


def test_a_gating_role_is_made_and_only_its_members_may_read(make_role: MakeRole, logged: LoggedDatabase) -> None:
    clerk, gate = make_role("login"), make_role("nologin")
    logged.execute(f'drop role "{gate}"', "create table item (id int primary key)")
    logged.enable()
    ended = rowtide("cdc", "enable-table", "item", "--role", gate, "--db", logged.url)
    assert ended.code == 0, ended
    assert [listed.role_name for listed in logged.cdc.list_instances()] == [gate]
    logged.execute(f'grant select on item to "{clerk}"')
    cdc = as_role(logged, clerk)
    changes = (cdc.get_all_changes, cdc.get_net_changes, cdc.stream_changes)
    for ask in (*changes, cdc.get_min_lsn, cdc.get_validity_interval):
        with pytest.raises(ReadingDenied, match=f'no member of gating role {gate}.*grant "{gate}" to "{clerk}"`'):
            ask("public_item")
    assert readable(cdc) == []
    logged.execute(f'grant "{gate}" to "{clerk}"')
    assert readable(cdc) == ["public_item"]
    logged.execute(f'revoke select on item from "{clerk}"')
    with pytest.raises(ReadingDenied, match="may not select every captured column"):
        cdc.get_min_lsn("public_item")


def test_the_gating_role_stays_when_the_table_is_disabled(make_role: MakeRole, logged: LoggedDatabase) -> None:
    gate = make_role("nologin")
    logged.execute("create table item (id int primary key)")
    logged.enable()
    logged.cdc.enable_table("item", role_name=gate)
    logged.cdc.reinitialize("to see whether the role stays")
    assert [listed.role_name for listed in logged.cdc.list_instances()] == [gate]
    logged.cdc.disable_table("item")
    assert logged.execute(f"select rolname from pg_roles where rolname = '{gate}'") == [(gate,)]


def test_superusers_and_the_databases_owner_read_everything(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner, gate, chief = make_role("login"), make_role("nologin"), make_role("login superuser")
    logged.execute(
        "create table item (id int primary key)",
        f'alter database {logged.session.info.dbname} owner to "{owner}"',
    )
    logged.enable()
    logged.cdc.enable_table("item", role_name=gate)
    for role in (owner, chief):
        assert readable(as_role(logged, role)) == ["public_item"]


def test_unknown_instance_is_reported_as_unknown_to_non_owners(make_role: MakeRole, logged: LoggedDatabase) -> None:
    clerk = make_role("login")
    logged.enable()
    with pytest.raises(InstanceUnknown):
        as_role(logged, clerk).get_all_changes("public_item")


def test_only_the_owner_of_capture_enables_and_disables(make_role: MakeRole, logged: LoggedDatabase) -> None:
    clerk = make_role("login")
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    cdc = as_role(logged, clerk)
    for attempt in (
        lambda: cdc.enable_table("item", capture_instance="mine"),
        lambda: cdc.rehearsal().enable_table("item", capture_instance="mine"),
        lambda: cdc.disable_table("item"),
        lambda: cdc.rehearsal().disable_table("item"),
        cdc.disable_db,
    ):
        with pytest.raises(NotOwner, match=f"RT-22904: role {clerk} .* postgres"):
            attempt()
    assert readable(logged.cdc) == ["public_item"]


def test_role_that_cannot_be_created_is_refused_with_its_sql(make_role: MakeRole, logged: LoggedDatabase) -> None:
    owner = make_role("login replication")
    logged.execute(
        f'grant create on database {logged.session.info.dbname} to "{owner}"',
        f'create schema mine authorization "{owner}"',
    )
    cdc = as_role(logged, owner)
    cdc.enable_db(str(logged.lake))
    with logged.transaction() as connection:
        connection.execute(f'set role "{owner}"'.encode())
        connection.execute("create table mine.item (id int primary key)")
    with pytest.raises(RoleNotCreated, match='RT-22944: .*create role "Some readers"'):
        cdc.enable_table("mine.item", role_name="Some readers")
    assert cdc.enable_table("mine.item") == "mine_item"
