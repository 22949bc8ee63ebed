"""Metadata of a SQLite node that another build created: what this build has beside it is added.

A view without rows that anybody needs says which form the metadata have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from hashlib import sha256

from sqlalchemy import Connection
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from rowtide.databases.sqlite.guarding import CHANGES, guard_statements
from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.merge.definitions import complete as add_missing
from rowtide.merge.definitions import metadata
from rowtide.merge.documented.names import RENAMED, view_names
from rowtide.merge.nodes.sqlite import exact_numbers
from rowtide.merge.nodes.sqlite.metadata import system_tables
from rowtide.merge.nodes.sqlite.metadata.documented_tables import file_views

_FORM = "MSmerge_form"
_TRIGGERS = "triggers of tables 2"
"""The form of the tables' triggers: a file with another one gets this build's; see `SqliteTables.prepare`."""


@cache
def _form() -> str:
    """Return the statement of the view that this build's metadata have."""
    dialect = sqlite.dialect()
    tables = [str(CreateTable(table).compile(dialect=dialect)) for table in metadata.sorted_tables]
    raw = [f"{table} {columns}" for table, columns in system_tables.COLUMN_DEFINITIONS.items()]
    made = [*tables, *raw, *system_tables.DEFINITIONS, *file_views().values(), *_guards(), _TRIGGERS]
    form = sha256("\n".join(made).encode()).hexdigest()
    return f"CREATE VIEW {_FORM} as select {quote_literal(form[:16])} as form"


def is_complete(session: sqlite3.Connection) -> bool:
    """Whether the metadata have this build's form."""
    found = session.execute("select sql from main.sqlite_schema where name = ?", (_FORM,)).fetchone()
    return found is not None and found[0] == _form()


def is_there(session: sqlite3.Connection) -> bool:
    """Whether a file has metadata, of whichever build."""
    listed = ", ".join(quote_literal(name) for name in ("MSmerge_contents", RENAMED["MSmerge_contents"]))
    statement = f"select 1 from main.sqlite_schema where type = 'table' and name in ({listed})"
    return session.execute(statement).fetchone() is not None


def complete(connection: Connection, session: sqlite3.Connection) -> None:
    """Give a file's metadata this build's form, in the caller's write transaction. Idempotent."""
    drop_views(session)
    present = _present(session, "table")
    for old in sorted(present & set(RENAMED)):
        session.execute(f"alter table {quote(old)} rename to {quote(RENAMED[old])}")
    system_tables.create(connection, session)
    _add_columns(connection, session)
    for name, query in file_views().items():
        session.execute(f"create view {quote(name)} as {query}")
    session.execute(_form())
    for statement in _guards():
        session.execute(statement)
    # The caller goes on to write.
    session.execute(f"insert into {system_tables.AGENT} values (1)")


def _guards() -> Iterator[str]:
    """Yield the statements that guard all tables; lines of the log are inserted by triggers."""
    flag = system_tables.AGENT
    yield from guard_statements(system_tables.LOG, CHANGES, flag=flag)
    own = (*(table.name for table in metadata.sorted_tables), *system_tables.COLUMN_DEFINITIONS, exact_numbers.EXACT)
    for table in own:
        yield from guard_statements(table, flag=flag)


def drop_views(session: sqlite3.Connection) -> None:
    """Drop our views, in the caller's write transaction."""
    for name in sorted(_present(session, "view") & {*view_names(), _FORM}):
        session.execute(f"drop view {quote(name)}")


def _present(session: sqlite3.Connection, kind: str) -> set[str]:
    return {name for (name,) in session.execute("select name from main.sqlite_schema where type = ?", (kind,))}


def _add_columns(connection: Connection, session: sqlite3.Connection) -> None:
    present = {
        table: {row[1] for row in session.execute(f"pragma main.table_info({quote(table)})")}
        for table in _present(session, "table")
    }
    for statement in add_missing(present, connection.dialect):
        session.execute(statement)
    for table, definitions in system_tables.COLUMN_DEFINITIONS.items():
        for definition in definitions:
            if definition.partition(" ")[0] not in present[table]:
                session.execute(f"alter table {quote(table)} add column {definition}")
