"""Many rows and long texts: COPY to and from the client, and long parameters received before a transaction.

psycopg's own iterator runs several Python statements for each row.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from typing import Any, LiteralString

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from rowtide.databases.postgres.silent_sessions import WatchedConnection

_BLOCK_BYTES = 1 << 18
_SENT_BYTES = 1 << 16
"""Bytes given to libpq at once, which it sends before more are given."""


def copy_out(connection: psycopg.Connection[Any], statement: str) -> Iterator[bytes]:
    """Yield the output of a statement `copy … to stdout`, as whole lines.

    The server produces more meanwhile, and the connection cannot be used before the end: to stop earlier, close the
    connection. Raises psycopg's errors.
    """
    connection.pgconn.send_query(statement.encode())
    _await_sent(connection)
    _require(_next_result(connection), pq.ExecStatus.COPY_OUT)
    has_more = True
    while has_more:
        block, has_more = _read_block(connection)
        if block:
            yield block
    final = _next_result(connection)
    while _next_result(connection) is not None:
        pass
    _require(final, pq.ExecStatus.COMMAND_OK)


def begin_copy_in(connection: psycopg.Connection[Any], statement: str) -> pq.abc.PGresult | None:
    """Execute a statement `copy … from stdin`; return the server's refusal, None where it takes rows.

    Raises psycopg's errors.
    """
    with _nonblocking(connection.pgconn):
        connection.pgconn.send_query(statement.encode())
        return _await_answer(connection, pq.ExecStatus.COPY_IN)


def put_copy_data(connection: psycopg.Connection[Any], block: bytes) -> None:
    """Send a block of rows after `begin_copy_in`; return when it is on its way. Raises psycopg's errors."""
    with _nonblocking(connection.pgconn):
        for start in range(0, len(block), _SENT_BYTES):
            piece = block[start : start + _SENT_BYTES]
            while not connection.pgconn.put_copy_data(piece):
                await_socket(connection, is_sending=True)
            _await_sent(connection)


def end_copy_in(connection: psycopg.Connection[Any]) -> pq.abc.PGresult | None:
    """End the rows after `begin_copy_in`; return the server's refusal, None where it has them. Raises psycopg's
    errors.
    """
    with _nonblocking(connection.pgconn):
        while not connection.pgconn.put_copy_end():
            await_socket(connection, is_sending=True)
        return _await_answer(connection, pq.ExecStatus.COMMAND_OK)


def await_socket(connection: psycopg.Connection[Any], *, is_sending: bool, patience_ms: int | None = None) -> bool:
    """Wait as `WatchedConnection.await_socket`, on a connection that `connect` has opened."""
    assert isinstance(connection, WatchedConnection)
    return connection.await_socket(is_sending=is_sending, patience_ms=patience_ms)


def _await_sent(connection: psycopg.Connection[Any]) -> None:
    while connection.pgconn.flush():
        # The server may have to send something before it accepts more.
        await_socket(connection, is_sending=True)


def _await_answer(connection: psycopg.Connection[Any], wanted: pq.ExecStatus) -> pq.abc.PGresult | None:
    """Wait for a status, or for all results of a refusal, of which the first is returned."""
    _await_sent(connection)
    refused: pq.abc.PGresult | None = None
    is_reached = False
    while (result := _next_result(connection)) is not None:
        is_reached |= result.status == wanted
        if result.status == pq.ExecStatus.COPY_IN:
            break
        if result.status != pq.ExecStatus.COMMAND_OK:
            refused = refused or result
    if refused is None and not is_reached:
        raise psycopg.OperationalError("the server closed the connection")
    return refused


@contextmanager
def _nonblocking(libpq: pq.abc.PGconn) -> Iterator[None]:
    # In blocking mode libpq would wait without the deadline of `await_socket`.
    before = libpq.nonblocking
    libpq.nonblocking = 1
    try:
        yield
    finally:
        libpq.nonblocking = before


def _read_block(connection: psycopg.Connection[Any]) -> tuple[bytes, bool]:
    """Return the next rows, and whether more may follow: after the end, libpq must not be called again."""
    rows: list[bytes] = []
    size = 0
    while size < _BLOCK_BYTES:
        read, data = connection.pgconn.get_copy_data(1)
        if read < 0:
            return b"".join(rows), False
        if read == 0:
            await_socket(connection, is_sending=False)
            continue
        rows.append(bytes(data))
        size += read
    return b"".join(rows), True


def _next_result(connection: psycopg.Connection[Any]) -> pq.abc.PGresult | None:
    """Return the next result of the statement, None after the last."""
    while connection.pgconn.is_busy():
        await_socket(connection, is_sending=False)
    return connection.pgconn.get_result()


def _require(result: pq.abc.PGresult | None, status: pq.ExecStatus) -> None:
    if result is None:
        raise psycopg.OperationalError("the server closed the connection")
    if result.status != status:
        raise error_from_result(result)


_NULL = b"\\N"
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANINGS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_TO_ESCAPE = re.compile(r"[\\\n\r\t]")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_OF_LINES = re.compile(r"[\\\n\r]")
_TAB = "\t"


def read_rows(block: bytes) -> Iterator[list[bytes | None]]:
    """Yield the rows of whole lines; NULL is None."""
    for line in block.split(b"\n")[:-1]:
        yield [value if b"\\" not in value else _unescape(value) for value in line.split(b"\t")]


def read_texts(block: bytes) -> Iterator[tuple[str | None, ...]]:
    """Yield the rows of whole UTF-8 lines as texts; NULL is None."""
    # Decoding everything at once takes a tenth of the time.
    for line in block.decode().split("\n")[:-1]:
        yield tuple([value if "\\" not in value else _unescape_text(value) for value in line.split(_TAB)])


def write_row(values: Sequence[str | None]) -> str:
    """Return a line without its newline; None is NULL."""
    if None not in values:
        line = _TAB.join(values)  # type: ignore[arg-type]
        if line.count(_TAB) == len(values) - 1 and _OF_LINES.search(line) is None:
            return line
    return _TAB.join(["\\N" if value is None else _TO_ESCAPE.sub(_escape, value) for value in values])


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


def _unescape(value: bytes) -> bytes | None:
    return None if value == _NULL else _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), value)


# Cached, because thousands of rows have the same form.
@lru_cache(maxsize=1 << 12)
def _unescape_text(value: str) -> str | None:
    plain = _unescape(value.encode())
    return None if plain is None else plain.decode()


# Long parameters that a session receives before a transaction, piece by piece, so that nothing is locked meanwhile.
# They are stored in a temporary table; statements of the transaction refer to them by an expression
# (docs/decisions/0007).

Parameters = Sequence[Any] | Mapping[str, Any] | None
Text = str | bytes
Statement = tuple[str, Parameters]

LONG = 4096
"""Parameters from this length on are received separately."""
_LEAST_TOGETHER, _MOST_TOGETHER = 64 * 1024, 512 * 1024
"""How much is sent before waiting for a reply: 4 seconds at 128 kbit/s, and more as long as that takes less than a
second.
"""
_SHORT_S, _LONG_S = 1.0, 8.0
_TABLE = "pg_temp.rowtide_received"
_MAKING = (
    f"drop table if exists {_TABLE}",
    f"create temporary table {_TABLE} (text_number integer, piece integer, characters text, octets bytea)",
    # Compression would take longer than it saves, since the texts are read once.
    f"alter table {_TABLE} alter column characters set storage external, alter column octets set storage external",
)
_PARAMETER = re.compile(r"%%|%(?:\((?P<name>[^)]+)\))?s(?P<typed>::)?")
_COLUMNS: Mapping[type[Text], tuple[LiteralString, LiteralString]] = {
    str: ("characters", "''"),
    bytes: ("octets", "''::bytea"),
}


class ReceivedTexts:
    """The texts that a session has received, by what they are."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._is_made = self._is_stale = False
        self._together = _LEAST_TOGETHER

    def forget(self) -> None:
        """Let the next texts replace the received ones."""
        self._numbers.clear()
        self._is_stale = self._is_made

    def find(self, text: Text) -> str | None:
        """Return the expression of a text; None if it was not received."""
        number = self._numbers.get(_identify(text))
        if number is None:
            return None
        column, nothing = _COLUMNS[type(text)]
        pieces = f"string_agg({column}, {nothing} order by piece)"
        return f"(select {pieces} from {_TABLE} where text_number = {number})"  # noqa: S608 - of constants

    def statements(self, texts: Sequence[Text]) -> Iterator[list[Statement]]:
        """Yield the statements by which texts are received; who asks for more has run what came before."""
        opening: list[Statement] = []
        if not self._is_made:
            opening = [(each, None) for each in _MAKING]
        elif self._is_stale:
            opening = [(f"truncate {_TABLE}", None)]
        self._is_made, self._is_stale = True, False
        batch, length = opening, 0
        for text in texts:
            name = _identify(text)
            if name in self._numbers or name == _UNFIT:
                continue
            number, column = len(self._numbers), _COLUMNS[type(text)][0]
            insertion = f"insert into {_TABLE} (text_number, piece, {column}) values (%s, %s, %s)"  # noqa: S608
            start = 0
            while start < len(text):
                piece = text[start : start + self._together - length]
                batch.append((insertion, [number, start, piece]))
                start, length = start + len(piece), length + len(piece)
                if length >= self._together:
                    began = time.monotonic()
                    yield batch
                    self._adapt(time.monotonic() - began)
                    batch, length = [], 0
            self._numbers[name] = number
        if batch:
            yield batch

    def _adapt(self, seconds: float) -> None:
        if seconds < _SHORT_S:
            self._together = min(2 * self._together, _MOST_TOGETHER)
        elif seconds > _LONG_S:
            self._together = max(self._together // 2, _LEAST_TOGETHER)


_UNFIT = b""


def _identify(text: Text) -> bytes:
    """Return a hash of a text; `_UNFIT` if no server accepts it."""
    if isinstance(text, str):
        try:
            octets = text.encode()
        except UnicodeEncodeError:
            return _UNFIT
        return _UNFIT if "\0" in text else blake2b(octets, digest_size=32, person=b"text").digest()
    # A hash instead of the text, so that megabytes do not stay in memory as long as the session.
    return blake2b(text, digest_size=32, person=b"octets").digest()


def length_of(statement: Statement) -> int:
    """Return how long the parameters of a statement are."""
    parameters = statement[1]
    values = parameters.values() if isinstance(parameters, Mapping) else parameters or ()
    return sum(len(text) for text in map(_text_of, values) if text is not None)


def _text_of(value: object) -> Text | None:
    if isinstance(value, psycopg.Binary):
        value = value.obj
    return value if type(value) in (str, bytes) else None  # type: ignore[return-value]


def shortened(statements: Sequence[Statement], received: ReceivedTexts) -> tuple[list[Statement], list[Text]]:
    """Return statements with the received texts in the place of their parameters, and the long ones not received."""
    missing: list[Text] = []
    return [_shortened(*each, received, missing) for each in statements], missing


def _shortened(statement: str, parameters: Parameters, received: ReceivedTexts, missing: list[Text]) -> Statement:
    """Replace parameters whose type the statement says: an expression has one of its own."""
    if not parameters or length_of((statement, parameters)) < LONG:
        return statement, parameters
    listed: list[Any] = []
    values = iter(() if isinstance(parameters, Mapping) else parameters)

    def replace(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return found[0]
        value = parameters[found["name"]] if isinstance(parameters, Mapping) else next(values)
        text = _text_of(value)
        if text is not None and len(text) >= LONG and found["typed"]:
            expression = received.find(text)
            if expression is not None:
                return f"{expression}::"
            missing.append(text)
        listed.append(value)
        return f"%s{found['typed'] or ''}"

    return _PARAMETER.sub(replace, statement), listed
