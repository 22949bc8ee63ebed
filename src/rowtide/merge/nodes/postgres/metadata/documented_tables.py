"""The documented tables of a PostgreSQL node; see `rowtide.merge.documented`.

No view depends on a merged table, which must remain free to be altered and dropped: functions name these tables only
when they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rowtide.databases.postgres.quoting import quote_body, quote_literal, quote_qualified
from rowtide.merge.articles import Article, Partition
from rowtide.merge.definitions import SCHEMA, articles, genhistory, partition_groups, replinfo
from rowtide.merge.documented.queries import documented_queries
from rowtide.merge.nodes.postgres.metadata.row_metadata import FILTERING
from rowtide.merge.nodes.postgres.metadata.system_tables import LOG
from rowtide.merge.partitions.mapped_rows import MappedRows, mapped_filters

_PENDING = f"{SCHEMA}.pending_changes"
_MEMBERS = f"{SCHEMA}.partition_members"
_HOST_NAME, _LOGIN = "rowtide host_name()", "rowtide suser_name()"
"""What stands for a partition's values in the queries of `partition_members`."""
_PINNED = "set search_path = pg_catalog, pg_temp set standard_conforming_strings = on"
"""The settings of the functions: whoever reads the tables calls them, under any path."""
_PARTITION_ID, _PUBID = "rowtide_partition", "rowtide_pubid"


@dataclass(frozen=True, slots=True)
class _PostgresDialect:
    """See `Dialect`."""

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
    for name, query in documented_queries(_PostgresDialect()).items():
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
