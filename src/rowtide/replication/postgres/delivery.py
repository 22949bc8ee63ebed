"""Delivery to a PostgreSQL subscriber over one connection: each call a prepared statement, in libpq's pipeline."""

from __future__ import annotations

import psycopg
from psycopg import sql

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.core.records import Operation
from rowtide.databases.postgres.connect import PINNED_SETTINGS, libpq_url, pin_settings
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles import Article
from rowtide.replication.distribution.delivery import Progress
from rowtide.replication.encoding import Arguments
from rowtide.replication.errors import AgentReplaced, CommandRefused, RowNotFound
from rowtide.replication.postgres import progress
from rowtide.replication.postgres.pipeline import Pipeline, Refused
from rowtide.replication.postgres.procedures import key_of
from rowtide.replication.postgres.statements import statement

_BEGIN, _END = b"begin_batch", b"end_batch"
_ROW_NOT_FOUND = "20598"
_STATEMENTS_OF_BEGIN = 2
_SENT_AT_ONCE = 10_000

_Sent = tuple[Article, Operation, Arguments]


class PostgresDelivery:
    """A hold on a PostgreSQL subscriber; see `Delivery`."""

    def __init__(self, connection: psycopg.Connection, subscriber: str, guid: str) -> None:
        self._subscriber = subscriber
        self._guid = guid.encode()
        self._progress = progress.take_over(connection, guid, describe_holder())
        self._pipeline = Pipeline(connection)
        self._names: dict[tuple[str, Operation], bytes] = {}
        self._sent: list[_Sent] = []
        self._sent_before = 0
        self._pipeline.prepare(_BEGIN, progress.BEGIN_BATCH)
        self._pipeline.prepare(_END, progress.END_BATCH)
        self._synchronize()

    @classmethod
    def open(cls, url: str, guid: str) -> PostgresDelivery:
        """Connect, and take the place of any agent before. Raises `ConnectionFailed`, `SubscriberUnprepared`."""
        connection = connect(url, application_name=f"rowtide distribution on {describe_holder()}")
        try:
            return cls(connection, url, guid)
        except BaseException:
            connection.close()
            raise

    @property
    def progress(self) -> Progress:
        return self._progress

    def begin(self) -> None:
        known = self._progress
        self._pipeline.execute("begin")
        self._pipeline.run(_BEGIN, [self._guid, b"%d" % known.epoch, b"%d" % known.position.value])
        self._sent_before = _STATEMENTS_OF_BEGIN

    def run(self, article: Article, operation: Operation, arguments: Arguments) -> None:
        name = self._names.get((article.article_id, operation)) or self._prepare(article, operation)
        self._sent.append((article, operation, arguments))
        self._pipeline.run(name, arguments)
        if len(self._sent) >= _SENT_AT_ONCE:
            # Calls are kept until they are answered: of a transaction of millions, not all.
            self._synchronize()

    def end(self, reached: Position) -> None:
        self._pipeline.run(_END, [self._guid, b"%d" % reached.value])
        failpoint("subscriber_commit.before")
        self._pipeline.execute("commit")
        self._synchronize()
        failpoint("subscriber_commit.after")
        self._progress = Progress(reached, self._progress.batch + 1, self._progress.epoch)

    def close(self) -> None:
        self._pipeline.close()

    def _prepare(self, article: Article, operation: Operation) -> bytes:
        name = b"call_%d" % len(self._names)
        self._names[article.article_id, operation] = name
        self._sent.append((article, operation, []))
        self._pipeline.prepare(name, statement(article, operation))
        return name

    def _synchronize(self) -> None:
        refused = self._pipeline.synchronize()
        sent, self._sent = self._sent, []
        before, self._sent_before = self._sent_before, 0
        if refused is not None:
            raise self._explain(refused, refused.place - before, sent)

    def _explain(self, refused: Refused, place: int, sent: list[_Sent]) -> RowtideError:
        """Return the error for a refusal of the call at a place, or of what came before or after all."""
        if refused.sqlstate == progress.FENCED:
            return AgentReplaced(self._subscriber, refused.message)
        if not 0 <= place < len(sent):
            return CommandRefused("", "", "the batch", refused.sqlstate, refused.message)
        article, operation, arguments = sent[place]
        table, key = f"{article.schema}.{article.table}", key_of(article, operation, arguments)
        if refused.sqlstate == _ROW_NOT_FOUND:
            return RowNotFound(table, key, operation.name.lower())
        return CommandRefused(table, key, operation.name.lower(), refused.sqlstate, refused.message)


def connect(url: str, *, application_name: str) -> psycopg.Connection:
    """Open a connection to a subscriber under the settings that values are written with. Raises `ConnectionFailed`.

    Statements are its own transactions until others are begun.
    """
    with translated():
        connection = psycopg.connect(libpq_url(url), autocommit=True, application_name=application_name)
        connection.execute(pin_settings(PINNED_SETTINGS))
        # Each call is one of many like it: a plan for its values alone would be made and thrown away every time.
        connection.execute(sql.SQL("set plan_cache_mode = force_generic_plan"))
    return connection
