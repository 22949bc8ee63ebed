"""The owner of a merged table does not get the agent's rights, and what its code does to the session does no harm."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, open_file_member
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import RunAs
from rowtide.merge.publishing.prepared import Existing

pytestmark = pytest.mark.live

_numbers = itertools.count(1)
SETTINGS = (
    "set search_path = evil, public, pg_catalog",
    "set standard_conforming_strings = off",
    "set rowtide.merge_agent = 'on'",
    "set row_security = on",
    "set rowtide.schemas = '{evil}'",
)
"""What code of an owner leaves behind in the session."""
ODD = "a\\' or \\\\''; create role evil superuser; --"
"""A value that ends a literal where backslashes escape."""


@dataclass
class Owned:
    """A database with a schema `app` whose owner means harm; each of its functions may be called `trap`."""

    url: str
    role: str
    session: psycopg.Connection[Any]

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements as a superuser; return the rows of the last."""
        found: list[tuple[Any, ...]] = []
        for each in statements:
            cursor = self.session.execute(each.encode())
            found = [] if cursor.description is None else cursor.fetchall()
        return found

    def as_owner(self, *statements: str) -> None:
        """Run statements in a session of the owner's."""
        with psycopg.connect(self.url, user=self.role, autocommit=True) as session:
            for each in statements:
                session.execute(each.encode())

    def rights_gained(self) -> list[tuple[Any, ...]]:
        """Return whether the owner became superuser, or its code ran as another role than it."""
        return self.run(
            f"select 'superuser' from pg_roles where rolname = '{self.role}' and rolsuper union all "
            f"select distinct who from app.trap where who <> '{self.role}'"
        )

    def count_calls(self) -> int:
        return int(self.run("select count(*) from app.trap")[0][0])


def trap(settings: Sequence[str], role: str) -> str:
    left = "; ".join(settings)
    return f"""
        begin execute 'reset role'; exception when others then null; end;
        begin execute 'set session authorization default'; exception when others then null; end;
        begin execute 'alter role {role} superuser'; exception when others then null; end;
        insert into app.trap values (current_user);
        if current_setting('application_name') like 'rowtide%' then {left}; end if;
        begin
            create temporary table item (x int); create temporary table "MSmerge_log" (x int);
        exception when others then null; end
    """


@pytest.fixture
def owned(each_server: EmbeddedServer) -> Iterator[Owned]:
    role = f"app_{next(_numbers)}"
    with psycopg.connect(each_server.url(), autocommit=True) as admin:
        admin.execute(f"create role {role} login".encode())
        try:
            with fresh_database(each_server) as url, psycopg.connect(url, autocommit=True) as session:
                owned = Owned(url, role, session)
                owned.run(f"create schema app authorization {role}", f"create schema evil authorization {role}")
                body = trap(SETTINGS, role)
                owned.as_owner(
                    "create table app.trap (who text)",
                    f"create function app.spring() returns trigger language plpgsql as $$begin {body}; "
                    "return coalesce(new, old); end$$",
                    f"create function app.value() returns text language plpgsql as $$begin {body}; "
                    "return 'default'; end$$",
                    "create function app.same(text) returns text language plpgsql immutable as $$begin "
                    "perform app.value(); return $1; end$$",
                    "create function app.holds(text) returns boolean language plpgsql immutable as $$begin "
                    "perform app.value(); return $1 is distinct from 'refused'; end$$",
                    # Closer than the server's own.
                    "create function evil.coalesce_trap(text) returns text language sql as 'select $1'",
                    f"create function evil.equal(uuid, uuid) returns boolean language plpgsql as $$begin {body}; "
                    "return true; end$$",
                    "create operator evil.= (leftarg = uuid, rightarg = uuid, function = evil.equal)",
                )
                yield owned
        finally:
            admin.execute(f"drop role {role}".encode())


@pytest.fixture
def device(tmp_path: Path) -> Iterator[FileMember]:
    with open_file_member(tmp_path / "device.db") as member:
        yield member


ITEM = "create table app.item (id integer primary key, v text, n integer)"
EVENTS = "insert or update or delete"
CODE = {
    "row triggers": [
        ITEM,
        f"create trigger a before {EVENTS} on app.item for each row execute function app.spring()",
        f"create trigger b after {EVENTS} on app.item for each row execute function app.spring()",
    ],
    "statement triggers": [
        ITEM,
        f"create trigger a before {EVENTS} on app.item for each statement execute function app.spring()",
        f"create trigger b after {EVENTS} on app.item for each statement execute function app.spring()",
    ],
    "a default": [ITEM, "alter table app.item add d text default app.value()"],
    "a generated column": [ITEM, "alter table app.item add g text generated always as (app.same(v)) stored"],
    "a check": [ITEM, "alter table app.item add check (app.holds(v))"],
    "a domain": [
        "create domain app.kind as text check (app.holds(value))",
        "create table app.item (id integer primary key, v app.kind, n integer)",
    ],
    "a domain in the key": [
        "create function app.holds(int) returns bool immutable language plpgsql as $$begin perform app.value(); return true; end$$",
        "create domain app.number as integer check (app.holds(value))",
        "create table app.item (id app.number primary key, v text, n integer)",
    ],
    "an index": [ITEM, "create index on app.item (app.same(v)) where app.holds(v)"],
    "a rule": [
        ITEM,
        "create table app.other (id integer)",
        "create trigger a before insert on app.other for each row execute function app.spring()",
        "create rule r as on update to app.item do also insert into app.other values (1)",
    ],
}


def publish(owned: Owned, device: FileMember, *, run_as: RunAs = RunAs.OWNER) -> MergeReplication:
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION, run_as=run_as)
    merge.add_article(PUBLICATION, "app.item", columns=["id", "v", "n"])
    merge.add_subscription(PUBLICATION, device.url)
    return merge


def work(device: FileMember, merge: MergeReplication) -> None:
    """Let a device upload what every statement of the writer writes."""
    device.execute(*(f"insert into item (id, v, n) values ({n}, 'x', {n})" for n in range(1, 6)))
    merge.sync(PUBLICATION, device.url)
    device.program.execute("update item set v = ?, n = 7 where id <= 2", [ODD])
    device.execute("delete from item where id = 3", "update item set id = 10 where id = 4")
    merge.sync(PUBLICATION, device.url)
    device.execute("insert into item (id, v, n) values (6, 'refused', 1), (7, 'y', 2)")
    merge.sync(PUBLICATION, device.url)


@pytest.mark.parametrize("code", CODE)
def test_code_of_an_owner_at_the_hub_runs_with_its_rights(owned: Owned, device: FileMember, code: str) -> None:
    owned.as_owner(*CODE[code])
    merge = publish(owned, device)
    work(device, merge)

    assert owned.rights_gained() == []
    assert owned.count_calls()
    here = owned.run("select id::integer, v::text, n from app.item where v is distinct from 'refused' order by id")
    assert here == [(1, ODD, 7), (2, ODD, 7), (5, "x", 5), (7, "y", 2), (10, "x", 4)]
    merge.sync(PUBLICATION, device.url)
    assert [row for row in device.rows("item", "id, v, n") if row[1] != "refused"] == sorted(here, key=repr)


@pytest.mark.parametrize("code", CODE)
def test_code_of_an_owner_at_a_subscriber_runs_with_its_rights(
    owned: Owned, device: FileMember, each_server: EmbeddedServer, code: str
) -> None:
    """The device's file is the hub here, and its tables have no schemas."""
    device.execute("create table item (id integer primary key, v text, n integer)")
    merge = MergeReplication(device.url)
    merge.add_publication(PUBLICATION)
    merge.add_article(PUBLICATION, "item")
    owned.run(f"alter database {psycopg.conninfo.conninfo_to_dict(owned.url)['dbname']} set search_path = app, public")
    owned.as_owner(*CODE[code])
    merge.subscribe_existing(PUBLICATION, owned.url, Existing.KEEP)
    device.execute(*(f"insert into item (id, v, n) values ({n}, 'x', {n})" for n in range(1, 6)))
    merge.sync(PUBLICATION, owned.url)
    device.program.execute("update item set v = ?, n = 7 where id <= 2", [ODD])
    device.execute("delete from item where id = 3", "update item set id = 10 where id = 4")
    owned.as_owner("update app.item set n = 9 where id = 5")
    merge.sync(PUBLICATION, owned.url)
    merge.sync(PUBLICATION, owned.url)

    assert owned.run("select id::integer, v::text, n from app.item order by id") == [
        (1, ODD, 7),
        (2, ODD, 7),
        (5, "x", 9),
        (10, "x", 4),
    ]
    assert owned.rights_gained() == []
    assert device.rows("item", "id, v, n") == sorted([(1, ODD, 7), (2, ODD, 7), (5, "x", 9), (10, "x", 4)], key=repr)
