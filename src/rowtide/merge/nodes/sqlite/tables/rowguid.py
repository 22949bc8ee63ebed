"""The column `rowguid` of a SQLite table: a default gives each new row a UUID of version 7.

UUIDs increase with time, so that new rows are adjacent in indexes. Within one statement SQLite's time does not change;
a counter from the previous row's rowid orders these rows. SQLite cannot add a column with a computed default: the
column is added without, and the stored schema is edited, as SQLite documents it
(https://www.sqlite.org/lang_altertable.html, "Making Other Kinds Of Table Schema Changes").
"""

from __future__ import annotations

import sqlite3

from rowtide.databases.sqlite.catalogue import Table, find_table, read_triggers
from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.strange_files import limits_of, set_defensive
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.publishing import RowguidUnfit

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
