"""The views, guards and triggers of a SQLite node, which are this build's: those of another one are replaced.

A view that nobody asks says which form they have.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import cache
from hashlib import sha256

from sqlalchemy import Connection

from rowtide.core.formats import Format
from rowtide.core.upgrades import PresentStore
from rowtide.databases.sqlite import formats
from rowtide.databases.sqlite.catalogue import has_table
from rowtide.databases.sqlite.formats import format_creation
from rowtide.databases.sqlite.guarding import CHANGES, guard_statements
from rowtide.databases.sqlite.quoting import quote, quote_literal
from rowtide.databases.urls import DatabaseUrl
from rowtide.merge.definitions import metadata, publications, replinfo, subscriptions
from rowtide.merge.documented.names import view_names
from rowtide.merge.nodes.sqlite import exact_numbers
from rowtide.merge.nodes.sqlite.metadata import system_tables
from rowtide.merge.nodes.sqlite.metadata.documented_tables import file_views

FORMAT = Format("merge metadata of the file")
FORMAT_VIEW = "MSmerge_format"
_FORM = "MSmerge_form"
_TRIGGERS = "triggers of tables 2"
"""The form of the tables' triggers: a file with another one gets this build's; see `SqliteTables.prepare`."""


@cache
def _form() -> str:
    """Return the statement of the view that this build's views and triggers have."""
    form = sha256("\n".join([*file_views().values(), *_guards(), _TRIGGERS]).encode()).hexdigest()
    return f"CREATE VIEW {_FORM} as select {quote_literal(form[:16])} as form"


def is_complete(session: sqlite3.Connection) -> bool:
    """Whether views, guards and triggers have this build's form."""
    found = session.execute("select sql from main.sqlite_schema where name = ?", (_FORM,)).fetchone()
    return found is not None and found[0] == _form()


def is_there(session: sqlite3.Connection) -> bool:
    """Whether a file has metadata."""
    return has_table(session, system_tables.CONTENTS)


def find_store(url: str | DatabaseUrl) -> PresentStore | None:
    """Return a file's metadata with their format; None if it has none."""
    return formats.find_store(url, FORMAT, FORMAT_VIEW, system_tables.CONTENTS)


def has_unsent(session: sqlite3.Connection) -> bool:
    """Whether the file of a subscriber has changes that its publisher has not received, as far as the file knows."""
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
    session.execute(_form())
    for statement in _guards():
        session.execute(statement)
    # The caller goes on to write.
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
