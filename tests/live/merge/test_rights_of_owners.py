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
from rowtide.databases.postgres.errors import RowsHidden
from rowtide.databases.source_table import RunAs
from rowtide.diagnosis.postgres.views import check
from rowtide.diagnosis.result import CheckResult, State
from rowtide.merge.api import MergeReplication
from rowtide.merge.errors.nodes import DeferredCodeOfOwner, OwnerNotHeld, OwnersDiffer, PlannedCodeOfOwner
from rowtide.merge.errors.publishing import FilterRefused, ResolverRefused
from rowtide.merge.publishing.requests import Existing

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
            execute 'declare held_' || txid_current() || ' cursor with hold for select app.value()';
        exception when others then null; end;
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
        "create function app.holds(int) returns bool immutable language sql as $$select app.holds('x'::text)$$",
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


def publish(
    owned: Owned, device: FileMember, *, run_as: RunAs = RunAs.OWNER, columns: Sequence[str] = ("id", "v", "n")
) -> MergeReplication:
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION, run_as=run_as)
    merge.add_article(PUBLICATION, "app.item", columns=columns)
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
def test_code_of_an_owner_at_the_hub_has_its_rights(owned: Owned, device: FileMember, code: str) -> None:
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
def test_code_of_an_owner_at_a_subscriber_has_its_rights(
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


DEFERRED = (
    "create constraint trigger later after insert or update or delete on app.{table} deferrable initially deferred "
    "for each row execute function app.spring()"
)


@pytest.mark.parametrize("rights", ["invoker", "definer"])
def test_a_deferred_trigger_is_refused(owned: Owned, device: FileMember, rights: str) -> None:
    """Also one that runs as its owner: a cursor with hold that it declares is read as the session."""
    owned.as_owner(ITEM, f"alter function app.spring() security {rights}", DEFERRED.format(table="item"))
    with pytest.raises(DeferredCodeOfOwner, match="RT-8152.*trigger later"):
        publish(owned, device)
    columns = "select attname from pg_attribute where attrelid = 'app.item'::regclass and attnum > 0"
    assert owned.run(columns) == [("id",), ("v",), ("n",)]


def test_a_deferred_trigger_of_a_trusted_author_fires(owned: Owned, device: FileMember) -> None:
    owned.as_owner(ITEM)
    owned.run(
        "create table public.seen (id integer)",
        "create function public.see() returns trigger language plpgsql security definer set search_path = pg_catalog "
        "as $$begin insert into public.seen values (new.id); return new; end$$",
        "create constraint trigger later after insert on app.item deferrable initially deferred "
        "for each row execute function public.see()",
    )
    merge = publish(owned, device)
    device.execute("insert into item (id, v) values (1, 'x')")
    merge.sync(PUBLICATION, device.url)

    assert owned.run("select id from public.seen") == [(1,)]


def test_a_deferred_key_with_a_cast_of_an_owner_is_refused(owned: Owned, device: FileMember) -> None:
    """Its check calls the cast, at the commit."""
    owned.as_owner(
        "create type app.kind as enum ('a', 'b')",
        "create function app.number(app.kind) returns integer language sql immutable as 'select 1'",
        "create cast (app.kind as integer) with function app.number(app.kind) as implicit",
        ITEM,
        "create table app.line (id integer primary key, item app.kind, "
        "foreign key (item) references app.item deferrable initially deferred)",
    )
    with pytest.raises(DeferredCodeOfOwner, match="constraint line_item_fkey of app"):
        publish(owned, device)


def test_check_lists_tables_of_other_owners(owned: Owned, device: FileMember) -> None:
    owned.as_owner(ITEM)
    publish(owned, device)
    (found,) = said(owned)
    assert (found.state, "rights" in found.message, owned.role in found.message) == (State.HEALTHY, True, True)
    owned.as_owner("create table app.fed (id integer)", DEFERRED.format(table="fed"))
    (found,) = said(owned)
    assert (found.state, "RT-8152" in found.message) == (State.FAILING, True)
    MergeReplication(owned.url).change_publication(PUBLICATION, run_as=RunAs.AGENT)
    assert [each.message for each in said(owned)] == [
        f'belongs to "{owned.role}": its code runs with the rights of "postgres"'
    ]


def said(owned: Owned) -> list[CheckResult]:
    return [each for each in check(owned.url).results if each.subject == "app.item"]


def test_a_deferred_trigger_that_comes_later_stops_all(owned: Owned, device: FileMember) -> None:
    """An immediate one makes it, on another table, which it feeds."""
    owned.as_owner(
        ITEM,
        "create table app.fed (id integer)",
        f"create function app.feed() returns trigger language plpgsql as $$begin execute "
        f"'{DEFERRED.format(table='fed')}'; insert into app.fed values (1); return new; end$$",
    )
    merge = publish(owned, device)
    owned.as_owner("create trigger feed after insert on app.item for each row execute function app.feed()")
    device.execute("insert into item (id, v) values (1, 'x')")
    with pytest.raises(DeferredCodeOfOwner):
        merge.sync(PUBLICATION, device.url)

    assert owned.run("select count(*) from app.item") == [(0,)]
    assert owned.rights_gained() == []


def test_who_trusts_the_owners_lets_their_code_run_as_the_agent(owned: Owned, device: FileMember) -> None:
    owned.as_owner(ITEM, *CODE["row triggers"][1:], DEFERRED.format(table="item"))
    work(device, publish(owned, device, run_as=RunAs.AGENT))

    assert owned.run("select distinct who from app.trap") == [("postgres",)]
    assert [each.run_as for each in MergeReplication(owned.url).list_publications()] == ["agent"]


def test_a_table_that_hides_rows_from_its_owner_is_refused(owned: Owned, device: FileMember) -> None:
    owned.as_owner(ITEM, "alter table app.item enable row level security")
    merge = publish(owned, device)
    device.execute("insert into item (id, v) values (1, 'x')")
    merge.sync(PUBLICATION, device.url)
    assert owned.run("select id from app.item") == [(1,)]

    owned.as_owner("alter table app.item force row level security", "create policy p on app.item using (id > 1)")
    device.execute("update item set v = 'y'")
    with pytest.raises(RowsHidden, match="no force row level security"):
        merge.sync(PUBLICATION, device.url)
    owned.as_owner("alter table app.item no force row level security")
    merge.sync(PUBLICATION, device.url)

    assert owned.run("select v from app.item") == [("y",)]


def test_a_partition_of_another_owner_is_refused(owned: Owned, device: FileMember) -> None:
    other = f"{owned.role}_other"
    owned.run(f"create role {other}", f"grant create, usage on schema app to {other}")
    owned.as_owner(
        "create table app.item (id integer primary key, v text, n integer) partition by range (id)",
        "create table app.few partition of app.item for values from (0) to (100)",
    )
    owned.run(f"alter table app.few owner to {other}")
    try:
        with pytest.raises(OwnersDiffer, match=other):
            publish(owned, device)
        owned.run(f"alter table app.few owner to {owned.role}")
        MergeReplication(owned.url).add_article(PUBLICATION, "app.item")
    finally:
        owned.run(f"drop owned by {other}", f"drop role {other}")


def test_an_agent_that_may_not_act_as_the_owner_is_refused(owned: Owned) -> None:
    agent = f"{owned.role}_agent"
    name = psycopg.conninfo.conninfo_to_dict(owned.url)["dbname"]
    owned.run(
        f"create role {agent} login", f"grant create on database {name} to {agent}", f"grant {owned.role} to {agent}"
    )
    owned.as_owner(*CODE["row triggers"])
    url = owned.url.replace("postgres@", f"{agent}@")
    merge = MergeReplication(url)
    try:
        merge.add_publication(PUBLICATION)
        owned.run(f"revoke {owned.role} from {agent}", f"grant usage on schema app to {agent}")
        with pytest.raises(OwnerNotHeld, match=f'grant "{owned.role}" to "{agent}"'):
            merge.add_article(PUBLICATION, "app.item")
        owned.run(f"grant {owned.role} to {agent}")
        merge.add_article(PUBLICATION, "app.item")
    finally:
        owned.run(f"drop owned by {agent} cascade", f"drop role {agent}")


def test_an_agent_that_is_only_a_member_writes_as_the_owner(owned: Owned, device: FileMember) -> None:
    """The owner is a group that cannot log in."""
    agent = f"{owned.role}_agent"
    name = psycopg.conninfo.conninfo_to_dict(owned.url)["dbname"]
    owned.as_owner(*CODE["row triggers"])
    owned.run(
        f"create role {agent} login bypassrls",
        f"grant create on database {name} to {agent}",
        f"grant {owned.role} to {agent}",
        f"alter role {owned.role} nologin",
    )
    try:
        hub = Owned(owned.url.replace("postgres@", f"{agent}@"), owned.role, owned.session)
        work(device, publish(hub, device))
        assert owned.rights_gained() == []
        assert owned.count_calls()
        assert owned.run("select count(*) from app.item where v is distinct from 'refused'") == [(5,)]
    finally:
        owned.run(f"drop owned by {agent} cascade", f"drop role {agent}")


def test_a_temporary_table_with_a_name_of_ours_is_not_used(owned: Owned, device: FileMember) -> None:
    owned.as_owner(
        ITEM,
        "create function app.make() returns trigger language plpgsql as $$begin "
        "create temporary table rowtide_applied (tablenick int, rowguid uuid); return new; end$$",
        "create trigger a before insert on app.item for each row execute function app.make()",
    )
    merge = publish(owned, device)
    device.execute("insert into item (id, v) values (1, 'x')")
    summary = merge.sync(PUBLICATION, device.url)

    assert summary.upload.total.inserts == 0
    (kept,) = merge.list_conflicts(PUBLICATION)
    assert "temporary table of another role" in kept.reason_text


def test_keys_move_with_the_rows_that_reference_them(owned: Owned, device: FileMember) -> None:
    owned.as_owner(
        *CODE["row triggers"],
        "create table app.line (id integer primary key, item integer references app.item, v text)",
        "create trigger a before insert or update or delete on app.line for each row execute function app.spring()",
    )
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION)
    for table in ("app.item", "app.line"):
        merge.add_article(PUBLICATION, table)
    merge.add_subscription(PUBLICATION, device.url)
    device.execute(
        "insert into item (id, v) values (1, 'a'), (2, 'b')", "insert into line (id, item, v) values (1, 1, 'x')"
    )
    merge.sync(PUBLICATION, device.url)
    device.execute("pragma foreign_keys = off", "update item set id = id + 10", "update line set item = 11")
    merge.sync(PUBLICATION, device.url)

    assert owned.run("select i.id, l.v from app.item i left join app.line l on l.item = i.id order by 1") == [
        (11, "x"),
        (12, None),
    ]
    assert owned.rights_gained() == []


def test_a_new_column_is_added_with_the_owners_rights(owned: Owned, device: FileMember) -> None:
    """At a subscriber, whose table's owner is another one than the role that follows."""
    device.execute(
        "create table item (id integer primary key, v text, n integer)", "insert into item values (1, 'a', 1)"
    )
    merge = MergeReplication(device.url)
    merge.add_publication(PUBLICATION)
    merge.add_article(PUBLICATION, "item")
    merge.add_subscription(PUBLICATION, owned.url)
    owned.run(f"grant create, usage on schema public to {owned.role}", f"alter table item owner to {owned.role}")
    owned.as_owner(
        "create trigger a before insert or update on public.item for each row execute function app.spring()",
        "alter table public.item add check (app.holds(v))",
    )
    device.execute("alter table item add column m integer default 5")
    merge.sync(PUBLICATION, owned.url)

    assert owned.run("select id, v, n, m from item") == [(1, "a", 1, 5)]
    assert owned.rights_gained() == []


def test_two_owners_have_the_rights_of_each(owned: Owned, device: FileMember) -> None:
    other = f"{owned.role}_other"
    owned.run(f"create role {other}", f"create schema his authorization {other}")
    owned.as_owner(*CODE["row triggers"], f"grant usage on schema app to {other}")
    owned.run(
        "create table his.thing (id integer primary key, who text)",
        "create function his.note() returns trigger language plpgsql as "
        "$$begin new.who := current_user; set search_path = evil; return new; end$$",
        "create trigger a before insert on his.thing for each row execute function his.note()",
        f"alter table his.thing owner to {other}",
    )
    try:
        merge = publish(owned, device)
        merge.add_article(PUBLICATION, "his.thing")
        merge.sync(PUBLICATION, device.url)
        device.execute("insert into item (id, v) values (1, 'x')", "insert into thing (id) values (1)")
        merge.sync(PUBLICATION, device.url)
        assert owned.run("select * from (select id, who from his.thing) t") == [(1, other)]
        assert owned.rights_gained() == []
    finally:
        merge.drop_subscription(PUBLICATION, device.url)
        merge.drop_publication(PUBLICATION)
        owned.run(f"drop owned by {other} cascade", f"drop role {other}")


PLANNED = {
    "an index on a constant": "create index on app.item ((app.same('x')))",
    "a predicate on a constant": "create index on app.item (id) where app.holds('x') and v is not null",
    "a function in SQL": "create index on app.item (app.inlined(v))",
    "statistics": "create statistics app.s on (app.same('x')), (lower(v)) from app.item",
}


@pytest.mark.parametrize("code", PLANNED)
def test_what_the_planner_would_run_is_refused(owned: Owned, code: str) -> None:
    inlined = "create function app.inlined(text) returns text immutable language sql as $$select concat_($1)$$"
    owned.as_owner(ITEM, inlined.replace("concat_($1)", "app.same('x') || $1"), PLANNED[code])
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION)
    with pytest.raises(PlannedCodeOfOwner, match="RT-8153"):
        merge.add_article(PUBLICATION, "app.item")

    assert owned.rights_gained() == []


RESOLVE = """
create function app.resolve(text, text, uuid, text, app.item, app.item) returns app.item language plpgsql as $$begin
insert into app.trap values (current_user); set search_path = evil; $6.v := concat('%', $5.v, $6.v); return $6; end$$
"""


def test_a_procedure_has_its_authors_rights(owned: Owned, device: FileMember) -> None:
    owned.as_owner(ITEM, RESOLVE)
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION)
    merge.add_article(PUBLICATION, "app.item", resolver="procedure:app.resolve")
    merge.add_subscription(PUBLICATION, device.url)
    owned.as_owner("insert into app.item values (1, 'a', 1)")
    merge.sync(PUBLICATION, device.url)
    owned.as_owner("update app.item set v = 'h'")
    device.execute("update item set v = 'd'")
    merge.sync(PUBLICATION, device.url)

    assert owned.run("select v from app.item") == [("%hd",)]
    assert owned.count_calls()
    assert owned.rights_gained() == []


def test_a_procedure_of_a_third_role_is_refused(owned: Owned) -> None:
    """Also one that runs as its author: what it declares is read with the rights of the session."""
    owned.run("create table item (id integer primary key, v text)")
    owned.as_owner(RESOLVE.replace("app.item", "public.item"))
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION)
    for rights in ("invoker", "definer"):
        owned.as_owner(f"alter function app.resolve security {rights}")
        with pytest.raises(ResolverRefused, match=f"belongs to {owned.role}"):
            merge.add_article(PUBLICATION, "item", resolver="procedure:app.resolve")
    owned.run("alter function app.resolve owner to postgres")

    merge.add_article(PUBLICATION, "item", resolver="procedure:app.resolve")


def test_conflicts_of_keys_and_columns_are_decided_as_ever(owned: Owned, device: FileMember) -> None:
    owned.as_owner(
        "create domain app.kind as text check (app.holds(value))",
        "create domain app.number as integer check (app.holds('x'))",
        "create table app.item (id app.number primary key, v app.kind, n integer)",
        *CODE["row triggers"][1:],
        "insert into app.item values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)",
    )
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION)
    merge.add_article(PUBLICATION, "app.item", column_tracking=True, resolver="additive:n")
    merge.add_subscription(PUBLICATION, device.url)
    # Two rows exchange their keys; two have one key; two ends add to one number.
    device.execute(
        "update item set id = 9 where id = 1",
        "update item set id = 1 where id = 2",
        "update item set id = 2 where id = 9",
    )
    owned.as_owner("insert into app.item values (5, 'hub', 5)", "update app.item set n = n + 10 where id = 3")
    device.execute("insert into item (id, v, n) values (5, 'device', 6)", "update item set n = n + 100 where id = 3")
    summary = merge.sync(PUBLICATION, device.url)
    merge.sync(PUBLICATION, device.url)

    here = owned.run("select id::integer, v::text, n from app.item order by id")
    assert here == [(1, "b", 2), (2, "a", 1), (3, "c", 113), (5, "hub", 5)]
    assert device.rows("item", "id, v, n") == here
    assert summary.upload.total.conflicts == 2
    assert owned.rights_gained() == []


def test_a_filter_does_not_run_casts_of_an_owner(owned: Owned) -> None:
    owned.as_owner(
        "create type app.mood as enum ('a', 'b')",
        "create function app.as_text(app.mood) returns text language plpgsql as "
        "$$begin perform app.value(); return 'a'; end$$",
        "create cast (app.mood as text) with function app.as_text(app.mood) as implicit",
        "create table app.item (id integer primary key, m app.mood)",
        "insert into app.item values (1, 'a')",
    )
    merge = MergeReplication(owned.url)
    merge.add_publication(PUBLICATION)
    with pytest.raises(FilterRefused, match="column m has a type of"):
        merge.add_article(PUBLICATION, "app.item", where="m = 'a'")
    merge.add_article(PUBLICATION, "app.item", where="id = 1")

    assert owned.rights_gained() == []


NO_KEYS = {
    "enum": ("create type app.key as enum ('a', 'b')", "a", "b", "c"),
    "range": ("create type app.key as range (subtype = integer)", "[1,2)", "[2,3)", "[5,1)"),
    "domain": ("create domain app.key as text check (value <> 'c')", "a", "b", "c"),
    "array": (
        "create domain app.one as text check (value <> 'c'); create domain app.key as app.one[]",
        "{a}",
        "{b}",
        "{c}",
    ),
}
"""How a type of the owner's is made, two keys of it, and a text that is none."""


@pytest.mark.parametrize("kind", NO_KEYS)
def test_a_key_that_an_owners_type_lacks_is_refused_alone(owned: Owned, device: FileMember, kind: str) -> None:
    """What a device's file has is not checked there; the row's key is looked for once it is refused."""
    made, first, taken, lacking = NO_KEYS[kind]
    owned.as_owner(
        made, f"create table app.item (m app.key primary key, v text); insert into app.item values ('{first}')"
    )
    merge = publish(owned, device, columns=["m", "v"])
    owned.as_owner(f"insert into app.item values ('{taken}', 'of the hub')")
    device.execute(
        f"insert into item (m, v) values ('{taken}', 'x')",
        f"insert into item (m, v) values ('{lacking}', 'x')",
        f"update item set v = 'y' where m = '{first}'",
    )
    summary = merge.sync(PUBLICATION, device.url)
    assert summary.upload.total.refused == 1
    assert owned.run("select v from app.item order by v") == [("of the hub",), ("y",)]
    kinds = {(each.losing_row or "", each.conflict_type) for each in merge.list_conflicts()}
    assert {lacking in row for row, _ in kinds} == {True, False}
    # Rows that exchange keys are looked for, too.
    device.execute(f"delete from item where m = '{first}'", f"insert into item (m, v) values ('{first}', 'again')")
    assert merge.sync(PUBLICATION, device.url).upload.total.refused == 1
    assert owned.run("select v from app.item order by v") == [("again",), ("of the hub",)]
    assert owned.rights_gained() == []


def test_casts_of_an_owner_run_with_its_rights(owned: Owned, device: FileMember) -> None:
    """In both directions: an enumeration's text is that of its output function."""
    owned.as_owner(
        "create type app.mood as enum ('a', 'b')",
        "create function app.as_text(app.mood) returns text language plpgsql as "
        "$$begin perform app.value(); return 'wrong'; end$$",
        "create cast (app.mood as text) with function app.as_text(app.mood) as assignment",
        "create function app.as_mood(text) returns app.mood language plpgsql as "
        "$$begin perform app.value(); return 'b'; end$$",
        "create cast (text as app.mood) with function app.as_mood(text) as assignment",
        "create table app.item (m app.mood primary key, v text, n integer)",
        "insert into app.item values ('a', 'x', 1)",
    )
    merge = publish(owned, device, columns=["m", "v", "n"])
    device.execute("update item set v = 'y'")
    merge.sync(PUBLICATION, device.url)
    owned.as_owner("update app.item set n = 2")
    merge.sync(PUBLICATION, device.url)

    assert device.rows("item", "m, v, n") == [("a", "y", 2)]
    assert owned.run("select m::app.mood, v, n from only app.item") == [("a", "y", 2)]
    assert owned.rights_gained() == []


REPLACING = """
declare one record;
begin
    for one in select name from pg_catalog.pg_prepared_statements loop
        insert into app.prepared values (one.name);
        execute pg_catalog.format('deallocate %I', one.name);
        execute pg_catalog.format('prepare %I as select app.value()', one.name);
    end loop;
    return new;
end
"""


def test_prepared_statements_are_not_replaced_by_an_owner(owned: Owned, device: FileMember) -> None:
    """The driver prepares what it has executed several times, under names that everybody knows."""
    owned.as_owner(
        ITEM,
        "create table app.prepared (name text)",
        f"create function app.replace() returns trigger language plpgsql as $${REPLACING}$$",
        "create trigger a before insert or update on app.item for each row execute function app.replace()",
    )
    merge = publish(owned, device)
    device.execute(
        "insert into item (id, v, n) with recursive s (i) as (select 1 union all select i + 1 from s where i < 20000) "
        "select i, 'x', i from s"
    )
    merge.sync(PUBLICATION, device.url)
    device.execute("update item set n = 1")
    merge.sync(PUBLICATION, device.url)

    assert owned.rights_gained() == []
    assert owned.run("select distinct name from app.prepared") == []
