"""Errors of reading the log, in the listing of errors: where nobody reads, no subscription gets anything.

As with the agents' history: where it cannot be written, the run goes on.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime

from sqlalchemy import Engine

from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import translated
from rowtide.replication import definitions, history
from rowtide.replication.agent_history import MESSAGE_INTERVAL_S

log = logging.getLogger("rowtide.replication")


class LogReaderErrors:
    """Writes what ends the reading of the log, and after what it is tried again; for one thread at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last_retry: type[RowtideError] | None = None
        self._next_retry = 0.0

    def retry(self, error: RowtideError) -> None:
        """Reading is tried again after an error; one that comes again and again is written now and then."""
        if type(error) is not self._last_retry or time.monotonic() >= self._next_retry:
            self._last_retry = type(error)
            self._next_retry = time.monotonic() + MESSAGE_INTERVAL_S
            self.fail(error)

    def fail(self, error: RowtideError) -> None:
        """Reading has ended with an error."""
        try:
            with translated(), self._engine.begin() as connection:
                if definitions.is_made(connection):
                    history.record_reader_error(connection, error, datetime.now(UTC))
        except RowtideError as unwritten:
            log.warning("history_not_written: %s", unwritten)
