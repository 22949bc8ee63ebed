"""Tables of a SQLite file that a program made or rebuilt, and their column `rowguid`; see `RebuiltTables`.

The column's default gives each new row a UUID of version 7.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rowtide.databases.sqlite.catalogue import Table, find_table, read_triggers
from rowtide.databases.sqlite.connect import limits_of, set_defensive
from rowtide.databases.sqlite.sql_text import quote
from rowtide.databases.sqlite.values import affinity, is_numeric, stored_type
from rowtide.databases.types.strings import ANY
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.publishing import ArticleTableNotFound, RowguidUnfit
from rowtide.merge.nodes.sqlite.exact_numbers import read_columns
from rowtide.merge.nodes.sqlite.metadata.row_metadata import READER
from rowtide.merge.nodes.sqlite.metadata.system_tables import LOG
from rowtide.merge.nodes.sqlite.tables.triggers import all_trigger_names
from rowtide.merge.versions.apply import Logged, changed_columns
from rowtide.merge.versions.changes import Row
from rowtide.merge.versions.checked_metadata import read_rowguid
from rowtide.merge.versions.comparison import Malformed

_MILLISECONDS = "cast((julianday('now') - 2440587.5) * 86400000 as integer)"


def _new_rowguid(counter: str) -> str:
    """Return a UUID of version 7, as an SQL expression; a counter of 26 bits precedes its 48 random bits."""
    return (
        "(printf('%08x-%04x-7%03x-%04x-%012x', "
        f"{_MILLISECONDS} >> 16, {_MILLISECONDS} & 65535, {counter} >> 14 & 4095, 32768 | ({counter} & 16383), "
        "random() & 281474976710655))"
    )


DEFINITION = f"{ROWGUID} text not null default {_new_rowguid('last_insert_rowid()')}"
_FIRST_DEFINITION = f"{ROWGUID} text"


def index_name(article: Article) -> str:
    return f"MSmerge_rowguid_{article.nickname}"


def has_own_rowguid(table: Table) -> bool:
    """Whether a table has a usable column `rowguid`, whether the user or rowtide added it."""
    column = table.find_column(ROWGUID)
    return column is not None and table.has_unique_key(column) and not column.is_nullable


def require_uuids(session: sqlite3.Connection, table: Table) -> None:
    """Raise `RowguidUnfit` if the column `rowguid` of a table has values that are none."""
    for (rowguid,) in session.execute(f"select {ROWGUID} from {quote(table.name)}"):
        try:
            read_rowguid(rowguid)
        except Malformed as error:
            raise RowguidUnfit(table.name, f"of which {error}") from error


def require_fit_rowguid(table: Table) -> None:
    """Raise `RowguidUnfit` if a table has a column `rowguid` that is not usable."""
    column = table.find_column(ROWGUID)
    if column is None:
        return
    if "INT" in column.type_text.upper():
        raise RowguidUnfit(table.name, f"of type {column.type_text} where a UUID belongs")
    if not has_own_rowguid(table):
        raise RowguidUnfit(table.name, "which is not unique and not null")


def add_rowguid(session: sqlite3.Connection, article: Article) -> None:
    """Add the column, in the caller's transaction; the user's triggers do not fire."""
    table = quote(article.file_table)
    triggers = read_triggers(session, article.file_table)
    for name in triggers:
        session.execute(f"drop trigger {quote(name)}")
    session.execute(f"alter table {table} add column {_FIRST_DEFINITION}")
    found = find_table(session, article.file_table)
    counter = "0" if found is None or found.rowid is None else found.rowid
    session.execute(f"update {table} set {ROWGUID} = {_new_rowguid(counter)}")
    _give_default(session, article)
    session.execute(f"create unique index {index_name(article)} on {table} ({ROWGUID})")
    for statement in triggers.values():
        session.execute(statement)


def drop_rowguid(session: sqlite3.Connection, article: Article) -> None:
    """See `NodeTables.drop_rowguid`."""
    found = find_table(session, article.file_table)
    if found is None or found.find_column(ROWGUID) is None:
        return
    session.execute("savepoint rowtide_rowguid")
    try:
        session.execute(f"drop index if exists {index_name(article)}")
        session.execute(f"alter table {quote(article.file_table)} drop column {ROWGUID}")
    except sqlite3.OperationalError as error:
        if "after drop column" not in str(error):
            raise
        session.execute("rollback to rowtide_rowguid")
    session.execute("release rowtide_rowguid")


def _give_default(session: sqlite3.Connection, article: Article) -> None:
    where = "where type = 'table' and lower(name) = lower(?)"
    (sql,) = session.execute(f"select sql from main.sqlite_schema {where}", (article.file_table,)).fetchone()
    before, _, behind = sql.rpartition(_FIRST_DEFINITION)
    version = session.execute("pragma schema_version").fetchone()[0]
    set_defensive(session, is_on=False)
    session.execute("pragma writable_schema = on")
    session.execute(
        f"update main.sqlite_schema set sql = ? {where}", (before + DEFINITION + behind, article.file_table)
    )
    session.execute(f"pragma schema_version = {version + 1}")
    session.execute("pragma writable_schema = reset")
    set_defensive(session, is_on=limits_of(session) is not None)


_BATCH_ROWS = 2000
_EARLIER = "MSmerge_earlier_rowguid"


class SqliteRebuiltTables:
    """See `RebuiltTables`."""

    def __init__(self, session: sqlite3.Connection) -> None:
        self._session = session

    def find_misfits(self, article: Article) -> Sequence[str]:
        table = self._find(article)
        columns = {column.name: column for column in table.columns}
        found = [f"column {column.name} is missing" for column in article.columns if column.name not in columns]
        named = {column.name for column in article.columns} | {ROWGUID}
        found += [
            f"column {column.name}, which the publisher does not have, is not null and has no default"
            for column in table.columns
            if column.name not in named
            and not (column.is_nullable or column.is_generated)
            and column.default is None
            and not column.name.startswith("__sys")
        ]
        key = [column.name for column in article.key_columns]
        if [column.name for column in table.key_columns] != key:
            found.append(f"the primary key is not ({', '.join(key)})")
        for published in article.columns:
            column = columns.get(published.name)
            if column is None or published.type_text == ANY or is_numeric(published.type_text):
                continue
            if affinity(column.type_text, is_strict=table.is_strict) not in stored_type(published.type_text).keeping:
                declared = column.type_text or "without a type"
                found.append(f"column {column.name} is {declared}, which does not keep values of {published.type_text}")
        return found

    @contextmanager
    def rewriting(self, article: Article) -> Iterator[None]:
        session, own = self._session, all_trigger_names(article)
        triggers = read_triggers(session, article.file_table)
        for name in triggers:
            session.execute(f"drop trigger {quote(name)}")
        self._make_rowguid(article)
        yield
        for name, statement in triggers.items():
            if name not in own:
                session.execute(statement)

    def _make_rowguid(self, article: Article) -> None:
        session, table = self._session, self._find(article)
        require_type = table.find_column(ROWGUID)
        if require_type is not None and has_own_rowguid(table):
            return
        if require_type is None:
            add_rowguid(session, article)
            return
        if "INT" in require_type.type_text.upper():
            require_fit_rowguid(table)
        quoted = quote(article.file_table)
        try:
            for name in self._indexes_of_rowguid(table):
                session.execute(f"drop index {quote(name)}")
            session.execute(f"alter table {quoted} rename column {quote(require_type.name)} to {_EARLIER}")
            session.execute(f"drop index if exists {index_name(article)}")
            add_rowguid(session, article)
            first = f"select min(t.{_key(table)}) from {quoted} t where t.{_EARLIER} is not null group by t.{_EARLIER}"
            session.execute(f"update {quoted} set {ROWGUID} = {_EARLIER} where {_key(table)} in ({first})")
            session.execute(f"alter table {quoted} drop column {_EARLIER}")
        except sqlite3.Error as error:
            raise RowguidUnfit(table.name, f"which is not unique and not null: {error}") from error

    def _indexes_of_rowguid(self, table: Table) -> list[str]:
        """Return the indexes that a statement of their own made."""
        listed = self._session.execute(f"pragma main.index_list({quote(table.name)})").fetchall()
        return [
            name
            for _, name, _, origin, _ in listed
            if origin == "c"
            and any(row[2] == ROWGUID for row in self._session.execute(f"pragma main.index_info({quote(name)})"))
        ]

    def rows(self, article: Article) -> Iterator[Sequence[tuple[str, Row]]]:
        names = ", ".join([ROWGUID, *read_columns(article, "t")])
        cursor = self._session.execute(f"select {names} from {quote(article.file_table)} t")
        while batch := cursor.fetchmany(_BATCH_ROWS):
            yield [(row[0], READER.values(article, row[1:])) for row in batch]

    def set_rowguids(self, article: Article, rowguids: Mapping[str, str]) -> None:
        update = f"update {quote(article.file_table)} set {ROWGUID} = ? where {ROWGUID} = ?"
        self._session.executemany(update, [(new, old) for old, new in rowguids.items()])

    def log(
        self, article: Article, kind: Logged, rowguids: Collection[str], columns: frozenset[int] | None = None
    ) -> None:
        changed = changed_columns(article, kind, columns)
        bits = None if changed is None else "".join(str(int(each)) for each in changed)
        self._session.executemany(
            f"insert into {LOG} (tablenick, rowguid, kind, columns) values ({article.nickname}, ?, {kind.value}, ?)",
            [(rowguid, bits) for rowguid in rowguids],
        )

    def is_logged(self) -> bool:
        return self._session.execute(f"select 1 from {LOG} limit 1").fetchone() is not None

    def _find(self, article: Article) -> Table:
        table = find_table(self._session, article.file_table)
        if table is None:
            raise ArticleTableNotFound(article.file_table)
        return table


def _key(table: Table) -> str:
    """Return a column that distinguishes the table's rows."""
    return table.rowid or quote(table.key_columns[0].name)
