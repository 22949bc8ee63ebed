"""Commits that wait for a synchronous standby: they are in the log, and invisible."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from builders.capture.captured_databases import LoggedDatabase, wait_until

_WAITING = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database()"

_END_WAITING = """
select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep' and datname = current_database()
"""
"""What waits is committed; it becomes visible."""


def end_waiting(database: LoggedDatabase) -> None:
    """Let the commits that wait become visible."""
    database.execute(_END_WAITING)


@contextmanager
def waiting_commit(database: LoggedDatabase, statement: str) -> Iterator[None]:
    """Run a statement whose commit waits for a standby until the block ends."""

    def commit() -> None:
        with psycopg.connect(database.url, autocommit=True, application_name="waiter") as session:
            session.execute("set synchronous_commit = on")
            session.execute(statement)

    writer = threading.Thread(target=commit)
    writer.start()
    try:
        wait_until(lambda: database.execute(_WAITING) == [(1,)], what="a commit that waits for a standby")
        yield
    finally:
        end_waiting(database)
        writer.join()
