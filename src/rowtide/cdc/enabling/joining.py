"""Enabling new tables of rules from the process that captures, beside capture.

If the role may not create event triggers, this enables all new tables; otherwise only those that need a wait or a
decision, or that cannot be enabled.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from sqlalchemy import Connection, Engine, Executable, text
from sqlalchemy.dialects.postgresql import insert

from rowtide.cdc import access
from rowtide.cdc.definitions import read_source, ruled_tables
from rowtide.cdc.enabling.joining_triggers import MATCHING_RULE
from rowtide.cdc.enabling.table_rules import ENABLED, FAILED, PRESENT, TableRule, list_rules
from rowtide.cdc.enabling.table_sets import Outcome, TableOutcome, enable_planned, plan_each
from rowtide.cdc.published import read_instances, read_publication
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.catalogue import IS_NOT_NULL, list_tables
from rowtide.databases.postgres.errors import TableHeld, translated
from rowtide.databases.postgres.quoting import quote_literal
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.databases.source_table import SourceTable
from rowtide.events.catalogue import JoiningFailed, TableJoined, TableNotJoined
from rowtide.events.event import emit, inheriting
from rowtide.log.membership import Announcement
from rowtide.log.postgres.ddl_triggers import announced_content

_STATEMENT = "the index of the key, or not null of its columns, is gone"


class LostKeys:
    """Announces each lost key once; another process announces it again as long as capture has not read it."""

    def __init__(self, engine: Engine, database: str) -> None:
        self._engine = engine
        self._database = database
        self._announced: set[str] = set()

    def announce(self) -> None:
        """Announce the keys that were lost since the last look. Raises `DatabaseNotEnabled`, and as statements do."""
        with translated(), self._engine.connect() as connection:
            # The source knows which keys are lost now, and the lake which of them capture has read: only the others are
            # announced.
            found = {str(member_id): int(source_id) for member_id, source_id in connection.execute(text(_LOST))}
            lost = {member_id: found[member_id] for member_id in found.keys() - self._announced}
            lake = read_source(connection, self._database).lake if lost else None
        if lake is None:
            return
        published = read_publication(lake)
        recorded = read_instances(lake, published.cycle) if published is not None else {}
        known = {one.instance.member_id for one in recorded.values() if one.instance.key_lost_at is not None}
        for source_id in {source_id for member_id, source_id in lost.items() if member_id not in known}:
            with translated(), self._engine.begin() as connection:
                connection.execute(text(_ANNOUNCE), {"source_id": source_id})
        self._announced |= lost.keys()


# A deferrable index is no key, because two rows may have the same value until the transaction ends. Neither is an index
# on expressions, nor a partial one.
_LOST = f"""
select t.member_id, t.source_object_id
from cdc.change_tables t
join pg_class c on c.oid::bigint = t.source_object_id
where exists (select from cdc.index_columns k where k.object_id = t.object_id)
  and not exists (
    select from pg_index i
    where i.indrelid = c.oid and i.indisunique and i.indimmediate and i.indisvalid
      and i.indpred is null and i.indexprs is null and not exists (
        select from unnest(i.indkey::int2[]) with ordinality k(number, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
        where k.place <= i.indnkeyatts and (not {IS_NOT_NULL} or not exists (
            select from cdc.index_columns own where own.object_id = t.object_id and own.column_id = k.number))))
"""  # noqa: S608 - of constants

_CONTENT = announced_content(
    command="'ALTER TABLE'",
    sql=quote_literal(_STATEMENT),
    moves_rows="false",
    brings_rows="false",
    is_inferred="true",
)
_ANNOUNCE = f"""
insert into rowtide.control (kind, content)
select {quote_literal(Announcement.DDL.value)}, {_CONTENT}
from (select c.oid, n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.oid::bigint = :source_id) altered
"""  # noqa: S608 - of constants


_WAIT_S = 1.0


def join_new_tables(engine: Engine, database: str) -> tuple[TableOutcome, ...]:
    """Enable the new tables of rules; return the outcome of each that was tried.

    A table in use is tried again by the next call; one that failed, after some minutes, or when its name has changed.
    Raises `DatabaseNotEnabled`, `NotOwner`, and errors of the server as a whole.
    """
    with translated(), engine.connect() as connection:
        rules = list_rules(connection)
    # Most databases have no rules: not writing anything keeps their log idle.
    if not rules:
        return ()
    with translated(), engine.begin() as connection:
        access.own_source(connection, database)
        connection.execute(text(_FORGET_DROPPED))
        connection.execute(text(_NOTE_PRESENT))
        found = _find_new(connection)
    return tuple(outcome for rule in rules for outcome in _join(engine, database, rule, found.get(rule.rule_name, ())))


def _find_new(connection: Connection) -> dict[str, list[int]]:
    """Return the tables that each rule would enable."""
    rows = connection.execute(text(_NEW)).all()
    capturable = {one.source_id for one in list_tables(connection)} if rows else set()
    found: dict[str, list[int]] = {}
    for row in rows:
        if row.source_id in capturable:
            found.setdefault(row.rule_name, []).append(row.source_id)
    return found


def _join(engine: Engine, database: str, rule: TableRule, source_ids: Sequence[int]) -> tuple[TableOutcome, ...]:
    if not source_ids:
        return ()
    with translated(), engine.connect() as connection:
        planned = plan_each(connection, source_ids, rule.request)
    note = partial(_note_enabled, rule)
    outcomes = enable_planned(engine, database, planned, rule.request, _WAIT_S, note=note)
    for one in outcomes:
        name = f"{one.source_schema}.{one.source_table}"
        if one.outcome is Outcome.ENABLED:
            emit(TableJoined(name, rule.rule_name))
        elif one.outcome is Outcome.FAILED and not isinstance(one.error, TableHeld):
            emit(TableNotJoined(name, rule.rule_name, one.error))
            with translated(), engine.begin() as connection:
                connection.execute(_record(rule, one.source_id, one.source_schema, one.source_table, one.reason))
    return outcomes


def _note_enabled(rule: TableRule, table: SourceTable) -> Sequence[Executable]:
    return (_record(rule, table.source_id, table.schema, table.name, None),)


def _record(rule: TableRule, source_id: int, schema: str, table: str, reason: str | None) -> Executable:
    """Return the statement that records a table, as failed if there is a reason."""
    added = insert(ruled_tables).values(
        rule_name=rule.rule_name,
        source_object_id=source_id,
        source_schema=schema,
        source_table=table,
        outcome=FAILED if reason is not None else ENABLED,
        reason=reason,
    )
    replaced = ("source_schema", "source_table", "outcome", "reason", "considered_at")
    columns = ruled_tables.c
    return added.on_conflict_do_update(
        index_elements=[columns.rule_name, columns.source_object_id],
        set_={name: added.excluded[name] for name in replaced},
    )


_FORGET_DROPPED = """
delete from cdc.ruled_tables t where not exists (select from pg_class c where c.oid::bigint = t.source_object_id)
"""

_NOTE_PRESENT = f"""
insert into cdc.ruled_tables (rule_name, source_object_id, source_schema, source_table, outcome)
select r.rule_name, c.oid::bigint, n.nspname, c.relname, '{PRESENT}'
from cdc.table_rules r, pg_class c join pg_namespace n on n.oid = c.relnamespace
where exists (select from cdc.change_tables t where t.source_object_id = c.oid::bigint)
  and not exists (select from cdc.ruled_tables t where t.rule_name = r.rule_name and t.source_object_id = c.oid::bigint)
  and n.nspname || E'\\n' || c.relname ~ r.included_expression
on conflict do nothing
"""  # noqa: S608 - of constants
"""A table that was enabled by hand is recorded, so that it is not enabled again after somebody disables it."""

_NEW = f"""
select c.oid::bigint as source_id, matching.rule_name
from pg_class c join pg_namespace n on n.oid = c.relnamespace, lateral ({MATCHING_RULE}) matching
where c.relkind in ('r', 'p') and c.relpersistence = 'p'
  and not exists (select from cdc.change_tables t where t.source_object_id = c.oid::bigint)
  and not exists (
      select from cdc.ruled_tables t
      where t.rule_name = matching.rule_name and t.source_object_id = c.oid::bigint
        and (t.source_schema, t.source_table) = (n.nspname, c.relname)
        and t.outcome = '{FAILED}' and t.considered_at > now() - interval '5 minutes')
  and not exists (
      select from pg_partition_ancestors(c.oid) root join pg_class above on above.oid = root.relid
      join pg_namespace within on within.oid = above.relnamespace
      where root.relid <> c.oid and (
          exists (select from cdc.change_tables t where t.source_object_id = above.oid::bigint)
          or exists (select from cdc.table_rules r
                     where within.nspname || E'\\n' || above.relname ~ r.included_expression)))
order by c.oid
"""  # noqa: S608 - of constants
"""A partition is enabled, or excluded, with the table above it."""


POLL_S = 2.0
# Lost keys are looked for at every fifth poll, that is, every ten seconds.
_POLLS_PER_KEYS = 5
_THREAD = "rowtide-joining"


@contextmanager
def joining(engine: Engine, database: str) -> Iterator[None]:
    """Look for new tables of rules every `POLL_S` seconds during the block, and for lost keys every ten seconds.

    The first look is `POLL_S` seconds later, because a run that ends by itself has looked before.
    """
    ended = threading.Event()
    with ThreadPoolExecutor(1, _THREAD) as pool:
        thread = pool.submit(inheriting(_run, job="joining"), engine, database, ended)
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
            # Capture continues, because enabled tables do not depend on this.
            if str(error) != reported:
                emit(JoiningFailed(error))
            reported = str(error)
