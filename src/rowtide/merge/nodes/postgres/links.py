"""Parents and children of rows in a PostgreSQL database, by the links of logical records."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import psycopg

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.quoting import quote
from rowtide.merge.articles import ROWGUID
from rowtide.merge.nodes.postgres.array_texts import array_of
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import OF_TABLE, TOMBSTONE
from rowtide.merge.nodes.postgres.rows import Equal
from rowtide.merge.nodes.untyped_values import as_stored_by_server, server_type
from rowtide.merge.partitions.links import Link
from rowtide.merge.versions.changes import Row


def read_parents(session: BatchingConnection, link: Link, children: Sequence[str], equal: Equal) -> dict[str, str]:
    """See `Node.read_parents`; `equal` compares columns of the parent."""
    return dict(session.read((_linked(link, "c", equal), [uuid_array(children)]), texts=True)[0])


def read_children(session: BatchingConnection, link: Link, parents: Sequence[str], equal: Equal) -> dict[str, str]:
    """See `Node.read_children`."""
    return dict(session.read((_linked(link, "p", equal), [uuid_array(parents)]), texts=True)[0])


def find_parents(session: BatchingConnection, link: Link, rows: Sequence[Row], equal: Equal) -> list[str | None]:
    """See `Node.find_parents`."""
    try:
        with session.transaction() if session.is_in_transaction else nullcontext():
            return _find_parents(session, link, rows, equal)
    except (psycopg.DataError, UnicodeError, ValueError):
        # What the type does not have, no row has.
        return (
            [None] if len(rows) == 1 else [each for row in rows for each in find_parents(session, link, [row], equal)]
        )


def read_buried(session: BatchingConnection, nickname: int, is_later: str, source: int) -> list[str]:
    """See `Node.read_buried`; `is_later` is the condition that a stamp is after the generation."""
    query = (
        f"select rowguid from {TOMBSTONE} where {OF_TABLE} = {nickname} and {is_later} "
        f"and origin is distinct from {source}"
    )
    return [row[0] for row in session.read((query, None), texts=True)[0]]


def _find_parents(session: BatchingConnection, link: Link, rows: Sequence[Row], equal: Equal) -> list[str | None]:
    stored = [as_stored_by_server(link.child, row) for row in rows]
    columns = [link.parent.columns[other] for _, other in link.pairs]
    names = [f"v{number}" for number in range(len(columns))]
    same = " and ".join(
        f"p.{quote(column.name)} {equal(column.name)} k.{name}" for column, name in zip(columns, names, strict=True)
    )
    # As arrays of their types: a text would become some types by a function that their owner defines.
    arrays = ", ".join(f"%s::{escaped(server_type(column))}[]" for column in columns)
    query = (
        f"select k.place, p.{ROWGUID} from unnest({arrays}) with ordinality k ({', '.join(names)}, place) "
        f"join {escaped(table_of(link.parent))} p on {escaped(same)}"
    )
    values = [array_of(row[place] for row in stored) for place, _ in link.pairs]
    found = {int(place): rowguid for place, rowguid in session.read((query, values), texts=True)[0]}
    return [found.get(place) for place in range(1, len(rows) + 1)]


def _linked(link: Link, listed: str, equal: Equal) -> str:
    """Return the query of children and parents: of listed children, alias `c`, or of listed parents, alias `p`."""
    same = " and ".join(
        f"p.{quote(link.parent.columns[other].name)} {equal(link.parent.columns[other].name)} "
        f"c.{quote(link.child.columns[place].name)}"
        for place, other in link.pairs
    )
    joined = f"{table_of(link.child)} c join {table_of(link.parent)} p on {same}"
    return f"select c.{ROWGUID}, p.{ROWGUID} from {escaped(joined)} where {listed}.{ROWGUID} = any(%s::uuid[])"
