"""Prepared statements executed without waiting for each (libpq's pipeline mode), and their deadlocks.

Results arrive in order. After an error the server skips the following statements, up to the next synchronization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import pq
from psycopg.pq import abc

from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.copying import await_socket, begin_copy_in, end_copy_in, put_copy_data
from rowtide.databases.postgres.errors import ConnectionFailed, find_outage, translate
from rowtide.databases.postgres.typed_values import can_encode
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.errors.delivery import CommandError, CommandRefused, RowNotFound
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.delivery.deadlock_watch import DeadlockWatch

_SENT_BETWEEN_LOOKS = 256
"""Number of statements after which results are read.

The socket does not block, so that full buffers are no deadlock, but libpq would keep more and more in memory.
"""
_SILENCE_MS = 300
"""Without an answer for this long the agent looks for a deadlock.

That is before the server does, after `deadlock_timeout`, by default a second. Where that is set lower, the server may
end the program's transaction instead of the agent's.
"""
_CANCELLED, _DEADLOCK = "57014", "40P01"
_ENDED = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


@frozen
class FailedStatement:
    """The first statement since the last synchronization that failed, by its number from 0."""

    index: int
    sqlstate: str
    message: str


class Pipeline:
    """A connection in pipeline mode. Raises `ConnectionFailed` if the connection breaks."""

    def __init__(self, connection: psycopg.Connection, watch: DeadlockWatch | None = None) -> None:
        """`watch` is asked to look while answers are long in coming, and closed with the connection."""
        self._connection = connection
        self._watch = watch
        self._libpq: abc.PGconn = connection.pgconn
        # A blocking send would wait for a server that waits until its answers are read: with both buffers full, neither
        # would continue.
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._sent = 0
        self._answered = 0
        self._refused: FailedStatement | None = None

    def prepare(self, name: bytes, statement: str) -> None:
        """Prepare a statement; counts as a sent statement."""
        with _connected():
            self._libpq.send_prepare(name, statement.encode())
        self._note_sent()

    def run(self, name: bytes, arguments: Sequence[bytes | None]) -> None:
        """Execute a prepared statement with its arguments, as texts."""
        with _connected():
            self._libpq.send_query_prepared(name, arguments)
        self._note_sent()

    def run_large(self, name: bytes, arguments: Sequence[bytes | None]) -> None:
        """As `run`, and wait until it is sent.

        While a large message is only partly sent, libpq moves the rest to the front of its buffer each time: a gigabyte
        would be moved a thousand times.
        """
        self.push()
        with _connected():
            self._libpq.nonblocking = 0
            self._libpq.send_query_prepared(name, arguments)
            self._libpq.nonblocking = 1
        self._note_sent()

    def execute(self, statement: str, arguments: Sequence[bytes | None] = ()) -> None:
        """Execute a statement that is not prepared."""
        with _connected():
            self._libpq.send_query_params(statement.encode(), arguments)
        self._note_sent()

    def push(self) -> None:
        """Wait until everything is sent, so that large statements do not accumulate in memory."""
        while self._flush():
            self._look(is_sending=True)
            self._take_answers()
        self._take_answers()

    def synchronize(self) -> FailedStatement | None:
        """Wait for all results; return the first failure, after which nothing more was executed, or None."""
        with _connected():
            self._libpq.pipeline_sync()
        while not self._take_answers():
            # For an answer that will come, or until there is room for what is to be sent before.
            self._look(is_sending=self._flush())
        refused, self._refused, self._sent, self._answered = self._refused, None, 0, 0
        return refused

    def copy(self, statement: str, pieces: Iterable[bytes]) -> FailedStatement | None:
        """Execute a COPY from here with lines of text, after a synchronization; return its failure, or None.

        libpq has no COPY in its pipeline mode, which ends meanwhile.
        """
        with _connected(), self.paused():
            refused = begin_copy_in(self._connection, statement)
            if refused is None:
                for piece in pieces:
                    put_copy_data(self._connection, piece)
                refused = end_copy_in(self._connection)
        return None if refused is None else self._explain(0, refused)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the pipeline mode for a block, after a synchronization."""
        with _connected():
            self._libpq.exit_pipeline_mode()
        yield
        with _connected():
            self._libpq.enter_pipeline_mode()

    def close(self) -> None:
        """Close the connection; uncommitted work is rolled back."""
        self._connection.close()
        if self._watch is not None:
            self._watch.close()

    def _note_sent(self) -> None:
        self._sent += 1
        if self._sent % _SENT_BETWEEN_LOOKS == 0:
            self.push()

    def _look(self, *, is_sending: bool) -> None:
        """Wait for what arrives, or with `is_sending` until more can be sent."""
        patience_ms = None if self._watch is None else _SILENCE_MS
        while True:
            with _connected():
                is_ready = await_socket(self._connection, is_sending=is_sending, patience_ms=patience_ms)
            if is_ready:
                return
            if self._watch is not None:
                self._watch.look()

    def _flush(self) -> bool:
        with _connected():
            return bool(self._libpq.flush())

    def _take_answers(self) -> bool:
        """Read the results that have arrived; return whether a synchronization is among them."""
        while not self._libpq.is_busy():
            result = self._libpq.get_result()
            if result is None:
                # Between the answers of two statements, and where nothing more has been asked.
                if self._answered == self._sent:
                    return self._take_synchronisation()
                continue
            status = result.status
            if status == pq.ExecStatus.PIPELINE_SYNC:
                return True
            if status not in _ENDED and status != pq.ExecStatus.PIPELINE_ABORTED and self._refused is None:
                self._refused = self._explain(self._answered, result)
            self._answered += 1
        return False

    def _explain(self, index: int, result: abc.PGresult) -> FailedStatement:
        refused = _refused(index, result)
        if refused.sqlstate == _CANCELLED and self._watch is not None and self._watch.has_ended_one:
            return FailedStatement(index, _DEADLOCK, "a program waits for this agent, and the agent for the program")
        return refused

    def _take_synchronisation(self) -> bool:
        if self._libpq.is_busy():
            return False
        result = self._libpq.get_result()
        return result is not None and result.status == pq.ExecStatus.PIPELINE_SYNC


@contextmanager
def _connected() -> Iterator[None]:
    """Raise `ConnectionFailed` for what libpq cannot do any more, and where no answer comes."""
    try:
        yield
    except psycopg.OperationalError as error:
        raise translate(error) from error


def _refused(index: int, result: abc.PGresult) -> FailedStatement:
    def field(name: pq.DiagnosticField) -> str:
        return (result.error_field(name) or b"").decode(errors="replace")

    sqlstate = field(pq.DiagnosticField.SQLSTATE)
    if not sqlstate or sqlstate.startswith(("08", "57P")):
        raise ConnectionFailed(" ".join(result.error_message.decode(errors="replace").split()))
    return FailedStatement(index, sqlstate, field(pq.DiagnosticField.MESSAGE_PRIMARY))


_ROW_NOT_FOUND = "20598"
_CHARACTER_NOT_HELD = "22P05"
_TOO_LARGE = ("54000", "XX000")
"""SQLSTATEs for a row that exceeds the server's memory allocation limit."""
LARGE_BYTES = 1 << 25
"""XX000 is any internal error: it is one of size only if the call's values have this many bytes."""


def require_order(refused: FailedStatement) -> None:
    """Raise the server's own failures, such as a full disk, which no command caused.

    A retry needs a new session.
    """
    outage = find_outage(refused.sqlstate, refused.message)
    if outage is not None:
        raise outage


def is_too_large(refused: FailedStatement, call: ProcedureCall) -> bool:
    """Return whether a call was refused for the size of its values."""
    return refused.sqlstate in _TOO_LARGE and size_of(call.arguments) >= LARGE_BYTES


def explain_call(refused: FailedStatement, call: ProcedureCall, codec: str | None) -> CommandError:
    """Return the error of a refused call; `codec` is of the subscriber's encoding."""
    article, operation, arguments = call.article, call.operation, call.arguments
    table, key = article.qualified_name, procedures.key_of(article, operation, arguments)
    command, reason = operation.name.lower(), refused.message
    if refused.sqlstate == _ROW_NOT_FOUND:
        return RowNotFound(CommitLsn(call.lsn), call.seqval, table, key, command)
    if refused.sqlstate == _CHARACTER_NOT_HELD:
        reason += _name_columns(article, arguments, codec)
    return CommandRefused(CommitLsn(call.lsn), call.seqval, table, key, command, refused.sqlstate, reason)


def size_of(arguments: Arguments) -> int:
    """Return the number of bytes of a call's arguments."""
    return sum(len(value) for value in arguments if value is not None)


def _name_columns(article: Article, arguments: Arguments, codec: str | None) -> str:
    """Name the columns with values that the subscriber's encoding lacks, which the server does not do."""
    columns = article.columns
    named = dict.fromkeys(
        columns[index % len(columns)].name
        for index, value in enumerate(arguments)
        if value is not None and not can_encode(codec, value.decode(errors="ignore"))
    )
    return f", in column {', '.join(named)}" if named else ""
