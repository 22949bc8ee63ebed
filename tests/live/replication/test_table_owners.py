"""Code of a subscriber's table runs with the rights of its owner, whoever delivers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from builders.commands.hints import run_printed
from builders.replication.hostile_owners import TABLE, as_owner, own_schema, publish, require_no_more_rights
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import RowsHidden, SchemaOfOthers
from rowtide.databases.source_table import RunAs
from rowtide.replication.articles.call_formats import parse_command
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.delivery import RowNotFound
from rowtide.replication.errors.subscribing import (
    OwnerTriggersDeferred,
    PartitionsOfOthers,
    ProcedureOwnerNotTrusted,
    TableOwnerNotHeld,
)
from rowtide.replication.running.subscription_agent import SubscriptionAgent
from rowtide.replication.subscription_settings import Constraints, IfExists, SubscriptionSettings, SyncType


def require_level(agent: SubscriptionAgent) -> None:
    while agent.step():
        pass


def disarm(owned: Owned) -> None:
    """Replace the owner's traps: a trusted one's could deallocate the statement that runs."""
    trying = f"create or replace function {owned.owner}.try() returns bool language sql as 'select true'"
    as_owner(owned.replicated.subscriber, owned.owner, trying)


DEFERRED = """
create constraint trigger later after insert on {owner}.other deferrable initially deferred
for each row execute function {owner}.fires()
"""


@dataclass
class Owned:
    replicated: ReplicatedDatabase
    owner: str

    @property
    def table(self) -> str:
        return f"{self.owner}.t"

    def change(self, *statements: str) -> None:
        self.replicated.publisher.execute(*(one.format(t=self.table, owner=self.owner) for one in statements))

    def subscribe(self, sync_type: SyncType = SyncType.REPLICATION_SUPPORT_ONLY, **options: Any) -> None:
        self.replicated.subscribe(sync_type, constraints=Constraints.ENFORCE, **options)

    def require_same(self) -> None:
        query = f"select id, v, format('%s', d), format('%s', k) from {self.table} order by id"
        assert self.replicated.subscriber.execute(query) == self.replicated.publisher.execute(query)
        require_no_more_rights(self.replicated.subscriber, self.owner)


@pytest.fixture(params=["replicated", "replicated_16"])
def owned(request: pytest.FixtureRequest) -> Owned:
    """A table whose owner is hostile, and is published by the name that it has."""
    replicated: ReplicatedDatabase = request.getfixturevalue(request.param)
    owner = own_schema(replicated.subscriber)
    as_owner(replicated.subscriber, owner, *(one for one in TABLE.format(owner=owner).split(";") if one.strip()))
    publish(replicated, owner)
    return Owned(replicated, owner)


def test_changes_are_made_with_the_owners_rights(owned: Owned) -> None:
    owned.subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a'), (2, 'b', null, 'b'), (3, null, 3, null)")
    owned.replicated.deliver()
    owned.change("update {t} set v = 'c\\''d' where id = 1", "update {t} set id = 5 where id = 2")
    owned.change("delete from {t} where id = 3")
    owned.replicated.deliver()
    owned.require_same()
    owned.change("truncate {t}", "insert into {t} values (9, 'x', 9, 'b')")
    owned.replicated.deliver()
    owned.require_same()


def test_missing_row_is_still_an_error(owned: Owned) -> None:
    owned.subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a')")
    owned.replicated.deliver()
    as_owner(owned.replicated.subscriber, owned.owner, f"delete from {owned.table}")
    owned.change("update {t} set v = 'b'")
    with pytest.raises(RowNotFound):
        owned.replicated.deliver()
    require_no_more_rights(owned.replicated.subscriber, owned.owner)


@pytest.mark.parametrize("if_exists", [IfExists.KEEP, IfExists.DELETE, IfExists.TRUNCATE])
def test_rows_are_copied_with_the_owners_rights(owned: Owned, if_exists: IfExists) -> None:
    if if_exists is not IfExists.KEEP:
        as_owner(owned.replicated.subscriber, owned.owner, f"insert into {owned.table} values (1, 'own'), (7, 'own')")
    owned.change("insert into {t} select i, repeat('x\\y', i), i, 'b' from generate_series(1, 1200) i")
    owned.change("insert into {t} values (0, null, null, null), (2000, E'tab\\t \\\\N \"q\" {{}}', 1, 'a')")
    owned.subscribe(SyncType.AUTOMATIC, if_exists=if_exists, chunk_bytes=200_000)
    owned.replicated.deliver()
    owned.require_same()


@pytest.mark.parametrize("streams", [1, 3])
def test_bulk_changes_are_made_with_the_owners_rights(owned: Owned, streams: int) -> None:
    # Without triggers they are sent as arrays.
    as_owner(
        owned.replicated.subscriber,
        owned.owner,
        f"drop table {owned.table}",
        f"create table {owned.table} (id int primary key, v text, d int, k {owned.owner}.kind)",
    )
    owned.subscribe(settings=SubscriptionSettings(streams=streams))
    owned.change("insert into {t} select i, i || 'v', i, 'a' from generate_series(1, 3000) i")
    owned.replicated.deliver()
    owned.change("update {t} set v = null, k = 'b' where id % 2 = 0", "delete from {t} where id % 3 = 0")
    owned.replicated.deliver()
    owned.require_same()


def test_streams_write_with_the_owners_rights(owned: Owned) -> None:
    owned.subscribe(settings=SubscriptionSettings(streams=3))
    for start in range(0, 600, 200):
        owned.change(f"insert into {{t}} select i, i || 'v', i, 'a' from generate_series({start + 1}, {start + 200}) i")
        owned.replicated.deliver()
    owned.require_same()


def test_table_is_altered_with_the_owners_rights(owned: Owned) -> None:
    owned.subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a')")
    owned.replicated.deliver()
    owned.change(
        "alter table {t} add column more {owner}.checked not null default 7",
        "insert into {t} values (2, 'b', 2, 'b', 8)",
        "alter table {t} rename column v to w",
        "update {t} set w = 'z' where id = 2",
    )
    owned.replicated.deliver()
    query = f"select id, w, more::int from {owned.table} order by id"
    assert owned.replicated.subscriber.execute(query) == owned.replicated.publisher.execute(query)
    require_no_more_rights(owned.replicated.subscriber, owned.owner)


@pytest.mark.parametrize("resolver", [Resolver.APPLY, Resolver.SKIP])
def test_conflicts_are_resolved_with_the_owners_rights(owned: Owned, resolver: Resolver) -> None:
    owned.subscribe(settings=SubscriptionSettings(conflicts=resolver))
    owned.change("insert into {t} values (1, 'a', 1, 'a'), (2, 'b', 2, 'b')")
    owned.replicated.deliver()
    as_owner(owned.replicated.subscriber, owned.owner, f"update {owned.table} set v = 'own' where id = 1")
    owned.change("update {t} set v = 'theirs' where id = 1", "delete from {t} where id = 2")
    owned.replicated.deliver()
    wanted = "theirs" if resolver is Resolver.APPLY else "own"
    assert owned.replicated.subscriber.execute(f"select id, v from {owned.table}") == [(1, wanted)]
    require_no_more_rights(owned.replicated.subscriber, owned.owner)


def test_deferred_triggers_of_other_tables_are_refused(owned: Owned) -> None:
    subscriber, owner = owned.replicated.subscriber, owned.owner
    as_owner(
        subscriber,
        owner,
        f"create table {owner}.other (id int)",
        DEFERRED.format(owner=owner),
        f"create function {owner}.adds() returns trigger language plpgsql as "
        f"'begin insert into {owner}.other values (1); return new; end'",
        f"create trigger u after insert on {owner}.t for each row execute function {owner}.adds()",
    )
    for rights in ("invoker", "definer"):
        as_owner(subscriber, owner, f"alter function {owner}.fires() security {rights}")
        with pytest.raises(OwnerTriggersDeferred):
            owned.subscribe()
    as_owner(subscriber, owner, f"drop trigger later on {owner}.other")
    owned.subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a')")
    owned.replicated.deliver()
    owned.require_same()
    as_owner(subscriber, owner, DEFERRED.format(owner=owner))
    owned.change("insert into {t} values (2, 'a', 1, 'a')")
    with pytest.raises(OwnerTriggersDeferred):
        owned.replicated.deliver()
    assert subscriber.execute(f"select count(*) from {owner}.t") == [(1,)]
    require_no_more_rights(subscriber, owner)


def test_deferred_trigger_that_comes_later_is_refused_at_commit(owned: Owned) -> None:
    subscriber, owner = owned.replicated.subscriber, owned.owner
    owned.subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a')")
    with owned.replicated.open_agent() as agent:
        owned.replicated.publisher.read_log(owned.replicated.publisher.mark())
        agent.step()
        as_owner(subscriber, owner, f"create table {owner}.other (id int)", DEFERRED.format(owner=owner))
        owned.change("insert into {t} values (2, 'a', 1, 'a')")
        owned.replicated.publisher.read_log(owned.replicated.publisher.mark())
        with pytest.raises(OwnerTriggersDeferred):
            require_level(agent)


def test_run_as_agent_trusts_the_owners(owned: Owned) -> None:
    subscriber, owner = owned.replicated.subscriber, owned.owner
    disarm(owned)
    as_owner(
        subscriber,
        owner,
        f"drop table {owner}.t",
        f"create table {owner}.t (id int primary key, v text, d int, k {owner}.kind, role text default current_user)",
    )
    owned.subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a')")
    owned.replicated.deliver()
    owned.replicated.replication.change_subscription("shop", subscriber.url, run_as=RunAs.AGENT)
    owned.change("insert into {t} values (2, 'a', 1, 'a')", "update {t} set v = 'b'")
    owned.replicated.deliver()
    assert subscriber.execute(f"select v, role from {owner}.t order by id") == [("b", owner), ("b", "postgres")]


def test_procedures_without_a_path_get_the_roles_path(owned: Owned) -> None:
    subscriber, owner = owned.replicated.subscriber, owned.owner
    disarm(owned)
    subscriber.execute(f"alter table {owner}.t owner to postgres")
    owned.subscribe(settings=SubscriptionSettings(run_as=RunAs.AGENT))
    made = "from pg_proc where pronamespace = 'rowtide_subscriber'::regnamespace and proname ~ '^sp_MS(ins|upd|del)'"
    subscriber.execute(
        "do $$ declare made record; begin "
        f"for made in select oid, pg_get_functiondef(oid) as definition {made} loop "
        "execute regexp_replace(made.definition, 'SET [^\n]*\n', '', 'g'); end loop; end $$",
        "comment on schema rowtide_subscriber is 'another build'",
    )
    assert subscriber.execute(f"select count(*) {made} and proconfig is null") == [(6,)]
    owned.change("insert into {t} values (1, 'a', 1, 'a')")
    owned.replicated.deliver()
    assert subscriber.execute(f"select count(*) {made} and proconfig is null") == [(0,)]
    subscriber.execute(
        "do $$ begin execute format('alter database %I set search_path = app', current_database()); end $$"
    )
    owned.change("insert into {t} values (2, 'a', 1, 'a')")
    owned.replicated.deliver()
    ((settings,),) = subscriber.execute(f"select distinct proconfig {made}")
    assert settings == ["search_path=app, pg_temp", "standard_conforming_strings=on"]


def test_owner_that_the_agent_is_no_member_of_is_refused(owned: Owned) -> None:
    subscriber, agent = owned.replicated.subscriber, f"{owned.owner}_agent"
    subscriber.execute(
        f"create role {agent} login",
        f"grant all on all tables in schema {owned.owner} to {agent}",
        f"grant usage on schema {owned.owner} to {agent}",
        f"do $$ begin execute format('grant create on database %I to {agent}', current_database()); end $$",
    )
    url = subscriber.url.replace("postgres@", f"{agent}@")
    owned.replicated.publisher.execute(f"grant all on schema {owned.owner} to public")

    def subscribe() -> None:
        owned.replicated.replication.add_subscription(
            "shop", url, sync_type=SyncType.REPLICATION_SUPPORT_ONLY, constraints=Constraints.ENFORCE
        )

    with pytest.raises(TableOwnerNotHeld) as refused:
        subscribe()
    run_printed(refused.value, subscriber.url)
    subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a')")
    owned.replicated.deliver()
    owned.require_same()


def test_policies_that_are_forced_on_the_owner_are_refused(owned: Owned) -> None:
    as_owner(
        owned.replicated.subscriber,
        owned.owner,
        f"alter table {owned.table} enable row level security",
        f"alter table {owned.table} force row level security",
    )
    with pytest.raises(RowsHidden):
        owned.subscribe()


def test_schema_of_owners_functions_is_not_anybodys(owned: Owned) -> None:
    owned.replicated.subscriber.execute(f"create schema rowtide_owners authorization {owned.owner}")
    with pytest.raises(SchemaOfOthers, match="rowtide_owners"):
        owned.subscribe()


def test_owners_functions_are_the_agents_alone(owned: Owned) -> None:
    owned.subscribe()
    subscriber = owned.replicated.subscriber
    other = own_schema(subscriber)
    for role in (owned.owner, other):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            subscriber.execute(f"set role {role}", "select * from rowtide_owners.nothing")
        subscriber.execute("reset role")
    ((public, owners),) = subscriber.execute(
        f"select has_schema_privilege('{other}', 'rowtide_owners', 'usage'), "
        f"has_schema_privilege('{owned.owner}', 'rowtide_owners', 'create')"
    )
    assert (public, owners) == (False, False)


def test_partitions_of_other_roles_are_refused(owned: Owned) -> None:
    subscriber, owner = owned.replicated.subscriber, owned.owner
    other = own_schema(subscriber)
    as_owner(
        subscriber,
        owner,
        f"drop table {owner}.t",
        f"create table {owner}.t (id int primary key, v text, d int, k {owner}.kind) partition by range (id)",
        f"create table {owner}.part partition of {owner}.t default",
    )
    subscriber.execute(f"alter table {owner}.part owner to {other}")
    with pytest.raises(PartitionsOfOthers):
        owned.subscribe()
    subscriber.execute(f"alter table {owner}.part owner to {owner}")
    owned.subscribe()


def test_procedures_of_other_roles_are_refused(owned: Owned) -> None:
    subscriber, owner = owned.replicated.subscriber, owned.owner
    other = own_schema(subscriber)
    as_owner(
        subscriber,
        other,
        f"create procedure {other}.deletes(int) language plpgsql as 'begin perform {other}.take(); end'",
        f"grant usage on schema {other} to public",
    )
    delete = parse_command(Operation.DELETE, f"CALL {other}.deletes")
    owned.replicated.replication.drop_article("shop", f"{owner}.t")
    owned.replicated.replication.add_article("shop", f"{owner}.t", commands={Operation.DELETE: delete})
    with pytest.raises(ProcedureOwnerNotTrusted):
        owned.subscribe()
    subscriber.execute(f"alter procedure {other}.deletes(int) owner to {owner}")
    owned.subscribe()
    owned.change("insert into {t} values (1, 'a', 1, 'a')", "delete from {t}")
    owned.replicated.deliver()
    assert subscriber.execute(f"select count(*) from {owner}.t") == [(1,)]
    require_no_more_rights(subscriber, owner)


@pytest.mark.parametrize("resolver", [None, Resolver.APPLY])
def test_repairs_are_made_with_the_owners_rights(owned: Owned, resolver: Resolver | None) -> None:
    subscriber, owner = owned.replicated.subscriber, owned.owner
    owned.subscribe(settings=SubscriptionSettings(conflicts=resolver))
    owned.change("insert into {t} values (1, 'a', 1, 'a'), (2, 'b', 2, 'b'), (3, 'c', 3, 'b')")
    owned.replicated.deliver()
    as_owner(
        subscriber,
        owner,
        f"delete from {owner}.t where id = 1",
        f"update {owner}.t set v = 'own' where id = 2",
        f"insert into {owner}.t values (9)",
        # Rows are compared as the owner, too, which could make that fail.
        f"drop function {owner}.format(text, text)",
        f"drop function {owner}.concat(text, text)",
        f"drop function {owner}.unnest(text[])",
    )
    list(owned.replicated.replication.repair("shop", wait_s=0, delete_extra=True))
    owned.replicated.deliver()
    owned.require_same()
