"""The parts of which the triggers of a tracked PostgreSQL table are made: functions, tombstones, and truncates.

Triggers fire in every session_replication_role, so that replicated rows are tracked too. Functions that use tracking's
tables run with their owner's rights, a fixed search path, and settings under which every value has one text.
"""

from __future__ import annotations

from uuid import UUID

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import BSN, CONTEXT_SETTING, SCHEMA
from rowtide.databases.postgres.functions import ALL_ROWS, DEFINER, close_function
from rowtide.databases.postgres.owner_functions import called_by_plans
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS
from rowtide.tracking.postgres.system_tables import TOMBSTONES, TRUNCATIONS
from rowtide.tracking.postgres.tracked_tables import PostgresSubject

PREFIX = "__sysTracking_"
_CONTEXT = f"pg_catalog.current_setting('{CONTEXT_SETTING}', true)"
ROW_CONTEXT = f"case when {_CONTEXT} operator(pg_catalog.<>) '' then {_CONTEXT} end"
"""The context of the writing transaction; null if it has none."""

OF_OTHERS = UUID("0b7e5e1c-5d0e-4f2b-8f6a-2f6c1a9d4e37")
"""The context of a row whose writer has not seen others' last change: no reader's, so that no reader excludes the row.

It is not null, so that a row that moves to another partition, and is inserted there, keeps it.
"""

TRUNCATED_ROWS = 100_000
"""Limit of tombstones for a truncate.

One of more rows, or under repeatable read, writes none: older anchors are refused.
"""

_TEXT_SETTINGS = ("DateStyle", "IntervalStyle", "extra_float_digits", "bytea_output", "TimeZone", "lc_monetary")
_BOOL, _INT8, _INT2, _INT4, _TEXT, _OID, _BPCHAR, _VARCHAR, _NUMERIC, _UUID = (
    16, 20, 21, 23, 25, 26, 1042, 1043, 1700, 2950,
)  # fmt: skip
_OF_ONE_TEXT = frozenset({_BOOL, _INT8, _INT2, _INT4, _TEXT, _OID, _BPCHAR, _VARCHAR, _NUMERIC, _UUID})
"""Type codes whose values have one text under all settings.

Setting parameters costs time in each call of a function.
"""


def trigger(kind: str, event: str, relation: str, rest: str) -> list[str]:
    """Return the statements that create a trigger; `event` says when it fires, `rest` what it calls."""
    name = quote(PREFIX + kind)
    return [
        f"create trigger {name} {event} on {relation} {rest}",
        f"alter table {relation} enable always trigger {name}",
    ]


def function_name(subject: PostgresSubject, what: str) -> str:
    """Return the name of a function of one table alone."""
    return f"{SCHEMA}.{quote(f'{what}_{subject.table.source_id}')}"


def function(
    subject: PostgresSubject, what: str, body: str, *, attributes: str = "", is_cloned: bool = False
) -> list[str]:
    """Return the statements that create a table's function, with the rights of the role that enables tracking.

    See `close_function`.
    """
    has_one_text = all(column.type_code in _OF_ONE_TEXT for column in subject.key)
    settings = () if has_one_text else _TEXT_SETTINGS
    pinned = " ".join(f"set {setting} = {quote_literal(PINNED_SETTINGS[setting])}" for setting in settings)
    signature = f"{function_name(subject, what)}()"
    created = f"create or replace function {signature} returns trigger language plpgsql"
    return [
        f"{created} {DEFINER} {attributes} {pinned} as {quote_body(body)}",
        close_function(signature, is_cloned=is_cloned),
    ]


def burial(subject: PostgresSubject, row: str, insert_bsn: str, source: str = "") -> str:
    """Return the statement that writes tombstones for rows of a source, or for one row."""
    columns = '"__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext"'
    return (
        f"insert into {TOMBSTONES} ({columns}) select {subject.literal}, {BSN}, {insert_bsn}, "
        f"{subject.packed_key(row)}, ({ROW_CONTEXT})::uuid {source}"
    )


@frozen
class AroundRelation:
    """A statement in two parts, between which the table or partition to be truncated is inserted."""

    before: str
    after: str

    @property
    def execution(self) -> str:
        """The PL/pgSQL that executes it, with the relation's name in variable `rows`."""
        return f"execute {quote_literal(self.before)} || rows || {quote_literal(self.after)}"


def truncating(subject: PostgresSubject, burial: AroundRelation | None, forgetting: str = "") -> list[str]:
    """Return the statements that create the function `truncate`: it writes tombstones for a few rows, or records a
    larger truncate, and removes stamps by the statement `forgetting`.

    A truncate removes rows committed after its transaction's snapshot: if that is older than the statement, they are
    invisible to it. Nor is a table read whose plan would call functions of its owner's with the rights of this one.
    """
    counting = AroundRelation(
        f"select count(*) <= {TRUNCATED_ROWS} from (select from ", f" limit {TRUNCATED_ROWS + 1}) t"
    )
    statements = []
    if burial is not None:
        note = f"insert into {TRUNCATIONS} values ({subject.literal}, {BSN})"
        can_see = (
            "pg_catalog.current_setting('transaction_isolation') like 'read %' "
            f"and not exists ({called_by_plans('tg_relid')})"
        )
        statements += [
            f"if {can_see} then {counting.execution} into few; end if",
            f"if few then {burial.execution}; else {note}; end if",
        ]
    if forgetting:
        statements.append(forgetting)
    body = (
        "declare few boolean; rows text := pg_catalog.format('%I.%I', tg_table_schema, tg_table_name); "
        f"begin {''.join(f'{one}; ' for one in statements)}return null; end"
    )
    return function(subject, "truncate", body, attributes=ALL_ROWS)


def truncate_triggers(subject: PostgresSubject) -> list[str]:
    """Return the statements that create the triggers for truncates, one per partition."""
    leaves = [quote_qualified(leaf.schema, leaf.name) for leaf in subject.table.row_holders]
    relations = leaves if subject.is_partitioned else [subject.quoted]
    return [made for relation in relations for made in truncate_trigger(subject, relation)]


def truncate_trigger(subject: PostgresSubject, relation: str) -> list[str]:
    """Return the statements that create the trigger of one relation, which calls the function `truncate`."""
    call = f"for each statement execute function {function_name(subject, 'truncate')}()"
    return trigger("truncate", "before truncate", relation, call)
