"""The views and functions of a PostgreSQL node, which are this build's: those of another one are replaced.

Most are the documented tables; see `rowtide.merge.documented_views`. A comment on the schema says which form they have.
It is read together with the format of the metadata, by the first query, which is made in any case: a node that has this
build's form costs no further round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TypeAlias

from sqlalchemy import Connection, text

from rowtide.core.formats import StoreFormat
from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import MERGE_NODE_FORM
from rowtide.databases.postgres.alterations import execute_all
from rowtide.databases.postgres.functions import format_creation, recorded_definition
from rowtide.databases.postgres.quoting import quote_body, quote_literal, quote_qualified
from rowtide.merge.articles import Article, Partition
from rowtide.merge.catalogue import list_articles, list_publications
from rowtide.merge.definitions import SCHEMA, articles, genhistory, partition_groups, publications, replinfo
from rowtide.merge.documented_views.dialect import view_names
from rowtide.merge.documented_views.queries import documented_queries
from rowtide.merge.nodes.postgres.metadata import system_tables
from rowtide.merge.nodes.postgres.metadata.row_metadata import FILTERING
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG
from rowtide.merge.partitions.partition_membership import MappedRows, mapped_filters

_PENDING = f"{SCHEMA}.pending_changes"
_MEMBERS = f"{SCHEMA}.partition_members"
_HOST_NAME, _LOGIN = "rowtide host_name()", "rowtide suser_name()"
"""Placeholders for a partition's values in the queries of `partition_members`."""
_PINNED = "set search_path = pg_catalog, pg_temp set standard_conforming_strings = on"
"""The settings of the functions: any session that reads the tables calls them, under any path."""
_PARTITION_ID, _PUBID = "rowtide_partition", "rowtide_pubid"


@frozen
class _PostgresCompletingDialect:
    """See `DocumentedDialect`."""

    pending = f"select * from {_PENDING}()"
    members = f"select * from {_MEMBERS}()"
    of_publisher = "current_database()::text"

    @property
    def open_generation(self) -> str:
        return f"(select coalesce(max(h.generation), 0) + 1 {self._closed()})"

    def name(self, table: str) -> str:
        return quote_qualified(SCHEMA, table)

    def join_generation(self, stamp: str) -> str:
        # As a join, it is remembered by the executor: many rows have one stamp.
        seen = f"pg_visible_in_snapshot({stamp}::text::xid8, h.snapshot::pg_snapshot)"
        return f"left join lateral (select min(h.generation) as number {self._closed()} and {seen}) g on true"

    def generation_of(self, stamp: str) -> str:  # noqa: ARG002 - it is joined
        return f"coalesce(g.number, {self.open_generation})"

    def _closed(self) -> str:
        own = f"(select nickname from {self.name(replinfo.name)})"
        return f"from {self.name(genhistory.name)} h where h.snapshot is not null and h.nickname = {own}"

    def nicknames(self, query: str) -> str:
        return f"(select string_agg(lpad(to_hex(o.n), 12, '0'), ' ' order by o.n) from ({query}) o)"

    def text(self, document: str, key: str) -> str:
        return f"({document}::json ->> '{key}')"

    def number(self, document: str, key: str) -> str:
        value = self.text(document, key)
        return f"case {value} when 'true' then 1 when 'false' then 0 else {value}::int end"

    def names_in(self, document: str, key: str) -> str:
        elements = f"json_array_elements({document}::json -> '{key}') with ordinality o (value, place)"
        return f"(select string_agg(o.value ->> 'name', ', ' order by o.place) from {elements})"

    def elements(self, document: str, key: str) -> str:
        return f"lateral json_array_elements({document}::json -> '{key}') e (value)"

    def object_id(self, owner: str, table: str) -> str:
        return f"{_name_of(owner, table)}::oid"


def _name_of(owner: str, table: str) -> str:
    """Return what finds a table; one without a schema is that with our triggers."""
    tracked = "exists (select from pg_trigger t where t.tgrelid = r.oid and left(t.tgname, 8) = 'MSmerge_')"
    return (
        f"case when {owner} = '' then (select r.oid::regclass from pg_class r where r.relname = {table} and {tracked} "
        f"order by r.oid limit 1) else to_regclass(concat(quote_ident({owner}), '.', quote_ident({table}))) end"
    )


def view_statements() -> Iterator[str]:
    """Yield the statements that create the views and the functions that they call, but for `members_statement`."""
    yield _pending_statement()
    for name, query in documented_queries(_PostgresCompletingDialect()).items():
        yield f"create view {quote_qualified(SCHEMA, name)} as {query}"


def drop_functions() -> Iterator[str]:
    """Yield the statements that drop the functions that the views call."""
    for function in (_PENDING, _MEMBERS):
        yield f"drop function if exists {function}()"


def _pending_statement() -> str:
    listed = (
        f"select distinct a.nickname, a.definition::json ->> 'schema' as owner, a.definition::json ->> 'table' as name "
        f"from {quote_qualified(SCHEMA, articles.name)} a where exists (select from {LOG} l "
        "where l.tablenick = a.nickname)"
    )
    of_table = (
        "select l.tablenick, l.rowguid, case when exists (select from %s t where t.rowguid = l.rowguid) then 1 else 0 "
        f"end, max(l.stamp) from {LOG.replace('%', '%%')} l where l.tablenick = %s group by l.tablenick, l.rowguid"
    )
    body = (
        f"declare article record; place regclass; begin for article in {listed} loop "
        f"place := {_name_of('article.owner', 'article.name')}; continue when place is null; "
        f"return query execute format({quote_literal(of_table)}, place, article.nickname); end loop; end"
    )
    columns = "tablenick int, rowguid uuid, is_live int, stamp bigint"
    return (
        f"create function {_PENDING}() returns table ({columns}) language plpgsql stable {_PINNED} "
        f"as {quote_body(body)}"
    )


def members_statement(published: Mapping[str, Sequence[Article]]) -> str:
    """Return the statement that creates the function of rows in partitions, or replaces it.

    `published` has the articles of each publication that is published here, by its pubid. What fails in the end is a
    query for one partition: its filter's text is written when the function runs, as the agent writes it.
    """
    rows = MappedRows(lambda name: quote_qualified(SCHEMA, name), FILTERING, "uuid")
    groups = quote_qualified(SCHEMA, partition_groups.name)
    loops = []
    for pubid, listed in published.items():
        queries = [
            rows.query(row_filter, _PUBID, _PARTITION_ID)
            for row_filter in mapped_filters(listed, Partition(_HOST_NAME, _LOGIN))
        ]
        if queries:
            query = _with_values(" union all ".join(queries))
            of_publication = f"select * from {groups} where pubid = {quote_literal(pubid)}"
            loops.append(f"for g in {of_publication} loop return query execute {query}; end loop;")
    columns = (
        "pubid text, partition_id int, tablenick int, rowguid uuid, parent uuid, is_in int, is_held int, is_changed int"
    )
    body = f"#variable_conflict use_column\ndeclare g record; begin {' '.join(loops)} end"
    return (
        f"create or replace function {_MEMBERS}() returns table ({columns}) language plpgsql stable {_PINNED} "
        f"as {quote_body(body)}"
    )


def _with_values(query: str) -> str:
    """Return the expression that is the text of a query, with the values of partition `g`."""
    values = {
        _PUBID: "quote_literal(g.pubid)",
        _PARTITION_ID: "g.partition_id::text",
        quote_literal(_HOST_NAME): """quote_literal(coalesce(g."HOST_NAME_FN", ''))""",
        quote_literal(_LOGIN): """quote_literal(coalesce(g."SUSER_NAME_FN", ''))""",
    }
    text = quote_literal(query)
    for mark, value in values.items():
        text = f"replace({text}, {quote_literal(mark)}, {value})"
    return text


FORMAT = StoreFormat("merge metadata of the database")
_WRITTEN = (
    f"obj_description(to_regnamespace('{SCHEMA}')::oid, 'pg_namespace') as form, current_database()::text as place, "
    f"{recorded_definition(SCHEMA)} as definition"
)
FORM = f"select {_WRITTEN}"
"""The query of the form of a node's views and functions, of the database's name, and of the metadata's format."""
_NAMES_MADE = ", ".join(quote_literal(made.name) for made in (replinfo, publications))
_MADE = (
    "exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    f"where n.nspname = '{SCHEMA}' and c.relname in ({_NAMES_MADE}))"
)
"""One of the two tables is enough; if the other was dropped, a query of it fails with its name."""
STATE = f"select {_MADE}, {_WRITTEN}"
"""The query of whether a node has metadata, and of what `FORM` asks."""
_RIGHTS = "42501"
_READ_ONLY = "25006"
FUNCTIONS_FORM = "functions of triggers 3"
"""The form of the functions of the tables' triggers: a node with another one gets this build's."""
OUTDATED = (_RIGHTS, _READ_ONLY)
"""SQLSTATEs of a role or a server that may not complete a node."""


OWN_FORM = "rowtide merge 8749f9c54a5bdbb6"
"""`digest_form`, written down: opening a node builds no view. A test compares the two."""


def digest_form() -> str:
    """Return the form that this build's views and functions have."""
    return f"rowtide merge {sha256(chr(10).join([FUNCTIONS_FORM, *view_statements()]).encode()).hexdigest()[:16]}"


Placing: TypeAlias = Callable[[tuple[Article, ...]], tuple[Article, ...]]
"""Returns articles with the places of their tables."""


def create(connection: Connection, placing: Placing) -> None:
    """Create a node's metadata, in the caller's transaction. Idempotent."""
    system_tables.create(connection)
    execute_all(connection, [format_creation(SCHEMA, FORMAT)])
    renew(connection, placing)


def renew(connection: Connection, placing: Placing) -> None:
    """Give a node this build's views and functions, in the caller's transaction. Idempotent."""
    connection.execute(text(f"select pg_advisory_xact_lock({MERGE_NODE_FORM})"))
    views = sorted(set(view_names()) & set(connection.execute(text(_VIEWS), {"schema": SCHEMA}).scalars()))
    if views:
        connection.execute(text(f"drop view {', '.join(quote_qualified(SCHEMA, name) for name in views)}"))
    execute_all(connection, drop_functions())
    renew_members(connection, placing)
    execute_all(connection, view_statements())
    connection.execute(text(f"comment on schema {SCHEMA} is {quote_literal(OWN_FORM)}"))


def renew_members(connection: Connection, placing: Placing) -> None:
    """Make the function that evaluates filters for the documented tables, in the caller's transaction."""
    published: dict[str, tuple[Article, ...]] = {
        publication.pubid: placing(list_articles(connection, publication.pubid))
        for publication in list_publications(connection)
    }
    execute_all(connection, [members_statement(published)])


_VIEWS = "select relname::text from pg_class where relnamespace = to_regnamespace(:schema) and relkind = 'v'"
