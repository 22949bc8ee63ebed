"""Parents and children of rows in a SQLite file, by the links of logical records."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from rowtide.databases.sqlite.quoting import quote
from rowtide.databases.sqlite.texts import from_text
from rowtide.merge.articles import ROWGUID
from rowtide.merge.nodes.sqlite.metadata.row_metadata import read_asked, table_of
from rowtide.merge.nodes.sqlite.metadata.system_tables import TOMBSTONE
from rowtide.merge.partitions.links import Link
from rowtide.merge.versions.changes import Row


def read_parents(session: sqlite3.Connection, link: Link, children: Sequence[str]) -> dict[str, str]:
    """See `Node.read_parents`."""
    return dict(read_asked(session, _linked(link, "c"), children))


def read_children(session: sqlite3.Connection, link: Link, parents: Sequence[str]) -> dict[str, str]:
    """See `Node.read_children`."""
    return dict(read_asked(session, _linked(link, "p"), parents))


def find_parents(session: sqlite3.Connection, link: Link, rows: Sequence[Row]) -> list[str | None]:
    """See `Node.find_parents`."""
    columns = [(place, link.parent.columns[other]) for place, other in link.pairs]
    same = " and ".join(f"{quote(column.name)} = ?" for _, column in columns)
    query = f"select {ROWGUID} from {table_of(link.parent)} where {same}"
    keys = ([from_text(row[place], column.type_text) for place, column in columns] for row in rows)
    found = (session.execute(query, key).fetchone() for key in keys)
    return [None if one is None else str(one[0]) for one in found]


def read_buried(session: sqlite3.Connection, nickname: int, since: int, source: int) -> list[str]:
    """See `Node.read_buried`."""
    query = f"select rowguid from {TOMBSTONE} where tablenick = ? and stamp > ? and origin is not ?"
    return [row[0] for row in session.execute(query, (nickname, since, source))]


def _linked(link: Link, listed: str) -> str:
    """Return the query of children and parents: of listed children, alias `c`, or of listed parents, alias `p`."""
    same = " and ".join(
        f"p.{quote(link.parent.columns[other].name)} = c.{quote(link.child.columns[place].name)}"
        for place, other in link.pairs
    )
    other = "p" if listed == "c" else "c"
    tables = {"c": table_of(link.child), "p": table_of(link.parent)}
    return (
        f"select c.{ROWGUID}, p.{ROWGUID} from json_each(?) k cross join {tables[listed]} {listed} "
        f"on {listed}.{ROWGUID} = k.value cross join {tables[other]} {other} on {same}"
    )
