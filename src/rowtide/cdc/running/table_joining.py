"""Enabling new tables beside capture, in a thread of its own: no scan waits for a table that is in use."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sqlalchemy import Engine

from rowtide.cdc.enabling.joining import join_new_tables
from rowtide.core.errors import RowtideError

log = logging.getLogger("rowtide.cdc")

POLL_S = 2.0
_THREAD = "rowtide-joining"


@contextmanager
def joining(engine: Engine, database: str) -> Iterator[None]:
    """Look for new tables of rules every `POLL_S` seconds during the block."""
    ended = threading.Event()
    with ThreadPoolExecutor(1, _THREAD) as pool:
        thread = pool.submit(_run, engine, database, ended)
        try:
            yield
        finally:
            ended.set()
            thread.result()


def _run(engine: Engine, database: str, ended: threading.Event) -> None:
    reported = ""
    while not ended.is_set():
        try:
            join_new_tables(engine, database)
            reported = ""
        except RowtideError as error:
            # Capture goes on: what is enabled already does not depend on it.
            if str(error) != reported:
                log.warning("joining_failed: %s", error)
            reported = str(error)
        ended.wait(POLL_S)
