"""Locks on tables in use, requested repeatedly with a short timeout, because a waiting request blocks later ones.

A single table is waited for with patience; where many are altered, each request is so brief that no writer behind it
notices (`rounds`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from sqlalchemy import Engine, Executable, TextClause, text

from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.errors import LockNotObtained, UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote_qualified, statement
from rowtide.databases.postgres.silence import end_silent_beside
from rowtide.databases.source_table import SourceTable, TableKind

LOCK_TIMEOUT_S = 2
LOCK_ATTEMPTS = 5
_PAUSE_S = 0.5
BRIEF_MS = 50
"""Besides what the transaction itself takes, how long a session waits behind a brief request."""
LOCK_NOT_AVAILABLE = "55P03"

Result = TypeVar("Result")


def set_lock_timeout() -> TextClause:
    """Return the statement that sets the transaction's lock_timeout."""
    return text(f"set local lock_timeout = '{LOCK_TIMEOUT_S}s'")


class LockMode(Enum):
    """The locks that an alteration takes: without writers, or without readers too."""

    SHARE_ROW_EXCLUSIVE = "share row exclusive"
    ACCESS_EXCLUSIVE = "access exclusive"


def set_brief_lock_timeout() -> TextClause:
    """Return the statement that limits each of the transaction's waits for a lock to what nobody notices."""
    return text(f"set local lock_timeout = '{BRIEF_MS}ms'")


def lock_briefly_steps(table: SourceTable, mode: LockMode) -> list[Executable]:
    """Lock a table, and its partitions, until commit; all of them are waited for together no longer than one."""
    only = "" if table.kind is TableKind.PARTITIONED else "only "
    return [
        set_brief_lock_timeout(),
        statement(f"set local statement_timeout = '{BRIEF_MS + 10}ms'"),
        statement(f"lock table {only}{quote_qualified(table.schema, table.name)} in {mode.value} mode"),
        statement("set local statement_timeout = 0"),
    ]


def retry_locked(engine: Engine, table_name: str, attempt: Callable[[], Result]) -> Result:
    """Run a transaction with a lock timeout, retried when a lock was not granted in time; end silent sessions then.

    Raises `LockNotObtained`, naming the sessions that hold the table, and what `attempt` raises.
    """
    for number in range(LOCK_ATTEMPTS):
        if number:
            time.sleep(_PAUSE_S)
        try:
            return attempt()
        except UnexpectedSqlError as error:
            if error.sqlstate != LOCK_NOT_AVAILABLE:
                raise
        with translated(), engine.connect() as connection:
            end_silent_beside(connection)
    raise LockNotObtained(table_name, LOCK_ATTEMPTS, LOCK_TIMEOUT_S, _name_holders(engine, table_name))


def _name_holders(engine: Engine, table_name: str) -> str:
    with translated(), engine.connect() as connection:
        table = find_table(connection, table_name)
        return str(connection.execute(text(_HOLDERS), {"table": table.source_id}).scalar_one())


_HOLDERS = """
select coalesce(
    string_agg(distinct case
        when a.pid is not null then format('pid %s (%s)', a.pid, concat_ws(
            ', ', a.usename, coalesce(nullif(a.application_name, ''), a.backend_type)))
        when p.gid is not null then format('prepared transaction %L', p.gid) else 'a session' end, ', '),
    'transactions that have ended meanwhile')
from pg_locks l
left join pg_stat_activity a on a.pid = l.pid
left join pg_prepared_xacts p on l.pid is null and p.transaction in (
    select t.transactionid from pg_locks t
    where t.locktype = 'transactionid' and t.pid is null and t.virtualtransaction = l.virtualtransaction)
where l.locktype = 'relation' and l.granted
  and (l.relation = :table or l.relation in (select relid from pg_partition_tree(:table)))
  and l.database = (select oid from pg_database where datname = current_database())
"""
