"""What rowtide creates in databases of PostgreSQL, as their catalogues have it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import psycopg
from psycopg import sql

from builders.commands.command_lines import rowtide
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect

DATABASES = ("publisher", "distributor", "subscriber", "hub", "node", "tracked")
"""The databases that are set up, by what they are; capture and the publications are the publisher's."""
_SETTINGS = {"fsync": "off", "track_commit_timestamp": "on", "max_active_replication_origins": "32"}
_TABLES = """
create schema app;
create table app.orders (id int primary key, code text unique, qty int not null default 0);
create table app.parts (id int, kind int, primary key (id, kind)) partition by list (kind);
create table app.parts_1 partition of app.parts for values in (1);
insert into app.orders values (1, 'a', 1);
"""


@dataclass(frozen=True, slots=True, order=True)
class MadeObject:
    """An object: its kind, its name, in which numbers are `<n>`, and what the public may do with it.

    `rights` says of a function with whose rights it runs, and `path` its own search_path.
    """

    kind: str
    name: str
    public: str = ""
    rights: str = ""
    path: str = ""


@contextmanager
def databases_of_all_kinds(version: Literal[16, 18]) -> Iterator[dict[str, str]]:
    """Yield the URLs of databases in which rowtide has created what it does, by their names in `DATABASES`."""
    with TemporaryDirectory() as folder:
        settings = {name: value for name, value in _SETTINGS.items() if version >= 18 or "origins" not in name}
        place = Path(folder, "server")
        place.mkdir()
        with EmbeddedServer.start(place, version=version, settings=settings) as server:
            urls = {name: server.url(name) for name in DATABASES}
            with psycopg.connect(server.url(), autocommit=True) as admin:
                for name in DATABASES:
                    admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            for name in ("publisher", "hub", "tracked"):
                with psycopg.connect(urls[name], autocommit=True) as program:
                    program.execute(_TABLES.encode())
            _set_up(urls, folder)
            yield urls


def _set_up(urls: dict[str, str], lake: str) -> None:
    publisher, subscriber, hub, node = (urls[name] for name in ("publisher", "subscriber", "hub", "node"))
    for command in (
        f"cdc enable-db --lake {lake}/lake --db {publisher}",
        f"cdc enable-table app.orders --truncate refuse --no-snapshot --db {publisher}",
        f"cdc enable-table app.p* --with-new-tables --no-snapshot --db {publisher}",
        f"replication add-publication shop --lake {lake}/lake --db {publisher}",
        f"replication add-article shop app.orders --db {publisher}",
        f"replication add-publication stock --lake {lake}/lake --db {publisher}",
        f"replication add-article stock app.parts --db {publisher}",
        f"replication add-subscription shop --subscriber {subscriber} --conflicts last-commit-time --db {publisher}",
        f"replication add-subscription stock --subscriber {subscriber} --db {publisher}",
        f"replication move-distribution {urls['distributor']} --db {publisher}",
        f"replication run --once --db {publisher}",
        f"merge add-publication shop --db {hub}",
        f"merge add-article shop app.orders --db {hub}",
        f"merge add-article shop app.parts --db {hub}",
        f"merge add-subscription shop --subscriber {node} --db {hub}",
        f"merge sync shop --subscriber {node} --db {hub}",
        f"tracking enable app.orders --storage side --db {urls['tracked']}",
        f"tracking enable app.parts --db {urls['tracked']}",
        f"merge add-device phone --publication shop --db {hub}",
        f"replication post-tracer-token shop --db {publisher}",
    ):
        ended = rowtide(*command.split(" "))
        assert ended.code == 0, (command, ended)
    # Tables that are made with their first row.
    connect(hub).merge.comment_on_conflicts(["none"], "comment", "anna")
    connect(publisher).replication.comment_on_conflicts(["none"], "comment", "anna")


def read_objects(url: str) -> list[MadeObject]:
    """Return what a database has that is not its application's, without indexes and types of tables."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(_OBJECTS.encode()).fetchall()
    return sorted({MadeObject(kind, _general(name), *others) for kind, name, *others in rows})


def _general(name: str) -> str:
    """Return a name without what differs from one database to the next."""
    name = re.sub(r"(?<=distribution_)\d+_\d+", "<n>", name)
    name = re.sub(r"(?<=_)[0-9a-f]{16}\b", "<hash>", name)
    name = re.sub(r"(truncate|whole|partition)_[0-9a-f]{8}$", r"\1_<id>", name)
    return re.sub(r"(?<=_)\d+", "<n>", name)


_OBJECTS = r"""
with ours (id, name) as (
    select oid, nspname from pg_namespace
    where nspname !~ '^pg_' and nspname not in ('information_schema', 'public', 'app'))
select 'schema' as kind, n.name, coalesce((
        select string_agg(lower(a.privilege_type), ', ' order by a.privilege_type)
        from pg_namespace s, aclexplode(s.nspacl) a where s.oid = n.id and a.grantee = 0), '') as public,
    '' as rights, '' as path
from ours n
union all
select case c.relkind when 'r' then 'table' when 'v' then 'view' when 'S' then 'sequence' else c.relkind::text end,
    n.name || '.' || c.relname, coalesce((
        select string_agg(distinct lower(a.privilege_type), ', ') from aclexplode(c.relacl) a where a.grantee = 0), '')
        || coalesce((select string_agg(distinct ', ' || lower(a.privilege_type) || ' of some columns', '')
            from pg_attribute t, aclexplode(t.attacl) a where t.attrelid = c.oid and a.grantee = 0), ''), '', ''
from pg_class c join ours n on n.id = c.relnamespace where c.relkind in ('r', 'v', 'S', 'p', 'm', 'f')
union all
select case p.prokind when 'p' then 'procedure' else 'function' end, n.name || '.' || p.proname,
    case when has_function_privilege('public', p.oid, 'execute') then 'execute' else '' end,
    case when p.prosecdef then 'its owner''s' else 'the caller''s' end,
    coalesce((select substr(one, 13) from unnest(p.proconfig) one where one like 'search_path=%'), '')
from pg_proc p join ours n on n.id = p.pronamespace
union all
select 'trigger', 'app.' || c.relname || ': ' || t.tgname, '', '', ''
from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
where not t.tgisinternal and n.nspname = 'app' and t.tgparentid = 0
union all
select 'trigger', n.name || '.' || c.relname || ': ' || t.tgname, '', '', ''
from pg_trigger t join pg_class c on c.oid = t.tgrelid join ours n on n.id = c.relnamespace where not t.tgisinternal
union all
select 'column', 'app.' || c.relname || '.' || a.attname, '', '', ''
from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'app' and c.relkind in ('r', 'p') and not c.relispartition and a.attnum > 0 and not a.attisdropped
    and a.attname not in ('id', 'code', 'qty', 'kind')
union all
select 'index', 'app.' || c.relname, '', '', '' from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'app' and c.relkind in ('i', 'I') and c.relname ~ 'sys|rowguid' and not c.relispartition
union all
select 'event trigger', evtname, '', '', '' from pg_event_trigger
union all
select 'publication', pubname, '', '', '' from pg_publication
union all
select 'replication slot', slot_name, '', '', '' from pg_replication_slots where database = current_database()
"""
