"""COPY to and from the client, for many rows.

psycopg's own iterator runs several Python statements for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

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
