"""A program that knows nothing of rowtide and writes to a SQLite file: small transactions, one after the other.

`python -m benchmarks.tracking.sqlite_writer_process SETTINGS ANSWER`: two files of JSON, `Settings` and `Answer`.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

_PATIENCE_MS = 30_000
_POLL_S = 0.0002
_ROWS = 5


@dataclass(frozen=True, slots=True)
class Settings:
    """The file, how many rows its table of orders has, how long to write, and what to wait between transactions."""

    path: str
    rows: int
    seconds: float
    rest_s: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The seconds that each transaction waited for the write lock, and those from then to the commit's end."""

    waits_s: list[float]
    writes_s: list[float]


def main() -> None:
    """Write until the time is over."""
    given, answer = map(Path, sys.argv[1:])
    answer.write_text(json.dumps(asdict(_write(Settings(**json.loads(given.read_text()))))))


def _write(settings: Settings) -> Answer:
    waits, writes = [], []
    with closing(sqlite3.connect(settings.path, isolation_level=None)) as connection:
        connection.execute("pragma synchronous = normal")
        end = time.monotonic() + settings.seconds
        while time.monotonic() < end:
            begin = time.perf_counter()
            _await_lock(connection)
            begun = time.perf_counter()
            for _ in range(_ROWS):
                key = random.randint(1, settings.rows)
                connection.execute("update orders set amount = amount + 1 where id = ?", (key,))
            connection.execute("commit")
            waits.append(begun - begin)
            writes.append(time.perf_counter() - begun)
            time.sleep(settings.rest_s)
    return Answer(waits, writes)


def _await_lock(connection: sqlite3.Connection) -> None:
    """Begin, at once when the lock is free: SQLite's own busy handler would sleep up to 100 ms longer."""
    connection.execute("pragma busy_timeout = 0")
    while not connection.in_transaction:
        try:
            connection.execute("begin immediate")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(_POLL_S)
    # A commit has to wait for readers where there is a rollback journal.
    connection.execute(f"pragma busy_timeout = {_PATIENCE_MS}")


if __name__ == "__main__":
    main()
