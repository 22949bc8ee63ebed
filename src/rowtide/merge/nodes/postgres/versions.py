"""The metadata of rows that a PostgreSQL node keeps: read for decisions, logged as its changes, moved and purged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from psycopg import sql

from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.merge.articles import Article
from rowtide.merge.definitions import SCHEMA, articles, replinfo
from rowtide.merge.nodes.postgres.metadata import row_metadata
from rowtide.merge.nodes.postgres.metadata.generations import newer_generations, take_generations, window_since
from rowtide.merge.nodes.postgres.metadata.row_metadata import PostgresReader, log_own, log_update
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, OF_TABLE, TOMBSTONE
from rowtide.merge.nodes.postgres.places import here
from rowtide.merge.nodes.postgres.rows import PostgresRows, known_request, rows_of, rows_request
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.stored_tables import REQUESTS, table_requests
from rowtide.merge.nodes.roles.versions import Holder
from rowtide.merge.versions.changes import KnownVersion, Row
from rowtide.merge.versions.composition import Composer
from rowtide.merge.versions.row_metadata import MetadataReader

REPLINFO, ARTICLES = (quote_qualified(SCHEMA, table.name) for table in (replinfo, articles))


class PostgresVersions:
    """See `RowVersions`."""

    def __init__(self, node: PostgresSession, rows: PostgresRows) -> None:
        self._node = node
        self._session = node.session
        self._rows = rows
        self.places = node.places

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, KnownVersion]:
        return self.read_known_and_rows([(article, rowguids)], [])[0][0]

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        others: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        asked, others = self.places.fill(asked), self.places.fill(others)
        if not asked:
            return [], [self._rows.read(article, rowguids) for article, rowguids in others]
        logged, found, read = self._ask_known(asked, others, holder)
        if logged:
            self._node.apply()
            _, found, read = self._ask_known(asked, others, holder)
        return found, read

    def _ask_known(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        others: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None,
    ) -> tuple[bool, list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        """Return whether the log has entries of these rows, the metadata of rows, and other rows, with all that writing
        will need.
        """
        unread = [article for article, _ in asked if article not in self._node.stored]
        unused = Composer(asked[0][0], 0, b"")
        readers = [
            MetadataReader(
                article,
                unused,
                PostgresReader(self._node.generations),
                self._node.name,
                subscriber=None if holder is None else holder.of(article),
            )
            for article, _ in asked
        ]
        answers = self._session.read(
            ("select pg_current_xact_id()", None),
            (f"select nickname from {REPLINFO}", None),
            (f"select nickname, purged_lineage from {ARTICLES}", None),
            (newer_generations(self._node.generations), None),
            *(request for article in unread for request in table_requests(article)),
            *(known_request(each, rowguids) for each, (_, rowguids) in zip(readers, asked, strict=True)),
            *(rows_request(article, rowguids) for article, rowguids in others),
            texts=True,
        )
        ((stamp,),), ((own,),), lineages, closed, *rest = answers
        self._node.staging.stamp, self._node.own = int(stamp), int(own)
        take_generations(self._node.generations, self._node.own, closed)
        for place, article in enumerate(unread):
            self._node.stored.take(article, *rest[REQUESTS * place : REQUESTS * (place + 1)])
        purged = {int(nickname): bytes.fromhex(lineage[2:]) for nickname, lineage in lineages}
        found, is_logged = [], False
        answers = rest[REQUESTS * len(unread) :]
        self._node.look_up(metadata for groups in answers[: len(asked)] for _, _, *metadata in groups)
        for reader, groups in zip(readers, answers, strict=False):
            composer = Composer(reader.article, self._node.own, purged[reader.article.nickname])
            is_logged |= groups[0][0] == "t"
            known = (group[1:] for group in groups if group[1] is not None)
            found.append(replace(reader, composer=composer).known(known))
        read = [rows_of(article, each) for (article, _), each in zip(others, answers[len(asked) :], strict=True)]
        return is_logged, found, read

    def read_buried(self, article: Article, since: int, source: int) -> list[str]:
        self._node.know_generation(since)
        is_later = window_since(self._node.generations, since)("stamp")
        query = (
            f"select rowguid from {TOMBSTONE} where {OF_TABLE} = {article.nickname} and {is_later} "
            f"and origin is distinct from {source}"
        )
        return [row[0] for row in self._session.read((query, None), texts=True)[0]]

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        self._node.apply()
        own = f"tablenick = {article.nickname} and rowguid = %s::uuid and bases is not null"
        values = [(value, rowguid) for rowguid, value in bases.items()]
        with self._session.cursor() as cursor:
            cursor.executemany(sql.SQL(f"update {CONTENTS} set bases = %s where {own}"), values)

    @here
    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        log_own(self._session, article, columns, without)

    @here
    def log_update(self, article: Article, rowguid: str) -> bool:
        with self._node.failing_at(article.name):
            return log_update(self._session, article, rowguid)

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        return row_metadata.lineages(self._session, nickname, self._node.snapshot_of(generation))

    def forget(self, article: Article, generation: int, most: int) -> int:
        return row_metadata.forget(self._session, article.nickname, self._node.snapshot_of(generation), most)

    @here
    def redefine(self, before: Article, after: Article) -> None:
        self._node.apply()
        if after.column_tracking:
            self._session.flush()
            row_metadata.move_columns_of(self._session, before, after)
