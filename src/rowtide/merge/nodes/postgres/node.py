"""A PostgreSQL database as a node of a merge, and the numbers of new rows there: sequences, ranges, changed keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from psycopg import sql
from sqlalchemy import Engine

from rowtide.databases.postgres.batching import open_batching_engine
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.silent_sessions import MERGE
from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.merge.articles import Article, DeviceLimits
from rowtide.merge.identity_range_policy import IdentityRange, Numbering
from rowtide.merge.nodes.postgres.changes import PostgresChanges
from rowtide.merge.nodes.postgres.default_schema import here
from rowtide.merge.nodes.postgres.execution import AGENT_SETTING, SETTINGS
from rowtide.merge.nodes.postgres.foreign_key_actions import PostgresActions
from rowtide.merge.nodes.postgres.key_moves import read_referrers, referrers_request, renumbering
from rowtide.merge.nodes.postgres.metadata.row_metadata import escaped, table_of
from rowtide.merge.nodes.postgres.rows import PostgresRows, PostgresVersions
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.stored_tables import advance_sequences, find_sequences, highest_in_table, next_values
from rowtide.merge.nodes.postgres.tables.identity_triggers import bounding, numbering_request
from rowtide.merge.nodes.postgres.tables.rebuilt_tables import PostgresRebuiltTables
from rowtide.merge.nodes.postgres.tables.tables import PostgresTables
from rowtide.merge.nodes.postgres.writing.writer import PostgresWriter


class PostgresKeys:
    """See `NumberedKeys`."""

    numbers_above_all = False

    def __init__(self, node: PostgresSession, writer: PostgresWriter) -> None:
        self._node = node
        self._session = node.session
        self._writer = writer
        self.places = node.places

    @here
    def next_keys(self, article: Article, count: int) -> Sequence[str]:
        sequences = find_sequences(self._session, article)
        free = self._next_free(article, sequences, count)
        if len(free) < count:
            # Rows with keys of programs' own are ahead of the sequence.
            advance_sequences(self._session, sequences, highest_in_table(article, sequences))
            free += self._next_free(article, sequences, count - len(free))
        return free

    @here
    def read_numbering(self, articles: Sequence[Article]) -> Mapping[int, Numbering]:
        answers = self._session.read(*map(numbering_request, articles))
        return {
            article.nickname: Numbering(rows[0][0], rows[0][1], follows_highest=False)
            for article, rows in zip(articles, answers, strict=True)
        }

    @here
    def set_numbering(self, article: Article, owned: IdentityRange) -> None:
        self._session.execute(sql.SQL(bounding(article, owned)))

    @here
    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        referrers = read_referrers(self._session.read(referrers_request(article), texts=True)[0])
        execution = self._node.executions.of(article)
        with self._node.refusing(article.name), self._session.transaction():
            self._writer.make_lists(execution)
            self._session.execute(f"set local {AGENT_SETTING} = 'off'")
            self._session.execute(sql.SQL(execution.alone(renumbering(article, referrers, keys))))
            self._session.execute(f"set local {AGENT_SETTING} = 'on'")

    def _next_free(self, article: Article, sequences: dict[str, str], count: int) -> list[str]:
        """Return those of the next values of a key that no row has."""
        (column,) = article.key_columns
        is_taken = f"exists (select from {escaped(table_of(article))} t where t.{escaped(quote(column.name))} = n.key)"
        query = f"select n.key from ({next_values(article, sequences)}) n (key) where not {is_taken}"
        return [row[0] for row in self._session.read((query, [count]), texts=True)[0]]


def open_node(url: str | DatabaseUrl, limits: DeviceLimits | None = None) -> PostgresNode:
    """Connect to the database that a URL names. Raises `ConnectionFailed`."""
    return PostgresNode(_engine_of(parse_url(url)), limits)


@lru_cache(maxsize=8)
def _engine_of(url: DatabaseUrl) -> Engine:
    """Return a database's engine: without a pool, but with the statements that were compiled for earlier nodes."""
    return open_batching_engine(url, application_name=MERGE, settings=SETTINGS)


class PostgresNode(PostgresSession):
    """See `Node`."""

    def __init__(self, engine: Engine, limits: DeviceLimits | None = None) -> None:
        super().__init__(engine, limits)
        self.tables = PostgresTables(self)
        self.rebuilt = PostgresRebuiltTables(self)
        self.rows = PostgresRows(self)
        self.actions = PostgresActions(self)
        self.versions = PostgresVersions(self, self.rows)
        self.writer = PostgresWriter(self)
        self.keys = PostgresKeys(self, self.writer)
        self.changes = PostgresChanges(self)

    def accept(self, form: str | None, place: str, definition: str | None) -> None:
        self.tables.accept(form, place, definition)
