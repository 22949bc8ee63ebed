"""The interface of a subscriber to the snapshot agent, and what creating a table there needs.

The subscriber stores each chunk's snapshot in the transaction that loads the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

from sqlalchemy import Connection, text

from rowtide.copying.chunks import Chunk, CopiedChunk, CopyForm
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_TYPE_TEXT
from rowtide.replication.articles.articles import Article, GeneratedColumn
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.snapshot.objects import Need, read_table_needs


@frozen
class UniqueConstraint:
    """A unique constraint; `definition` is the SQL after its name. `is_deferrable` ones are checked late."""

    name: str
    columns: tuple[str, ...]
    definition: str
    is_deferrable: bool


@frozen
class ForeignKey:
    """A foreign key with the table that it references."""

    name: str
    columns: tuple[str, ...]
    referenced_id: int
    referenced_columns: tuple[str, ...]


@frozen
class TableDetails:
    """What creating a published table needs besides the article; `collations` are those that differ from the type's.

    `needs` must be there first.
    """

    collations: dict[str, str]
    generated: tuple[GeneratedColumn, ...]
    unique: tuple[UniqueConstraint, ...]
    foreign_keys: tuple[ForeignKey, ...]
    needs: tuple[Need, ...] = ()


def read_table_details(connection: Connection, article: Article) -> TableDetails:
    """Return collations, generated columns and constraints of an article's table."""
    table = {"table": article.source_id}
    return TableDetails(
        collations={row.name: row.collation for row in connection.execute(text(_COLLATIONS), table)},
        generated=tuple(GeneratedColumn(*row) for row in connection.execute(text(_GENERATED), table)),
        unique=tuple(
            UniqueConstraint(name, tuple(columns), definition, is_deferrable)
            for name, columns, definition, is_deferrable in connection.execute(text(_UNIQUE), table)
        ),
        foreign_keys=tuple(
            ForeignKey(name, tuple(columns), referenced, tuple(referenced_columns))
            for name, columns, referenced, referenced_columns in connection.execute(text(_FOREIGN_KEYS), table)
        ),
        needs=read_table_needs(connection, article),
    )


def count_rows(connection: Connection, articles: Iterable[Article]) -> int:
    """Return how many rows articles' tables have, as estimated when they were analyzed last."""
    given = {"tables": [article.source_id for article in articles]}
    return int(connection.execute(text(_ROWS), given).scalar_one())


_ROWS = """
select coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint
from pg_class c
where c.relkind = 'r' and exists (
    select from unnest(cast(:tables as bigint[])) wanted(id)
    where c.oid = wanted.id or c.oid in (select relid from pg_partition_tree(wanted.id::oid)))
"""
_COLLATIONS = """
select a.attname::text as name, quote_ident(n.nspname) || '.' || quote_ident(l.collname) as collation
from pg_attribute a
join pg_type t on t.oid = a.atttypid
join pg_collation l on l.oid = a.attcollation
join pg_namespace n on n.oid = l.collnamespace
where a.attrelid = :table and a.attnum > 0 and not a.attisdropped and a.attcollation <> t.typcollation
"""

_GENERATED = f"""
select a.attnum::int, a.attname::text, {COLUMN_TYPE_TEXT}, pg_get_expr(d.adbin, d.adrelid)
from pg_attribute a
join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = :table and a.attgenerated = 's' and not a.attisdropped
order by a.attnum
"""


def _columns(of: str, numbers: str) -> str:
    """Return, as an SQL expression, the names of a table's columns with these numbers, in order."""
    return f"""
    array(select a.attname::text from unnest({numbers}) with ordinality k (attnum, place)
          join pg_attribute a on a.attrelid = {of} and a.attnum = k.attnum order by place)
    """


_UNIQUE = f"""
select c.conname::text, {_columns("c.conrelid", "c.conkey")}, pg_get_constraintdef(c.oid), c.condeferrable
from pg_constraint c where c.conrelid = :table and c.contype = 'u' order by c.conname
"""

_FOREIGN_KEYS = f"""
select c.conname::text, {_columns("c.conrelid", "c.conkey")},
       c.confrelid::bigint, {_columns("c.confrelid", "c.confkey")}
from pg_constraint c where c.conrelid = :table and c.contype = 'f' and c.conparentid = 0 and c.convalidated
order by c.conname
"""


class SnapshotStatus(StrEnum):
    """Progress of a subscription's snapshot; stored at the subscriber, and only moves forward."""

    COPYING = "copying"
    """Set when the subscription is created."""
    HANDING_OVER = "handing over"
    """Set by the snapshot agent when all chunks are loaded: the changes that they lack are delivered."""
    DELIVERED = "delivered"
    """Set by the distribution agent after that; and from the start if nothing is copied."""


@frozen
class SubscriptionSnapshot:
    """A subscription's snapshot; chunks in the order of articles and numbers.

    `end`: no chunk contains commits there or later; None until all are copied.
    """

    status: SnapshotStatus
    end: Position | None
    missing: tuple[Chunk, ...]
    copied: tuple[CopiedChunk, ...]


class SnapshotTarget(Protocol):
    """A subscriber that is copied to. Raises `CopyRefused`, and `AgentReplaced` if another agent has taken over."""

    def read_state(self) -> SubscriptionSnapshot:
        """Return the snapshot's progress."""

    def read_articles(self, articles: Sequence[Article]) -> tuple[Article, ...]:
        """Return articles as the subscriber has them, after the schema changes that it has applied."""

    def alter(self, followed: Followed) -> None:
        """Bring a table through a schema change, and copy its rows again.

        Raises `AlterationRefused` for an added or a dropped column, else `CopyRefused`.
        """

    def choose_form(self, article: Article) -> CopyForm:
        """Return the form in which it takes an article's rows."""

    def load(
        self, chunk: CopiedChunk, article: Article, form: CopyForm
    ) -> AbstractContextManager[Callable[[bytes], None]]:
        """Yield a function that takes a chunk's rows in that form; the chunk is loaded whole or not at all.

        Several may be open at once, in different threads.
        """

    def discard(self, article: Article) -> None:
        """Remove an article's rows and its chunks' snapshots."""

    def begin_hand_over(self, end: Position, details: Sequence[tuple[Article, TableDetails]]) -> None:
        """Record that all chunks are loaded.

        With details of all tables, tables that were created get these constraints, not those of when they were.
        """

    def finish(self) -> None:
        """Add the tables' constraints and delete the chunk records, once `end` is delivered. Idempotent."""

    def close(self) -> None:
        """Close the connection. Idempotent."""
