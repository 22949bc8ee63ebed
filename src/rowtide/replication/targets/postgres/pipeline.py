"""Prepared statements run one after the other without waiting for each: libpq's pipeline mode.

What was sent is answered in order. After an error the server passes over the rest, up to the next synchronisation.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq
from psycopg.pq import abc

from rowtide.databases.postgres.errors import ConnectionFailed

_SENT_BETWEEN_LOOKS = 256
"""Statements sent before answers are taken in: neither side's buffer fills up for want of a reader."""
_ENDED = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


@dataclass(frozen=True, slots=True)
class Refused:
    """The first statement since the last synchronisation that the server refused, by its number from 0."""

    place: int
    sqlstate: str
    message: str


class Pipeline:
    """A connection in pipeline mode. Raises `ConnectionFailed` wherever the connection breaks."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._libpq: abc.PGconn = connection.pgconn
        self._libpq.nonblocking = 1
        self._libpq.enter_pipeline_mode()
        self._sent = 0
        self._answered = 0
        self._refused: Refused | None = None

    def prepare(self, name: bytes, statement: str) -> None:
        """Prepare a statement; counts as one that is sent."""
        self._libpq.send_prepare(name, statement.encode())
        self._note_sent()

    def run(self, name: bytes, arguments: Sequence[bytes | None]) -> None:
        """Send a prepared statement with its arguments, as texts."""
        self._libpq.send_query_prepared(name, arguments)
        self._note_sent()

    def run_large(self, name: bytes, arguments: Sequence[bytes | None]) -> None:
        """As `run`, and wait until it is on its way.

        libpq moves what is left to the front of its buffer whenever it may not wait: of a gigabyte a thousand times.
        """
        self.push()
        try:
            self._libpq.nonblocking = 0
            self._libpq.send_query_prepared(name, arguments)
            self._libpq.nonblocking = 1
        except psycopg.OperationalError as error:
            raise ConnectionFailed(" ".join(str(error).split())) from error
        self._note_sent()

    def execute(self, statement: str, arguments: Sequence[bytes | None] = ()) -> None:
        """Send a statement that is not prepared."""
        self._libpq.send_query_params(statement.encode(), arguments)
        self._note_sent()

    def push(self) -> None:
        """Wait until all is on its way: large statements would pile up here."""
        self._wait_sent()
        self._take_answers()

    def synchronize(self) -> Refused | None:
        """Wait for all answers; return the first refusal, after which nothing more was run, None without one."""
        self._libpq.pipeline_sync()
        while not self._take_answers():
            self._wait()
        refused, self._refused, self._sent, self._answered = self._refused, None, 0, 0
        return refused

    def close(self) -> None:
        """Close the connection; what was not committed is not."""
        self._connection.close()

    def _note_sent(self) -> None:
        self._sent += 1
        if self._sent % _SENT_BETWEEN_LOOKS == 0:
            self.push()

    def _wait_sent(self) -> None:
        while self._flush():
            self._wait()
            self._take_answers()

    def _wait(self) -> None:
        """Wait until something can be read, or sent if there is something to send; and do it."""
        socket = [self._libpq.socket]
        select.select(socket, socket if self._flush() else [], [])
        try:
            self._libpq.consume_input()
        except psycopg.OperationalError as error:
            raise ConnectionFailed(" ".join(str(error).split())) from error

    def _flush(self) -> bool:
        try:
            return bool(self._libpq.flush())
        except psycopg.OperationalError as error:
            raise ConnectionFailed(" ".join(str(error).split())) from error

    def _take_answers(self) -> bool:
        """Take what has been answered; return whether a synchronisation has."""
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
                self._refused = _refused(self._answered, result)
            self._answered += 1
        return False

    def _take_synchronisation(self) -> bool:
        if self._libpq.is_busy():
            return False
        result = self._libpq.get_result()
        return result is not None and result.status == pq.ExecStatus.PIPELINE_SYNC


def _refused(place: int, result: abc.PGresult) -> Refused:
    def field(name: pq.DiagnosticField) -> str:
        return (result.error_field(name) or b"").decode(errors="replace")

    sqlstate = field(pq.DiagnosticField.SQLSTATE)
    if not sqlstate or sqlstate.startswith(("08", "57P")):
        raise ConnectionFailed(" ".join(result.error_message.decode(errors="replace").split()))
    return Refused(place, sqlstate, field(pq.DiagnosticField.MESSAGE_PRIMARY))
