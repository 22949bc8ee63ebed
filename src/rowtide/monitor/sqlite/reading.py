"""Poll a SQLite file: what is tracked and merged in it, and its disk."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Self

from rowtide.diagnosis.places import PlaceFacts
from rowtide.diagnosis.result import by_state
from rowtide.diagnosis.sqlite.views import check_work, read_work
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.snapshot import Identity, PolledSnapshot


class SqlitePoll:
    """Polls a file, which is open only during a poll, so that its programs can checkpoint and move it."""

    def __init__(self, database: NamedUrl) -> None:
        self._database = database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: no session stays open."""

    def read(self) -> PolledSnapshot:
        """Poll the file. Raises `FileNotOpened`, `SqliteTooOld`."""
        at, begun = datetime.now(UTC), time.monotonic()
        work = read_work(self._database.url)
        return PolledSnapshot(
            database=self._database.name,
            at=at,
            duration_s=time.monotonic() - begun,
            identity=Identity("file", 0),
            results=by_state(check_work(work)),
            merge=work.merge,
            tracked=work.tracked,
            place=work.place if isinstance(work.place, PlaceFacts) else None,
        )


def open_reader(database: NamedUrl) -> SqlitePoll:
    """Return the reader of a file."""
    return SqlitePoll(database)
