"""How much a server has read of its tables, and when it has counted all of that."""

from __future__ import annotations

from typing import Any

import psycopg

from builders.capture.captured_databases import wait_until
from builders.merge.merged_databases import Member

_OTHERS = """
select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


def wait_until_alone(session: psycopg.Connection[Any]) -> None:
    """Wait until all other sessions in the database have ended, which they do a moment after they are closed.

    What they have read is counted then, and what this session has.
    """
    session.execute("select pg_stat_force_next_flush()")
    wait_until(lambda: session.execute(_OTHERS).fetchone() == (0,), what="all other sessions have ended")


def count_read(hub: Member) -> int:
    """Return how many rows and entries of indexes have been read so far."""
    hub.execute("select pg_stat_force_next_flush()", "select pg_sleep(0.1)", "select pg_stat_clear_snapshot()")
    ((tuples,),) = hub.execute(
        "select (select sum(seq_tup_read) from pg_stat_user_tables) + "
        "(select sum(idx_tup_read) from pg_stat_user_indexes)"
    )
    return int(tuples)
