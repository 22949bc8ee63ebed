"""The metadata of rows that a SQLite node keeps: read for decisions, logged as its own changes, moved and purged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rowtide.merge.articles import Article
from rowtide.merge.catalogue import read_nickname, read_purged
from rowtide.merge.nodes.roles.versions import Holder
from rowtide.merge.nodes.sqlite.exact_numbers import forget_exact_of_absent
from rowtide.merge.nodes.sqlite.metadata import row_metadata
from rowtide.merge.nodes.sqlite.metadata.row_metadata import READER, log_own, log_update, move_columns_of, read_asked
from rowtide.merge.nodes.sqlite.metadata.system_tables import CONTENTS, TOMBSTONE
from rowtide.merge.nodes.sqlite.rows import SqliteRows
from rowtide.merge.nodes.sqlite.session import SqliteSession
from rowtide.merge.versions.changes import KnownVersion, Row
from rowtide.merge.versions.composition import Composer
from rowtide.merge.versions.row_metadata import MetadataReader


class SqliteVersions:
    """See `RowVersions`."""

    def __init__(self, node: SqliteSession, rows: SqliteRows) -> None:
        self._node = node
        self._session = node.session
        self._rows = rows

    def read_known(
        self, article: Article, rowguids: Sequence[str], subscriber: int | None = None
    ) -> Mapping[str, KnownVersion]:
        self._node.apply()
        composer = Composer(
            article, read_nickname(self._node.connection), read_purged(self._node.connection, article.nickname)
        )
        reading = MetadataReader(article, composer, READER, self._node.path, subscriber=subscriber)
        return reading.known(read_asked(self._session, reading.select_known(), rowguids))

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        rows: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        known = [
            self.read_known(article, rowguids, None if holder is None else holder.of(article))
            for article, rowguids in asked
        ]
        return known, [self._rows.read(article, rowguids) for article, rowguids in rows]

    def read_buried(self, article: Article, since: int, source: int) -> list[str]:
        query = f"select rowguid from {TOMBSTONE} where tablenick = ? and stamp > ? and origin is not ?"
        return [row[0] for row in self._session.execute(query, (article.nickname, since, source))]

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        self._node.apply()
        own = f"tablenick = {article.nickname} and rowguid = ? and bases is not null"
        values = [(value, rowguid) for rowguid, value in bases.items()]
        self._session.executemany(f"update {CONTENTS} set bases = ? where {own}", values)

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        log_own(self._session, article, columns, without)

    def log_update(self, article: Article, rowguid: str) -> bool:
        return log_update(self._session, article, rowguid)

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        return row_metadata.lineages(self._session, nickname, generation)

    def forget(self, article: Article, generation: int, most: int) -> int:
        forgotten = row_metadata.forget(self._session, article.nickname, generation, most)
        if not forgotten:
            forget_exact_of_absent(self._session, article)
        return forgotten

    def redefine(self, before: Article, after: Article) -> None:
        self._node.apply()
        if after.column_tracking:
            move_columns_of(self._session, before, after)
