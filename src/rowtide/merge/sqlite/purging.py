"""Metadata of a SQLite node that are not needed any more."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from rowtide.merge.sqlite.system_tables import CONTENTS, TOMBSTONE

_TABLES = (CONTENTS, TOMBSTONE)


def lineages(session: sqlite3.Connection, nickname: int, generation: int) -> Iterator[bytes]:
    """Yield the distinct lineages of a table's metadata up to a generation."""
    for table in _TABLES:
        distinct = f"select distinct lineage from {table} where tablenick = ? and stamp <= ? and lineage is not null"
        for (lineage,) in session.execute(distinct, (nickname, generation)).fetchall():
            yield bytes(lineage)


def forget(session: sqlite3.Connection, nickname: int, generation: int, most: int) -> int:
    """Remove some of a table's metadata up to a generation, and return how many."""
    return sum(
        session.execute(
            f"delete from {table} where tablenick = ?1 and rowguid in "
            f"(select rowguid from {table} where tablenick = ?1 and stamp <= ?2 limit ?3)",
            (nickname, generation, most),
        ).rowcount
        for table in _TABLES
    )
