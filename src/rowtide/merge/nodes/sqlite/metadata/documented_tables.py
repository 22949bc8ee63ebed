"""The documented tables of a SQLite file; see `rowtide.merge.documented`.

A view in the file must not name a merged table: SQLite then refuses to alter or rename any table while that one is
rebuilt. So whether a row exists is read from the log, in its order, and the views that evaluate filters are made for
each reader, as temporary ones.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from rowtide.databases.sqlite.clock import BSN
from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.merge.articles import Article, Partition
from rowtide.merge.catalogue import list_articles, list_merged
from rowtide.merge.definitions import genhistory, partition_groups, replinfo
from rowtide.merge.documented.names import MAPPINGS
from rowtide.merge.documented.queries import documented_queries
from rowtide.merge.nodes.sqlite.metadata.row_metadata import FILTERING, table_of
from rowtide.merge.nodes.sqlite.metadata.system_tables import LOG
from rowtide.merge.partitions.mapped_rows import NOBODY, MappedRows, mapped_filters
from rowtide.merge.versions.apply import Logged

_LIVE = (Logged.INSERTED.value, Logged.UPDATED.value)
_CHANGES = (*_LIVE, Logged.DELETED.value)
# A row that REPLACE wrote has the rowguid of the one that it replaced.
_GIVEN_UP = f"select rowguid from {LOG} where kind = {Logged.REPLACED.value} and rowguid <> columns"
_LAST = (
    f"select tablenick, rowguid, max(rowid) as place from {LOG} where kind in {_CHANGES} "
    f"and rowguid not in ({_GIVEN_UP}) group by tablenick, rowguid"
)
_PENDING = (
    f"select l.tablenick, l.rowguid, l.kind in {_LIVE} as is_live, {BSN} as stamp "
    f"from ({_LAST}) p cross join {LOG} l on l.rowid = p.place"
)


@dataclass(frozen=True, slots=True)
class _SqliteDialect:
    """See `Dialect`; SQL that older versions of SQLite parse, too: they read the file's views as they open it."""

    pending: str = _PENDING
    members: str = NOBODY

    open_generation = BSN
    of_publisher = "null"

    def name(self, table: str) -> str:
        return quote(table)

    def join_generation(self, stamp: str) -> str:  # noqa: ARG002 - it is looked up by an index
        return ""

    def generation_of(self, stamp: str) -> str:
        own = f"(select nickname from {quote(replinfo.name)})"
        closed = f"h.nickname = {own} and h.genstatus = 1 and h.generation >= {stamp}"
        return f"coalesce((select min(h.generation) from {quote(genhistory.name)} h where {closed}), {BSN})"

    def nicknames(self, query: str) -> str:
        return f"(select group_concat(printf('%012x', o.n), ' ') from (select n from ({query}) order by n) o)"

    def text(self, document: str, key: str) -> str:
        return f"json_extract({document}, '$.{key}')"

    def number(self, document: str, key: str) -> str:
        return self.text(document, key)

    def names_in(self, document: str, key: str) -> str:
        names = f"(select json_extract(value, '$.name') as name from json_each({document}, '$.{key}') order by key)"
        return f"(select group_concat(o.name, ', ') from {names} o)"

    def elements(self, document: str, key: str) -> str:
        return f"json_each({document}, '$.{key}') e"

    def object_id(self, owner: str, table: str) -> str:  # noqa: ARG002 - a table of a file has none
        return "null"


def file_views() -> Mapping[str, str]:
    """Return the queries of the views in the file, by name."""
    return {name: query for name, query in documented_queries(_SqliteDialect()).items() if name not in MAPPINGS}


def make_views(connection: Connection, session: sqlite3.Connection) -> None:
    """Make all documented tables for a session, as temporary views that read the merged tables; again if they exist."""
    there = {name for (name,) in session.execute("select name from main.sqlite_schema where type = 'table'")}
    found = [article for article in list_merged(connection) if article.file_table in there]
    rows = MappedRows(quote, FILTERING, "text")
    members = [
        rows.query(row_filter, quote_literal(group.pubid), str(group.partition_id))
        for group in connection.execute(select(partition_groups))
        for row_filter in mapped_filters(
            list_articles(connection, group.pubid), Partition(group.HOST_NAME_FN, group.SUSER_NAME_FN)
        )
        if row_filter.article in found
    ]
    dialect = _SqliteDialect(
        " union all ".join(map(_pending_in, found)) or _PENDING, " union all ".join(members) or NOBODY
    )
    for name, query in documented_queries(dialect).items():
        session.execute(f"drop view if exists temp.{quote(name)}")
        session.execute(f"create temporary view {quote(name)} as {query}")


def _pending_in(article: Article) -> str:
    exists = f"exists (select 1 from {table_of(article)} t where t.rowguid = p.rowguid)"
    return (
        f"select p.tablenick, p.rowguid, {exists} as is_live, {BSN} as stamp from ({_LAST}) p "
        f"where p.tablenick = {article.nickname}"
    )
