"""Changes that a PostgreSQL node has to send since a generation (SQL Server: sp_MSmakegeneration, sp_MSenumchanges)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.copy_text import read_texts
from rowtide.databases.postgres.copying import copy_out
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.definitions import SCHEMA, partition_mappings
from rowtide.merge.nodes.postgres.metadata.generations import Generations, window_since
from rowtide.merge.nodes.postgres.metadata.row_metadata import FILTERING, PostgresReader, sent, table_of, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, OF_TABLE, TOMBSTONE
from rowtide.merge.nodes.postgres.places import Places, here
from rowtide.merge.nodes.postgres.rows import of_rowguids
from rowtide.merge.partitions.belonging import ROW, members, read_parents, selecting
from rowtide.merge.partitions.candidates import Candidate
from rowtide.merge.partitions.descent import Names, candidates
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.composition import Composer
from rowtide.merge.versions.lineage import Change, include
from rowtide.merge.versions.row_metadata import MetadataReader

BATCH_ROWS = 2000


@dataclass(frozen=True, slots=True)
class PostgresEnumeration:
    """Reads one snapshot, in a session that returns values as text; see `Enumeration`.

    `purged` has the lineage of rows without metadata, by table; `is_beside` is set if the log is applied to temporary
    tables.
    """

    session: psycopg.Connection[tuple[Any, ...]]
    own: int
    generations: Generations
    purged: dict[int, bytes]
    places: Places
    is_beside: bool = field(kw_only=True)
    parents: Mapping[int, Article] = field(default_factory=dict, kw_only=True)

    @property
    def generation(self) -> int:
        return self.generations.last

    @here
    def naming_parents(self, parents: Mapping[int, Article]) -> PostgresEnumeration:
        return replace(self, parents=parents)

    @here
    def upserts(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        return self._window(article, CONTENTS, since, destination, is_live=True)

    @here
    def deletes(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        return self._window(article, TOMBSTONE, since, destination, is_live=False)

    @here
    def again(self, article: Article, rowguids: Sequence[str]) -> Sequence[RowChange]:
        reading = self._reading(article)
        return reading.changes(
            self.session.execute(sql.SQL(of_rowguids(reading.select_asked())), [uuid_array(rowguids)])
        )

    @here
    def candidates(
        self, row_filter: RowFilter, since: int, destination: int, asked: Sequence[str]
    ) -> Iterator[Sequence[Candidate]]:
        names = Names(
            FILTERING,
            quote_qualified(SCHEMA, partition_mappings.name),
            lambda rowguid: f"{quote_literal(rowguid)}::uuid",
            window_since(self.generations, since),
            OF_TABLE,
            is_beside=self.is_beside,
        )
        for batch in self._read(candidates(row_filter, destination, asked, names)):
            yield [Candidate.read(row) for row in batch]

    @here
    def members(self, row_filter: RowFilter) -> Iterator[Sequence[tuple[str, tuple[str, ...]]]]:
        for batch in self._read(members(row_filter, FILTERING)):
            yield [(rowguid, read_parents(listed)) for rowguid, listed in batch]

    @here
    def rows(
        self, article: Article, row_filter: RowFilter | None = None, where: str | None = None
    ) -> Iterator[Sequence[tuple[str, Row]]]:
        names = ", ".join([ROWGUID, *(quote(column.name) for column in article.columns)])
        condition = selecting(row_filter, where, FILTERING)
        for batch in self._stream(f"select {names} from {table_of(article)} as {ROW} {condition} order by {ROWGUID}"):
            yield [(row[0], sent(article, row[1:])) for row in batch]

    @here
    def included(self, article: Article) -> bytes:
        return include(self.purged[article.nickname], Change(self.own, self.generation))

    def _reading(self, article: Article) -> MetadataReader:
        composer = Composer(article, self.own, self.purged[article.nickname])
        reader = PostgresReader(self.generations)
        return MetadataReader(article, composer, reader, is_beside=self.is_beside, parents=self.parents)

    def _window(
        self, article: Article, table: str, since: int, destination: int, *, is_live: bool
    ) -> Iterator[Sequence[RowChange]]:
        is_new = window_since(self.generations, since)("stamp")
        condition = f"{OF_TABLE} = {article.nickname} and {is_new} and origin is distinct from {destination}"
        reading = self._reading(article)
        for batch in self._stream(reading.select_window(f"{table} where {condition}", is_live=is_live)):
            yield reading.changes(batch)

    def _stream(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Read batches while the server produces more; run no other query on the connection before the end."""
        rows = chain.from_iterable(map(read_texts, copy_out(self.session, f"copy ({query}) to stdout")))
        while batch := list(islice(rows, BATCH_ROWS)):
            yield batch

    def _read(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        with self.session.cursor(name="merge_enumeration") as cursor:
            cursor.execute(sql.SQL(query))
            while batch := cursor.fetchmany(BATCH_ROWS):
                yield batch
