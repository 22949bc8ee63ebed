"""How much a server has read of its tables."""

from __future__ import annotations

from builders.merge.merged_databases import Member


def count_read(hub: Member) -> int:
    """Return how many rows and entries of indexes have been read so far."""
    hub.execute("select pg_stat_force_next_flush()", "select pg_sleep(0.1)", "select pg_stat_clear_snapshot()")
    ((tuples,),) = hub.execute(
        "select (select sum(seq_tup_read) from pg_stat_user_tables) + "
        "(select sum(idx_tup_read) from pg_stat_user_indexes)"
    )
    return int(tuples)
