"""Reports the transaction that blocks a statement while the statement runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.backlog import find_oldest

log = logging.getLogger("rowtide.log")

PATIENCE_S = 2.0
"""A wait is reported after this time, and again when another transaction blocks."""


@contextmanager
def reporting_blocker(engine: Engine, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Report, while the block runs, the oldest transaction that writes, if the block takes long. Calls from a
    thread.
    """
    is_over = threading.Event()
    thread = threading.Thread(target=_tell, args=(engine, on_wait, is_over), name="rowtide waiting", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _tell(engine: Engine, on_wait: Callable[[str], None], is_over: threading.Event) -> None:
    reported = None
    while not is_over.wait(PATIENCE_S):
        try:
            with translated(), engine.connect() as connection:
                oldest = find_oldest(connection)
        except RowtideError as error:
            log.warning("wait_not_reported: %s", error)
            return
        if oldest is not None and oldest != reported:
            on_wait(f"waiting until this ends: {oldest}")
            reported = oldest
