"""Metadata of a PostgreSQL node that are not needed any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.clock import unseen_by
from rowtide.merge.postgres.system_tables import CONTENTS, TOMBSTONE

_TABLES = (CONTENTS, TOMBSTONE)
Session = psycopg.Connection[tuple[Any, ...]]


def lineages(session: Session, nickname: int, snapshot: str) -> Iterator[bytes]:
    """Yield the distinct lineages of a table's metadata that a generation's snapshot sees."""
    for table in _TABLES:
        distinct = f"select distinct lineage from {table} where {_seen(nickname, snapshot)} and lineage is not null"
        for (lineage,) in session.execute(sql.SQL(distinct)):
            yield bytes(lineage)


def forget(session: Session, nickname: int, snapshot: str, most: int) -> int:
    """Remove some of a table's metadata that a generation's snapshot sees, and return how many."""
    return sum(
        session.execute(
            sql.SQL(
                f"delete from {table} where ctid = any(array("
                f"select ctid from {table} where {_seen(nickname, snapshot)} limit {most}))"
            )
        ).rowcount
        for table in _TABLES
    )


def _seen(nickname: int, snapshot: str) -> str:
    return f"tablenick = {nickname} and not {unseen_by('stamp', snapshot)}"
