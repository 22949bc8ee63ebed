"""Scripts that run at subscribers after a schema change, as recorded (SQL Server: sp_register_custom_scripting).

A script belongs to an article, and runs with the schema changes from a position of the log on, until the next one's. So
a subscriber that is behind gets each change with the script that was meant for it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Table,
    Text,
    delete,
    insert,
    select,
)

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.replication.distributor.definitions import (
    articles,
    metadata,
)
from rowtide.replication.distributor.location import distributor
from rowtide.replication.errors import publishing as errors

custom_scripts = Table(
    "MScustom_scripts",
    metadata,
    Column("article_id", Text, ForeignKey(articles.c.article_id, ondelete="cascade"), primary_key=True),
    Column("from_seqno", BigInteger, primary_key=True, comment="it runs with schema changes from this position on"),
    Column("name", Text, comment="the file, or module:function; null: from here on there is none"),
    Column("script", Text, comment="SQL; null: what the function returns"),
)


@frozen
class CustomScript:
    """A script by its name: SQL, or a Python function `module:function` that returns SQL (`text` None)."""

    name: str
    text: str | None

    @classmethod
    def of(cls, *, sql: str | None, python: str | None, name: str | None) -> CustomScript:
        """Return the script that was given: one of the two. Raises `CustomScriptInvalid`."""
        if (sql is None) is (python is None):
            raise errors.CustomScriptInvalid(
                "nothing" if sql is None else "both", "either SQL or a Python function is needed"
            )
        if sql is not None:
            if not sql.strip():
                raise errors.CustomScriptInvalid(name or "SQL", "it is empty")
            return cls(name or "SQL", sql)
        module, _, function = (python or "").partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), function)):
            raise errors.CustomScriptInvalid(python or "", "it is not of the form module:function")
        return cls(f"{module}:{function}", None)


def register(connection: Connection, article_id: str, script: CustomScript | None, start: Position) -> None:
    """Record an article's script, or that it has none, from a position on, in the caller's transaction."""
    columns = custom_scripts.c
    later = (columns.article_id == article_id) & (columns.from_seqno >= start.value)
    distributor(connection).execute(delete(custom_scripts).where(later))
    values = {"article_id": article_id, "from_seqno": start.value}
    if script is not None:
        values |= {"name": script.name, "script": script.text}
    distributor(connection).execute(insert(custom_scripts).values(values))


def find_script(connection: Connection, article_id: str, lsn: CommitLsn) -> CustomScript | None:
    """Return an article's script for the schema changes of a transaction; None if it has none."""
    columns = custom_scripts.c
    until = (columns.article_id == article_id) & (columns.from_seqno <= lsn.value)
    query = select(columns.name, columns.script).where(until).order_by(columns.from_seqno.desc()).limit(1)
    row = distributor(connection).execute(query).one_or_none()
    return None if row is None or row.name is None else CustomScript(row.name, row.script)


def list_scripts(connection: Connection) -> dict[str, str]:
    """Return the name of each article's newest script, by article id."""
    return {article_id: script.name for article_id, script in list_newest(connection).items()}


def list_newest(connection: Connection) -> dict[str, CustomScript]:
    """Return each article's newest script, by article id."""
    columns = custom_scripts.c
    query = select(columns.article_id, columns.name, columns.script).order_by(columns.from_seqno)
    newest = {row.article_id: row for row in distributor(connection).execute(query)}
    return {
        article_id: CustomScript(row.name, row.script) for article_id, row in newest.items() if row.name is not None
    }
