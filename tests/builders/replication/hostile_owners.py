"""A subscriber's tables whose owner tries, wherever its code runs, to get the rights of the role that delivers."""

from __future__ import annotations

from uuid import uuid4

import psycopg

from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber

_TRIED = (
    "reset role",
    "set role postgres",
    "set session authorization postgres",
    "set session_replication_role = replica",
    "set row_security = on",
    "set search_path = {owner}, pg_catalog",
    "set standard_conforming_strings = off",
    'create temp table "MSreplication_subscriptions" (subscription_guid text)',
    "create temp table rowtide_copied (c1 text)",
    "deallocate all",
    "prepare end_batch (text, text) as select {owner}.take()",
    "prepare begin_batch (text, text, text) as select {owner}.take()",
    "prepare call_1 (text, text) as select {owner}.take()",
    "prepare _pg3_0 as select {owner}.take()",
    "declare held cursor with hold for select {owner}.take()",
    "alter function rowtide_owners.execute_{oid}(text, text[]) security invoker",
    "alter role {owner} superuser",
)
_OVERLOADS = (
    ("clock_timestamp()", "timestamptz"),
    ("now()", "timestamptz"),
    ("concat(text, text)", "text"),
    ("format(text, text)", "text"),
    ("set_config(text, text, boolean)", "text"),
    ("pg_replication_origin_xact_reset()", "void"),
    ("to_regclass(text)", "regclass"),
    ("unnest(text[])", "text"),
)
TRAPS = """
create function {owner}.take() returns bool language plpgsql volatile as $$ begin
    if (select rolsuper from pg_catalog.pg_roles where rolname operator(pg_catalog.=) current_user) then
        execute 'alter role {owner} superuser';
    end if;
    return true;
end $$;
create function {owner}.try() returns bool language plpgsql as $$
declare tried text;
begin
    perform {owner}.take();
    foreach tried in array array[{tried}] loop
        begin execute tried; exception when others then null; end;
    end loop;
    return {owner}.take();
end $$;
create function {owner}.checks(anyelement) returns bool language plpgsql as 'begin return {owner}.try(); end';
create function {owner}.indexes(int) returns int language plpgsql immutable as
    'begin perform {owner}.try(); return $1; end';
create function {owner}.fires() returns trigger language plpgsql as
    'begin perform {owner}.try(); return new; end';
create function {owner}.fires_on_delete() returns trigger language plpgsql as
    'begin perform {owner}.try(); return old; end';
create domain {owner}.checked as int check ({owner}.checks(value));
create type {owner}.kind as enum ('a', 'b');
create function {owner}.casts({owner}.kind) returns text language plpgsql as
    'begin perform {owner}.take(); return format(''%s'', $1); end';
create cast ({owner}.kind as text) with function {owner}.casts({owner}.kind) as implicit;
"""
TABLE = """
create table {owner}.t (
    id int primary key, v text, d {owner}.checked, k {owner}.kind default 'a', own text default {owner}.try()::text,
    g int generated always as ({owner}.indexes(id)) stored, check ({owner}.checks(v)));
create index on {owner}.t (({owner}.indexes(id))) where id > 0;
create trigger z before insert or update on {owner}.t for each row execute function {owner}.fires();
create trigger y after insert or update on {owner}.t for each row execute function {owner}.fires();
create trigger x after insert or update or delete on {owner}.t for each statement execute function {owner}.fires();
create trigger w before delete on {owner}.t for each row execute function {owner}.fires_on_delete();
create trigger v after truncate on {owner}.t for each statement execute function {owner}.fires();
alter table {owner}.t enable always trigger z;
"""
PUBLISHED = """
create schema {owner}; create domain {owner}.checked as int; create type {owner}.kind as enum ('a', 'b');
create table {owner}.t (id int primary key, v text, d {owner}.checked, k {owner}.kind)
"""


def own_schema(subscriber: Subscriber) -> str:
    """Create a role with a schema of its name and its traps, and return the name."""
    owner = f"owner_{uuid4().hex[:12]}"
    subscriber.execute(f"create role {owner} login", f"create schema authorization {owner}")
    ((oid,),) = subscriber.execute(f"select oid from pg_roles where rolname = '{owner}'")
    tried = ", ".join("'" + one.format(owner=owner, oid=oid).replace("'", "''") + "'" for one in _TRIED)
    overloads = (
        f"create function {owner}.{signature} returns {result} language plpgsql as 'begin perform {owner}.take(); end'"
        for signature, result in _OVERLOADS
    )
    as_owner(subscriber, owner, TRAPS.format(owner=owner, tried=tried), *overloads)
    return owner


def as_owner(subscriber: Subscriber, owner: str, *statements: str) -> None:
    """Run statements of a role, in a session of its own."""
    with psycopg.connect(subscriber.url.replace("postgres@", f"{owner}@"), autocommit=True) as session:
        for statement in statements:
            session.execute(statement.encode())


def publish(replicated: ReplicatedDatabase, owner: str) -> None:
    """Publish a table of the name that the owner's has at the subscriber."""
    made = [one for one in PUBLISHED.format(owner=owner).replace("\n", " ").split(";") if one.strip()]
    replicated.publish(*made)
    replicated.replication.add_article("shop", f"{owner}.t")


def require_no_more_rights(subscriber: Subscriber, owner: str) -> None:
    """Require that a role is still none of a superuser."""
    assert subscriber.execute(f"select rolsuper from pg_roles where rolname = '{owner}'") == [(False,)]
