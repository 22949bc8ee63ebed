"""The views, guards and triggers of a SQLite node, which are this build's: those of another one are replaced.

Most views are the documented tables; see `rowtide.merge.documented_views`. The definition of one more view, which
nobody reads, says which form they have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from hashlib import sha256

from sqlalchemy import Connection, select

from rowtide.core.formats import PresentStore, StoreFormat
from rowtide.core.values import frozen
from rowtide.databases.sqlite import guarding
from rowtide.databases.sqlite.catalogue import has_table
from rowtide.databases.sqlite.clock import BSN
from rowtide.databases.sqlite.guarding import CHANGES, format_creation, guard_statements
from rowtide.databases.sqlite.sql_text import quote, quote_literal
from rowtide.databases.urls import DatabaseUrl
from rowtide.merge.articles import Article, Partition
from rowtide.merge.catalogue import list_articles, list_merged
from rowtide.merge.definitions import genhistory, metadata, partition_groups, publications, replinfo, subscriptions
from rowtide.merge.documented_views.dialect import MAPPINGS, view_names
from rowtide.merge.documented_views.queries import documented_queries
from rowtide.merge.nodes.sqlite import exact_numbers
from rowtide.merge.nodes.sqlite.metadata import system_tables
from rowtide.merge.nodes.sqlite.metadata.row_metadata import FILTERING, table_of
from rowtide.merge.nodes.sqlite.metadata.system_tables import LOG
from rowtide.merge.partitions.partition_membership import NOBODY, MappedRows, mapped_filters
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


@frozen
class _SqliteCompletingDialect:
    """See `DocumentedDialect`; SQL that older versions of SQLite parse: they read the views as they open a file."""

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
    return {
        name: query for name, query in documented_queries(_SqliteCompletingDialect()).items() if name not in MAPPINGS
    }


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
    dialect = _SqliteCompletingDialect(
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


FORMAT = StoreFormat("merge metadata of the file")
FORMAT_VIEW = "MSmerge_format"
_FORM = "MSmerge_form"
TRIGGERS_FORM = "triggers of tables 2"
"""The form of the tables' triggers: a file with another one gets this build's; see `SqliteTables.prepare`."""


FORM_DIGEST = "d6b9582acb74912c"
"""`digest_form`, written down: opening a file builds no view. A test compares the two."""
_FORM_STATEMENT = f"CREATE VIEW {_FORM} as select {quote_literal(FORM_DIGEST)} as form"
"""The statement of the view that says which form this build's views, guards and triggers have."""


def digest_form() -> str:
    """Return the digest of this build's views, guards and triggers."""
    return sha256("\n".join([*file_views().values(), *_guards(), TRIGGERS_FORM]).encode()).hexdigest()[:16]


def is_complete(session: sqlite3.Connection) -> bool:
    """Whether views, guards and triggers have this build's form."""
    found = session.execute("select sql from main.sqlite_schema where name = ?", (_FORM,)).fetchone()
    return found is not None and found[0] == _FORM_STATEMENT


def is_there(session: sqlite3.Connection) -> bool:
    """Whether a file has metadata."""
    return has_table(session, system_tables.CONTENTS)


def is_prepared(session: sqlite3.Connection) -> bool:
    """Whether a file has one of the tables that say what is merged; if the other was dropped, a query of it fails."""
    found = "select 1 from main.sqlite_schema where type = 'table' and name in (?, ?)"
    return session.execute(found, (replinfo.name, publications.name)).fetchone() is not None


def find_store(url: str | DatabaseUrl) -> PresentStore | None:
    """Return a file's metadata with their format; None if it has none."""
    return guarding.find_store(url, FORMAT, FORMAT_VIEW, system_tables.CONTENTS)


def has_unsent(session: sqlite3.Connection) -> bool:
    """Whether the file of a subscriber has changes that its publisher has not received, by what the file knows."""
    return session.execute(_UNSENT).fetchone() is not None


def create(connection: Connection, session: sqlite3.Connection) -> None:
    """Create a file's metadata, in the caller's write transaction. Idempotent."""
    system_tables.create(connection, session)
    session.execute(format_creation(FORMAT_VIEW, FORMAT))
    renew(session)


def renew(session: sqlite3.Connection) -> None:
    """Give a file this build's views and guards, in the caller's write transaction. Idempotent."""
    _drop_views(session, {*view_names(), _FORM})
    for name, query in file_views().items():
        session.execute(f"create view {quote(name)} as {query}")
    session.execute(_FORM_STATEMENT)
    for statement in _guards():
        session.execute(statement)
    # The caller continues to write.
    session.execute(f"insert into {system_tables.AGENT} values (1)")


def _guards() -> Iterator[str]:
    """Yield the statements that guard all tables; lines of the log are inserted by triggers."""
    flag = system_tables.AGENT
    yield from guard_statements(system_tables.LOG, CHANGES, flag=flag)
    own = (*(table.name for table in metadata.sorted_tables), *system_tables.INDEXES, exact_numbers.EXACT)
    for table in own:
        yield from guard_statements(table, flag=flag)


def drop_views(session: sqlite3.Connection) -> None:
    """Drop our views, in the caller's write transaction."""
    _drop_views(session, {*view_names(), _FORM, FORMAT_VIEW})


def _drop_views(session: sqlite3.Connection, names: set[str]) -> None:
    present = session.execute("select name from main.sqlite_schema where type = 'view'").fetchall()
    for name in sorted(names & {name for (name,) in present}):
        session.execute(f"drop view {quote(name)}")


_UNSENT = f"""
select 1 from {publications.name} p where p.publisher not in (select nickname from {replinfo.name}) and (
    exists (select 1 from {system_tables.LOG}) or exists (
        select 1 from {system_tables.CONTENTS} c where c.origin is null and c.stamp > {{sent}}) or exists (
        select 1 from {system_tables.TOMBSTONE} t where t.origin is null and t.stamp > {{sent}}))
""".format(sent=f"(select coalesce(min(s.sentgen), 0) from {subscriptions.name} s where s.pubid = p.pubid)")
