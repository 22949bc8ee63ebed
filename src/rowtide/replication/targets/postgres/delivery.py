"""Delivery to a PostgreSQL subscriber over one connection: prepared statements in libpq's pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NoReturn

import psycopg
from psycopg import sql

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.databases.postgres.connect import PINNED_SETTINGS, open_url
from rowtide.databases.postgres.encodings import find_codec, holds
from rowtide.databases.postgres.errors import RightMissing, find_outage, translated
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles import Article
from rowtide.replication.definitions import Subscription
from rowtide.replication.distribution.batches import Call
from rowtide.replication.distribution.call_runs import Gatherer, Run
from rowtide.replication.distribution.delivery import BatchUndone, CallNotHeld, Progress
from rowtide.replication.distribution.encoding import Arguments
from rowtide.replication.distribution.pieces import Failure, Pieces
from rowtide.replication.distribution.skip_errors import NOTHING_SKIPPED, SkipErrors
from rowtide.replication.errors import (
    AgentReplaced,
    BatchRefused,
    CommandError,
    CommandRefused,
    ReplicationRoleRefused,
    RowNotFound,
)
from rowtide.replication.sync_types import Constraints
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls import array_procedures, procedures, wide_rows
from rowtide.replication.targets.postgres.calls.array_literals import array_literal
from rowtide.replication.targets.postgres.calls.statements import statement
from rowtide.replication.targets.postgres.independence import group_articles
from rowtide.replication.targets.postgres.pipeline import Pipeline, Refused
from rowtide.replication.targets.postgres.subscriber_constraints import read_cascades
from rowtide.replication.targets.postgres.table_relations import MadeProcedures, read_relations

_BEGIN, _END = b"begin_batch", b"end_batch"
_ROW_NOT_FOUND = "20598"
_CHARACTER_NOT_HELD = "22P05"
_SENT_AT_ONCE = 10_000
_DEFER = "set constraints all deferred"
"""The publisher checks a deferrable constraint behind each statement, of which the log tells the rows one by one.

Not where errors are skipped: at the commit no command is to blame.
"""

_FEWEST_AS_ARRAYS = 3
"""A shorter run is not worth it."""
_MOST_BYTES = (1 << 30) - (1 << 20)
"""A message of a gigabyte ends the session: the server takes none."""
_LARGE_BYTES = 1 << 25
_TOO_LARGE = ("54000", "XX000")
"""What the server says of a row that is larger than its memory is given out in."""
_MAX_ARRAY_BYTES = 1 << 20
"""The subscriber has them in memory several times."""


class PostgresDelivery:
    """A hold on a PostgreSQL subscriber; see `Delivery`.

    Calls are gathered to runs, which go as one call with arrays where procedures and tables allow it. Such a batch, if
    it is refused, is undone and delivered again one by one.
    """

    def __init__(
        self,
        connection: psycopg.Connection,
        subscription: Subscription,
        articles: Sequence[Article],
        skips: SkipErrors,
    ) -> None:
        self._skips = skips
        self._pieces: Pieces | None = None
        self._subscriber = subscription.subscriber
        self._codec = find_codec(connection)
        self._guid = subscription.guid.encode()
        self._progress = progress.take_over(connection, subscription.guid, describe_holder())
        self._has_arrays, self._groups = _plan(connection, articles)
        self._cascades = read_cascades(connection, articles)
        self._cascaded: frozenset[str] = frozenset()
        self._pipeline = Pipeline(connection)
        self._calls: dict[tuple[str, Operation], bytes] = {}
        self._array_calls: dict[tuple[str, Operation], bytes] = {}
        self._wide: set[tuple[str, Operation]] = set()
        self._sent: list[Call] = []
        self._sent_before = 0
        self._gatherer = Gatherer({})
        self._is_gathered = False
        self._is_repeatable = False
        self._prepare_own()

    @classmethod
    def open(
        cls, subscription: Subscription, articles: Sequence[Article] = (), skips: SkipErrors = NOTHING_SKIPPED
    ) -> PostgresDelivery:
        """Connect, and take the place of any agent before; of articles that are not given, calls go one by one.

        Raises `ConnectionFailed`, `ReplicationRoleRefused`, `SubscriberUnprepared`.
        """
        connection = connect(
            subscription.subscriber,
            application_name=f"rowtide distribution on {describe_holder()}",
            constraints=subscription.constraints,
        )
        try:
            return cls(connection, subscription, articles, skips)
        except BaseException:
            connection.close()
            raise

    @property
    def progress(self) -> Progress:
        return self._progress

    def begin(self, *, one_by_one: bool = False) -> None:
        known = self._progress
        self._is_gathered = bool(self._groups) and not one_by_one
        self._gatherer = Gatherer(self._groups)
        opening = ["begin"] if one_by_one and self._skips else ["begin", _DEFER]
        for sql_text in opening:
            self._pipeline.execute(sql_text)
        self._pipeline.run(_BEGIN, [self._guid, b"%d" % known.epoch, b"%d" % known.position.value])
        self._sent_before = len(opening) + 1
        self._cascaded = frozenset()
        self._is_repeatable = self._is_gathered or (bool(self._skips) and not one_by_one)
        self._pieces = Pieces(self._try_piece, self._skips) if one_by_one and self._skips else None
        if self._pieces is not None:
            self._synchronize()

    def run(self, call: Call) -> None:
        if self._cascades and call.operation is Operation.DELETE:
            self._tell_cascade(call)
        if self._pieces is not None:
            self._pieces.add(call)
            return
        if not self._is_gathered:
            self._send_call(call)
            return
        for run in self._gatherer.add(call):
            self._send(run)

    def flush(self) -> None:
        if self._pieces is not None:
            self._pieces.flush()
        for run in self._gatherer.end():
            self._send(run)
        self._synchronize()

    def end(self, reached: Position) -> Sequence[CommandError]:
        skipped = self._pieces.end() if self._pieces is not None else ()
        for run in self._gatherer.end():
            self._send(run)
        self._pipeline.run(_END, [self._guid, b"%d" % reached.value])
        failpoint("subscriber_commit.before")
        self._pipeline.execute("commit")
        self._synchronize()
        failpoint("subscriber_commit.after")
        self._progress = Progress(reached, self._progress.batch + 1, self._progress.epoch)
        return skipped

    def close(self) -> None:
        self._pipeline.close()

    def _tell_cascade(self, call: Call) -> None:
        """Deletes of what a cascade has deleted in this batch find no row: sp_MSreplraiserror is told where that is."""
        cascaded = self._cascaded | self._cascades.get(call.article.article_id, frozenset())
        if cascaded == self._cascaded:
            return
        self._cascaded = cascaded
        self._sent.append(call)
        self._pipeline.execute(procedures.TELL_CASCADED, [array_literal([name.encode() for name in sorted(cascaded)])])

    def _send(self, run: Run) -> None:
        has_arrays = (run.article.article_id, run.operation) in self._has_arrays
        for calls in run.rounds:
            if has_arrays and len(calls) >= _FEWEST_AS_ARRAYS:
                self._send_arrays(run.article, run.operation, [call.arguments for call in calls])
            else:
                for call in calls:
                    self._send_call(call)

    def _send_call(self, call: Call) -> None:
        name = self._calls.get((call.article.article_id, call.operation)) or self._prepare(call)
        self._sent.append(call)
        self._run_call(name, call)
        if len(self._sent) >= _SENT_AT_ONCE:
            # Calls are kept until they are answered: of a transaction of millions, not all.
            self._synchronize()

    def _send_arrays(self, article: Article, operation: Operation, calls: Sequence[Arguments]) -> None:
        arrays = [array_literal(values) for values in zip(*calls, strict=True)]
        if sum(map(len, arrays)) > _MAX_ARRAY_BYTES and len(calls) > 1:
            half = len(calls) // 2
            self._send_arrays(article, operation, calls[:half])
            self._send_arrays(article, operation, calls[half:])
            return
        name = self._array_calls.get((article.article_id, operation)) or self._prepare_arrays(article, operation)
        self._pipeline.run(name, arrays)
        self._pipeline.push()

    def _try_piece(self, piece: Sequence[Call]) -> Failure | None:
        """Run calls behind a savepoint, all or none; return which failed."""
        for call in piece:
            if (call.article.article_id, call.operation) not in self._calls:
                self._prepare(call)
        self._synchronize()
        self._pipeline.execute("savepoint piece")
        for call in piece:
            self._run_call(self._calls[call.article.article_id, call.operation], call)
        self._pipeline.execute("release savepoint piece")
        refused = self._pipeline.synchronize()
        if refused is None:
            return None
        self._require_order(refused)
        self._pipeline.execute("rollback to savepoint piece")
        self._pipeline.synchronize()
        place = refused.place - 1
        return Failure(place, self._explain(refused, place, piece))

    def _run_call(self, name: bytes, call: Call) -> None:
        article, operation, arguments = call.article, call.operation, call.arguments
        size = _size(arguments)
        if size > _MOST_BYTES:
            self._refuse_size(call, "the server takes at most a gigabyte at once")
        is_wide = (article.article_id, operation) in self._wide
        send = self._pipeline.run_large if size >= _LARGE_BYTES else self._pipeline.run
        send(name, wide_rows.pack(article, operation, arguments) if is_wide else arguments)

    def _prepare_own(self) -> None:
        self._pipeline.prepare(_BEGIN, progress.BEGIN_BATCH)
        self._pipeline.prepare(_END, progress.END_BATCH)
        self._synchronize()

    def _prepare(self, call: Call) -> bytes:
        article, operation = call.article, call.operation
        name = b"call_%d" % len(self._calls)
        self._calls[article.article_id, operation] = name
        if operation is not Operation.TRUNCATE and wide_rows.is_wide(article, operation):
            self._wide.add((article.article_id, operation))
        self._sent.append(call)
        self._pipeline.prepare(name, statement(article, operation))
        return name

    def _prepare_arrays(self, article: Article, operation: Operation) -> bytes:
        name = b"array_call_%d" % len(self._array_calls)
        self._array_calls[article.article_id, operation] = name
        self._pipeline.prepare(name, array_procedures.call(article, operation))
        return name

    def _synchronize(self) -> None:
        refused = self._pipeline.synchronize()
        sent, self._sent = self._sent, []
        before, self._sent_before = self._sent_before, 0
        if refused is None:
            return
        self._require_order(refused)
        if self._is_repeatable and refused.sqlstate != progress.FENCED:
            self._undo()
            raise BatchUndone
        raise self._explain(refused, refused.place - before, sent)

    def _require_order(self, refused: Refused) -> None:
        """No command is to blame for a full disk: the batch comes again, from a new session."""
        outage = find_outage(refused.sqlstate, refused.message)
        if outage is not None:
            raise outage

    def _undo(self) -> None:
        """Undo a batch; what was to be prepared behind the refusal was not."""
        self._is_repeatable = False
        self._pipeline.execute("rollback")
        self._pipeline.execute("deallocate all")
        self._calls.clear()
        self._array_calls.clear()
        self._prepare_own()

    def _explain(self, refused: Refused, place: int, sent: Sequence[Call]) -> RowtideError:
        """Return the error for a refusal of the call at a place, or of what came before or after all."""
        if refused.sqlstate == progress.FENCED:
            return AgentReplaced(self._subscriber, refused.message)
        if not 0 <= place < len(sent):
            return BatchRefused(refused.sqlstate, refused.message)
        lsn, command_id, article, operation, arguments = sent[place]
        table, key = f"{article.schema}.{article.table}", procedures.key_of(article, operation, arguments)
        if refused.sqlstate in _TOO_LARGE and _size(arguments) >= _LARGE_BYTES:
            self._refuse_size(sent[place], f"the server says: {refused.message}")
        if refused.sqlstate == _ROW_NOT_FOUND:
            return RowNotFound(CommitLsn(lsn), command_id, table, key, operation.name.lower())
        command, reason = operation.name.lower(), refused.message
        if refused.sqlstate == _CHARACTER_NOT_HELD:
            reason += self._name_columns(article, arguments)
        return CommandRefused(CommitLsn(lsn), command_id, table, key, command, refused.sqlstate, reason)

    def _refuse_size(self, call: Call, reason: str) -> NoReturn:
        self._pipeline.synchronize()
        self._undo()
        raise CallNotHeld(call, f"its values take {_size(call.arguments):,} bytes; {reason}")

    def _name_columns(self, article: Article, arguments: Arguments) -> str:
        """Say which columns have values that the subscriber's encoding cannot hold; the server does not."""
        columns = article.columns
        named = dict.fromkeys(
            columns[place % len(columns)].name
            for place, value in enumerate(arguments)
            if value is not None and not holds(self._codec, value.decode(errors="ignore"))
        )
        return f", in column {', '.join(named)}" if named else ""


def _size(arguments: Arguments) -> int:
    return sum(len(value) for value in arguments if value is not None)


def _plan(
    connection: psycopg.Connection, articles: Sequence[Article]
) -> tuple[Set[tuple[str, Operation]], Mapping[str, int]]:
    """Return whose calls may go as arrays, and which articles can influence each other; nothing where none may."""
    made = MadeProcedures.read(connection)
    has_arrays = {
        (article.article_id, operation)
        for article in articles
        for operation in procedures.OPERATIONS
        if made.has_arrays(article, operation)
    }
    if not has_arrays:
        return has_arrays, {}
    opaque = {article.article_id for article in articles if made.is_opaque(article)}
    grouping = group_articles(read_relations(connection, articles), opaque)
    return {known for known in has_arrays if known[0] in grouping.plain}, grouping.groups


def connect(
    url: str,
    *,
    application_name: str,
    constraints: Constraints | None = None,
    settings: Mapping[str, str] = PINNED_SETTINGS,
) -> psycopg.Connection:
    """Open a connection to a subscriber under the settings that values are written with.

    Statements are its own transactions until others are begun. Raises `ConnectionFailed`, `ReplicationRoleRefused`.
    """
    connection = open_url(url, application_name=application_name, settings=settings)
    with translated():
        # Each call is one of many like it: a plan for its values alone would be made and thrown away every time.
        connection.execute(sql.SQL("set plan_cache_mode = force_generic_plan"))
    if constraints is Constraints.NOT_FOR_REPLICATION:
        _replicate(connection)
    return connection


def _replicate(connection: psycopg.Connection) -> None:
    """From here on foreign keys are not checked, and the triggers fire that are enabled for it."""
    try:
        with translated():
            connection.execute(sql.SQL("set session_replication_role = replica"))
    except RightMissing as error:
        user = connection.info.user
        connection.close()
        raise ReplicationRoleRefused(user) from error
