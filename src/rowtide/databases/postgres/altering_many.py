"""Alterations of many tables in use, each in a transaction of its own, in rounds.

A request for a lock waits briefly, because readers and writers queue behind it. A table that is in use is left for a
later round, and is not requested again before the transactions that held it have ended. So one long transaction is
waited for once, whatever it uses, and the other tables do not wait for it.

With the five attempts of 2 s that a single table gets, a report of ten minutes would fail the command, and block
writers of its tables for seconds. In a single transaction the first tables would stay locked while it waits for the
last; with `nowait` a table that always has writers would never be locked. Measured on two cores, 200 tables of 13
columns: 4 to 8 s without other sessions; beside a reader of two tables a writer waited 49 ms at most, and those two
were done 0.2 s after the reader ended. A table on which transactions of more than 50 ms overlap all the time is not
altered in rounds. Autovacuum is waited for, because the server cancels it only for requests that wait longer than
`deadlock_timeout`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Engine, text

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres import errors
from rowtide.databases.postgres.alterations import LOCK_NOT_AVAILABLE, LockMode
from rowtide.databases.postgres.silent_sessions import end_silent_beside

_POLL_S = 0.1
_END_SILENT_S = 5.0
_NAMED = 3
_OF_THE_SERVER = (errors.ConnectionFailed, errors.ServerOutOfResources, errors.WritesRefused)
"""Errors that would occur for the other tables too."""


@frozen
class BriefAlteration:
    """What is done to one table, in one transaction that locks it with `lock_briefly_steps` in this mode."""

    source_id: int
    table: str
    mode: LockMode
    action: Callable[[Connection], None]


@frozen
class AlterationProgress:
    """The progress of an alteration of many tables: tables that are done, failed ones included, and what others wait
    for.
    """

    done: int
    total: int
    waiting: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = f" and {len(self.waiting) - _NAMED} more" if len(self.waiting) > _NAMED else ""
        waits = f"; {', '.join(self.waiting[:_NAMED])}{more}" if self.waiting else ""
        return f"{self.done} of {self.total} tables{waits}"


_Holders = dict[int, dict[str, str]]
"""Transactions that hold conflicting locks on tables: their names, by table and by transaction."""


def alter_each(
    engine: Engine,
    alterations: Sequence[BriefAlteration],
    wait_s: float,
    on_progress: Callable[[AlterationProgress], None],
) -> dict[int, RowtideError | None]:
    """Alter tables; return each one's error by its oid, None if it was altered.

    Tables in use are waited for up to `wait_s`; after that they have `TableHeld`. Raises errors that concern the whole
    server; what was altered before stays so.
    """
    begun = ended_at = time.monotonic()
    outcomes: dict[int, RowtideError | None] = {}
    blockers: _Holders = {}
    pending = tuple(alterations)
    with errors.translated(), engine.connect() as connection:
        while pending:
            # Only locks that existed when the attempt failed are waited for. If later transactions counted too, a table
            # in steady use would never be tried again.
            holders = _read_holders(connection, pending)
            blockers = {table: _still_there(found, holders.get(table, {})) for table, found in blockers.items()}
            free = [one for one in pending if not blockers.get(one.source_id)]
            for one in free:
                if _attempt(connection, one, outcomes):
                    on_progress(AlterationProgress(len(outcomes), len(alterations), _describe(pending, blockers)))
            pending = tuple(one for one in pending if one.source_id not in outcomes)
            tried = [one for one in free if one in pending]
            holders = _read_holders(connection, tried)
            blockers |= {one.source_id: holders.get(one.source_id, {}) for one in tried}
            waited_s = time.monotonic() - begun
            if pending and waited_s > wait_s:
                return outcomes | {one.source_id: _fail_rest(one, waited_s, blockers) for one in pending}
            if pending:
                on_progress(AlterationProgress(len(outcomes), len(alterations), _describe(pending, blockers)))
                if time.monotonic() - ended_at > _END_SILENT_S:
                    with connection.begin():
                        end_silent_beside(connection)
                    ended_at = time.monotonic()
                time.sleep(_POLL_S)
    return outcomes


def _attempt(connection: Connection, one: BriefAlteration, outcomes: dict[int, RowtideError | None]) -> bool:
    """Alter a table; return whether it has an outcome, False if it is in use."""
    try:
        with errors.translated(), connection.begin():
            one.action(connection)
    except _OF_THE_SERVER:
        raise
    # The time limit of `lock_briefly_steps`, or a deadlock: neither concerns the table itself, which a later round
    # tries again.
    except (errors.StatementCancelled, errors.TransactionAborted):
        return False
    except RowtideError as error:
        if isinstance(error, errors.UnexpectedSqlError) and error.sqlstate == LOCK_NOT_AVAILABLE:
            return False
        outcomes[one.source_id] = error
    else:
        outcomes[one.source_id] = None
    return True


def _read_holders(connection: Connection, tables: Sequence[BriefAlteration]) -> _Holders:
    exclusive = [one.source_id for one in tables if one.mode is LockMode.ACCESS_EXCLUSIVE]
    others = [one.source_id for one in tables if one.mode is not LockMode.ACCESS_EXCLUSIVE]
    found: _Holders = {}
    with connection.begin():
        for row in connection.execute(text(_HOLDERS), {"exclusive": exclusive, "others": others}):
            found.setdefault(row.table_id, {})[row.transaction] = row.name
    return found


def _still_there(blockers: dict[str, str], holders: dict[str, str]) -> dict[str, str]:
    """Return those of a table's blockers that still hold their locks."""
    return {transaction: name for transaction, name in blockers.items() if transaction in holders}


def _describe(pending: Sequence[BriefAlteration], blockers: _Holders) -> tuple[str, ...]:
    held = [one for one in pending if blockers.get(one.source_id)]
    return tuple(f"{one.table} waits for {_name(blockers[one.source_id])}" for one in held)


def _name(holders: dict[str, str]) -> str:
    return ", ".join(sorted(set(holders.values()))) or "transactions that have ended meanwhile"


def _fail_rest(one: BriefAlteration, waited_s: float, blockers: _Holders) -> errors.TableHeld:
    return errors.TableHeld(one.table, round(waited_s), _name(blockers.get(one.source_id, {})))


# By virtual transaction, not by process: a pooled session begins its next transaction at once, and that one is not
# waited for. A prepared transaction holds its locks without a process; the lock on its transaction id leads to its
# name. Locks that readers and `select for update` take conflict with ACCESS EXCLUSIVE alone.
_HOLDERS = """
select wanted.table_id, l.virtualtransaction as transaction,
       case when a.pid is not null then format('pid %s (%s)', a.pid, concat_ws(
                ', ', a.usename, coalesce(nullif(a.application_name, ''), a.backend_type)))
            when p.gid is not null then format('prepared transaction %L', p.gid) else 'a session' end as name
from (select unnest(cast(:exclusive as bigint[])) as table_id, true as is_exclusive
      union all select unnest(cast(:others as bigint[])), false) wanted
join pg_locks l on l.locktype = 'relation' and l.granted
  and (l.relation = wanted.table_id or l.relation in (select relid from pg_partition_tree(wanted.table_id::oid)))
  and (wanted.is_exclusive or l.mode not in ('AccessShareLock', 'RowShareLock'))
  and l.database = (select oid from pg_database where datname = current_database())
left join pg_stat_activity a on a.pid = l.pid
left join pg_prepared_xacts p on l.pid is null and p.transaction in (
    select t.transactionid from pg_locks t
    where t.locktype = 'transactionid' and t.pid is null and t.virtualtransaction = l.virtualtransaction)
"""
