"""Enabling new tables, and looking at keys, beside capture, in a thread of its own: no scan waits for tables."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sqlalchemy import Engine

from rowtide.cdc.enabling.joining import join_new_tables
from rowtide.cdc.enabling.lost_keys import LostKeys
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.kept_sessions import keeping_sessions

log = logging.getLogger("rowtide.cdc")

POLL_S = 2.0
_POLLS_PER_KEYS = 5
_THREAD = "rowtide-joining"


@contextmanager
def joining(engine: Engine, database: str) -> Iterator[None]:
    """Look for new tables of rules every `POLL_S` seconds during the block, and for lost keys every ten seconds.

    The first look is `POLL_S` seconds later: a run that ends by itself has looked before.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(1, _THREAD) as pool:
        thread = pool.submit(_run, engine, database, ended)
        try:
            yield
        finally:
            ended.set()
            thread.result()


def _run(engine: Engine, database: str, ended: threading.Event) -> None:
    reported, keys = "", LostKeys(engine, database)
    for poll in itertools.count():
        if ended.wait(POLL_S):
            return
        try:
            with keeping_sessions():
                join_new_tables(engine, database)
                if poll % _POLLS_PER_KEYS == 0:
                    keys.announce()
            reported = ""
        except RowtideError as error:
            # Capture continues: what is enabled already does not depend on it.
            if str(error) != reported:
                log.warning("joining_failed: %s", error)
            reported = str(error)
