"""COPY to and from the client, many rows at a time: psycopg's own iterator runs several Python steps per row.

While it waits for the server, other threads run: libpq's own waiting would hold the interpreter's lock, and a tunnel to
the server in the same process would never pass the answer on.
"""

from __future__ import annotations

import select
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

_BLOCK_BYTES = 1 << 18


def copy_out(connection: psycopg.Connection[Any], statement: str) -> Iterator[bytes]:
    """Yield the output of a statement `copy … to stdout`, as whole lines; see `copy_text`.

    The server produces more meanwhile, and the connection cannot be used before the end: to stop earlier, close the
    connection. Raises psycopg's errors.
    """
    libpq = connection.pgconn
    libpq.send_query(statement.encode())
    while libpq.flush():
        _await(libpq, select.POLLOUT)
    _require(_next_result(libpq), pq.ExecStatus.COPY_OUT)
    has_more = True
    while has_more:
        block, has_more = _read_block(libpq)
        if block:
            yield block
    final = _next_result(libpq)
    while _next_result(libpq) is not None:
        pass
    _require(final, pq.ExecStatus.COMMAND_OK)


def put_copy_data(libpq: pq.abc.PGconn, block: bytes) -> None:
    """Send a block of a statement `copy … from stdin`, whose first result is read; return when it is on its way.

    Raises psycopg's errors.
    """
    libpq.nonblocking = 1
    try:
        while not libpq.put_copy_data(block):
            _await(libpq, select.POLLOUT)
        while libpq.flush():
            _await(libpq, select.POLLOUT)
    finally:
        libpq.nonblocking = 0


def _read_block(libpq: pq.abc.PGconn) -> tuple[bytes, bool]:
    """Return the next rows, and whether more may follow: after the end, libpq must not be called again."""
    rows: list[bytes] = []
    size = 0
    while size < _BLOCK_BYTES:
        read, data = libpq.get_copy_data(1)
        if read < 0:
            return b"".join(rows), False
        if read == 0:
            _await_input(libpq)
            continue
        rows.append(bytes(data))
        size += read
    return b"".join(rows), True


def _next_result(libpq: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """Return the next result of the statement, None after the last."""
    while libpq.is_busy():
        _await_input(libpq)
    return libpq.get_result()


def _await_input(libpq: pq.abc.PGconn) -> None:
    _await(libpq, select.POLLIN)
    libpq.consume_input()


def _await(libpq: pq.abc.PGconn, events: int) -> None:
    poll = select.poll()
    poll.register(libpq.socket, events)
    poll.poll()


def _require(result: pq.abc.PGresult | None, status: pq.ExecStatus) -> None:
    if result is None:
        raise psycopg.OperationalError("the server closed the connection")
    if result.status != status:
        raise error_from_result(result)
