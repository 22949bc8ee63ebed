"""Metadata of rows at a PostgreSQL node: read, and written from the log of users' changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import unseen_by
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.merge.articles import ROWGUID, Article, ArticleReference
from rowtide.merge.nodes.postgres.metadata.generations import Generations
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, TABLES, TOMBSTONE
from rowtide.merge.nodes.untyped_values import as_read_from_server, untyped_indexes
from rowtide.merge.partitions.belonging import FilterDialect
from rowtide.merge.versions import checked_metadata
from rowtide.merge.versions.apply import CONTENTS_COLUMNS, TOMBSTONE_COLUMNS, Tables
from rowtide.merge.versions.changes import Row
from rowtide.merge.versions.comparison import in_all_columns, move_columns
from rowtide.merge.versions.stored_metadata import Contents, Tombstone


def escaped(sql_text: str) -> str:
    """Return a part of a query with parameters, in which a percent sign is itself."""
    return sql_text.replace("%", "%%")


def table_of(article: Article) -> str:
    """Return the quoted name of an article's table with its schema."""
    return quote_qualified(article.schema or article.place, article.table)


FILTERING = FilterDialect(TABLES, table_of)


def uuid_array(rowguids: Sequence[str]) -> str:
    """Return rowguids as one array literal: psycopg would format the elements of a list one by one.

    Without their dashes, which need not travel.
    """
    return f"{{{','.join(rowguids)}}}".replace("-", "")


def sent(article: Article, values: Sequence[str | None]) -> Row:
    """Return the values of a row as they travel."""
    return as_read_from_server(article, tuple(values)) if untyped_indexes(article) else tuple(values)


ROWGUIDS = "unnest(%s::uuid[])"
"""The rowguids that a query is asked about, as its parameter."""


@frozen
class PostgresReader:
    """See `RowMetadataDialect`."""

    generations: Generations
    tables: Tables = TABLES
    asked: str = f"select {ROWGUIDS} as rowguid"
    listing: str = "json_agg({})"

    def table_of(self, article: Article) -> str:
        return table_of(article)

    def columns_of(self, article: Article) -> Sequence[str]:
        return [f"t.{quote(column.name)}" for column in article.columns]

    def contents(self, values: Sequence[str | None]) -> Contents:
        stamp, origin, priority, lineage, last, columns, own_columns, bases = values
        return Contents(
            checked_metadata.read_version(self.generations.number_of(int(stamp or 0))),
            checked_metadata.read_origin(_integer(origin)),
            checked_metadata.read_priority(_real(priority)),
            checked_metadata.read_lineage(_bytes(lineage)),
            checked_metadata.read_last(_bytes(last)),
            checked_metadata.read_columns(_bytes(columns)),
            self._own_columns(own_columns),
            checked_metadata.read_bases(bases),
        )

    def tombstone(self, values: Sequence[str | None]) -> Tombstone:
        stamp, origin, priority, lineage, last, kind = values
        return Tombstone(
            checked_metadata.read_version(self.generations.number_of(int(stamp or 0))),
            checked_metadata.read_origin(_integer(origin)),
            checked_metadata.read_priority(_real(priority)),
            checked_metadata.read_lineage(_bytes(lineage)),
            checked_metadata.read_last(_bytes(last)),
            checked_metadata.read_tombstone_type(int(kind or 0)),
        )

    def values(self, article: Article, values: Sequence[str | None]) -> Row:
        return sent(article, values)

    def parent_of(self, reference: ArticleReference, parent: Article) -> str:
        pairs = zip(reference.parent_columns, reference.columns, strict=True)
        same = " and ".join(f"p.{quote(referenced)} = t.{quote(column)}" for referenced, column in pairs)
        return f"(select p.{ROWGUID} from {table_of(parent)} p where {same})"

    def _own_columns(self, array: str | None) -> Mapping[int, int]:
        if array is None:
            return {}
        stamps = enumerate(array.strip("{}").split(","))
        return {place: self.generations.number_of(int(stamp)) for place, stamp in stamps if stamp != "NULL"}


def stamps_of(metadata: Sequence[str | None]) -> Iterator[int]:
    """Yield the transactions that a row's metadata names, as the queries of `MetadataReader` return them."""
    for stamp in (metadata[_CONTENTS_STAMP], metadata[_TOMBSTONE_STAMP]):
        if stamp is not None:
            yield int(stamp)
    own = metadata[_OWN_COLUMNS]
    if own is not None:
        yield from (int(stamp) for stamp in own.strip("{}").split(",") if stamp != "NULL")


_CONTENTS_STAMP = 1 + CONTENTS_COLUMNS.index("stamp")
_OWN_COLUMNS = 1 + CONTENTS_COLUMNS.index("own_columns")
_TOMBSTONE_STAMP = 1 + len(CONTENTS_COLUMNS) + TOMBSTONE_COLUMNS.index("stamp")
"""Places in the metadata of a row, whose first says whether the row is there."""


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _real(text: str | None) -> float | None:
    return None if text is None else float(text)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])


_TABLES = (CONTENTS, TOMBSTONE)
Session = psycopg.Connection[tuple[Any, ...]]


def move_columns_of(session: Session, before: Article, after: Article) -> None:
    """Move what is known of rows' columns to the places of another definition; see `RowVersions.redefine`."""
    kept = after.indexes_in(before)
    of_table = f"where tablenick = {after.nickname}"
    if not before.column_tracking:
        stamped = f"array_fill(stamp, array[{len(after.columns)}])"
        session.execute(sql.SQL(f"update {CONTENTS} set own_columns = {stamped} {of_table} and origin is null"))
        found = f"select distinct last from {CONTENTS} {of_table} and origin is not null"
        lasts = [bytes(last) for (last,) in session.execute(sql.SQL(found))]
        known = [in_all_columns(last, len(after.columns)) for last in lasts]
        _replace(session, f"colv = n.now {of_table} and origin is not null and last = n.was", lasts, known)
    elif kept != list(range(len(before.columns))):
        moved = ", ".join(f"own_columns[{place + 1}]" for place in kept)
        own = f"set own_columns = array[{moved}] {of_table} and own_columns is not null"
        session.execute(sql.SQL(f"update {CONTENTS} {own}"))
        found = f"select distinct colv from {CONTENTS} {of_table} and colv is not null"
        known = [bytes(columns) for (columns,) in session.execute(sql.SQL(found))]
        now = [move_columns(columns, kept) for columns in known]
        _replace(session, f"colv = n.now {of_table} and colv = n.was", known, now)


def _replace(session: Session, settings: str, was: Sequence[bytes], now: Sequence[bytes]) -> None:
    settings, _, condition = settings.partition(" where ")
    replacing = f"update {CONTENTS} set {settings} from unnest(%s::bytea[], %s::bytea[]) n (was, now) where {condition}"
    session.execute(sql.SQL(replacing), [list(was), list(now)])


def lineages(session: Session, nickname: int, snapshot: str) -> Iterator[bytes]:
    """Yield the distinct lineages of a table's metadata that a generation's snapshot sees."""
    for table in _TABLES:
        distinct = f"select distinct lineage from {table} where {_seen(nickname, snapshot)} and lineage is not null"
        for (lineage,) in session.execute(sql.SQL(distinct)):
            yield bytes(lineage)


# `delete` has no limit. The array is made once, and its rows are read by their places.
def forget(session: Session, nickname: int, snapshot: str, most: int) -> int:
    """Remove a table's metadata that a generation's snapshot sees, and return how many rows."""
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
