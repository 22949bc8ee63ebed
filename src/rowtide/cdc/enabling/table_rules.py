"""Rules for new tables: patterns by which tables that are created, renamed or moved later are enabled too.

A rule considers each table once: it does not enable a table that existed before it, or that a user disabled.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, Engine, Executable, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert

from rowtide.cdc import access
from rowtide.cdc.definitions import SCHEMA, read_source, require_complete, ruled_tables, table_rules
from rowtide.cdc.enabling import joining_triggers
from rowtide.cdc.enabling.joining_triggers import Joining
from rowtide.cdc.enabling.table_sets import TablePattern, TableSet, as_expression, is_pattern, parse_pattern
from rowtide.cdc.errors.enabling import RulePatternIncomplete, RuleWithoutPattern, TablePatternInvalid, TableRuleUnknown
from rowtide.cdc.jobs.definitions import first_table_steps
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.formats import StoreFormat
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import has_table
from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.databases.postgres.query_memo import made_once

PRESENT, ENABLED, FAILED = "present", "enabled", "failed"
"""The outcome for a table that a rule considered; `PRESENT`: it existed before the rule, or was enabled by hand."""
_INVALID_EXPRESSION = "2201B"


@frozen
class TableRule:
    """A rule, with the options of the instances that it creates, and how many tables it enabled or could not enable."""

    rule_name: str
    patterns: tuple[str, ...]
    excluding: tuple[str, ...]
    before_images: BeforeImages
    refuses_truncate: bool
    role_name: str | None
    supports_net_changes: bool | None
    snapshot: bool
    rows_per_second: int | None
    created_at: datetime
    enabled: int = 0
    failed: int = 0

    @property
    def request(self) -> InstanceRequest:
        """The options of the instances that it creates."""
        return InstanceRequest(
            refuses_truncate=self.refuses_truncate,
            before_images=self.before_images,
            role_name=self.role_name,
            supports_net_changes=self.supports_net_changes,
            snapshot=self.snapshot,
            rows_per_second=self.rows_per_second,
        )


@frozen
class RuledTable:
    """A table that a rule considered; `reason` says why it could not be enabled."""

    rule_name: str
    source_schema: str
    source_table: str
    outcome: str
    reason: str | None
    considered_at: datetime


def make_rule(engine: Engine, database: str, tables: TableSet, request: InstanceRequest) -> tuple[str, Joining]:
    """Make a rule of the patterns of a set, or replace the one of the same patterns; return its name.

    Its name is its patterns. Names without wildcards are no part of it. Raises `RuleWithoutPattern`,
    `RulePatternIncomplete`, `TablePatternInvalid`, `DatabaseNotEnabled`, `NotOwner`, `DefinitionsIncomplete`, and the
    errors of gating roles.
    """
    patterns = tuple(one for one in tables.patterns if is_pattern(one))
    if not patterns:
        raise RuleWithoutPattern(", ".join(tables.patterns))
    name = ", ".join(patterns)
    values = {
        "patterns": list(patterns),
        "excluding": list(tables.excluding),
        "included_expression": as_expression(map(_parse, patterns)),
        "excluded_expression": as_expression(map(_parse, tables.excluding)),
        "refuses_truncate": request.refuses_truncate,
        "before_images": request.before_images.value,
        "role_name": request.role_name,
        "supports_net_changes": request.supports_net_changes,
        "copies_rows": request.snapshot,
        "rows_per_second": request.rows_per_second,
    }
    with translated(), engine.begin() as connection:
        access.own_source(connection, database)
        require_complete(connection)
        for pattern in (*patterns, *tables.excluding):
            _require_readable(connection, pattern)
        for step in (*access.plan_gating_role(connection, request.role_name), *first_table_steps(connection)):
            connection.execute(step)
        added = insert(table_rules).values(rule_name=name, **values)
        connection.execute(added.on_conflict_do_update(index_elements=[table_rules.c.rule_name], set_=values))
        # Failed tables are forgotten, because the caller tries them again.
        considered = ruled_tables.c
        connection.execute(delete(ruled_tables).where(considered.rule_name == name, considered.outcome == FAILED))
        # A rule is for future tables: existing ones are marked as considered.
        connection.execute(_consider_step(name))
        return name, joining_triggers.ensure_triggers(connection)


def drop_rule(engine: Engine, database: str, name: str) -> None:
    """Drop a rule; what it enabled stays enabled. Raises `TableRuleUnknown`, `DatabaseNotEnabled`, `NotOwner`."""
    with translated(), engine.begin() as connection:
        access.own_source(connection, database)
        require_complete(connection)
        if not connection.execute(delete(table_rules).where(table_rules.c.rule_name == name)).rowcount:
            raise TableRuleUnknown(name)
        if not list_rules(connection):
            for step in joining_triggers.drop_steps():
                connection.execute(step)


def find_rules(engine: Engine, database: str) -> tuple[TableRule, ...]:
    """Return the rules, oldest first. Raises `DatabaseNotEnabled`, `DefinitionsIncomplete`."""
    with translated(), engine.connect() as connection:
        read_source(connection, database, StoreFormat.require_readable)
        return list_rules(connection)


def find_considered(engine: Engine, database: str, name: str) -> tuple[RuledTable, ...]:
    """Return the tables that a rule considered, by schema and name. Raises as `find_rules`, and `TableRuleUnknown`."""
    with translated(), engine.connect() as connection:
        read_source(connection, database, StoreFormat.require_readable)
        if all(rule.rule_name != name for rule in list_rules(connection)):
            raise TableRuleUnknown(name)
        return _list_considered(connection, ruled_tables.c.rule_name == name)


@made_once
def list_rules(connection: Connection) -> tuple[TableRule, ...]:
    """Return the rules, oldest first. Raises `DefinitionsIncomplete`."""
    require_complete(connection)
    columns, considered = table_rules.c, ruled_tables.c
    query = (
        select(
            columns.rule_name,
            columns.patterns,
            columns.excluding,
            columns.before_images,
            columns.refuses_truncate,
            columns.role_name,
            columns.supports_net_changes,
            columns.copies_rows,
            columns.rows_per_second,
            columns.created_at,
            func.count().filter(considered.outcome == ENABLED),
            func.count().filter(considered.outcome == FAILED),
        )
        .select_from(table_rules)
        .outerjoin(ruled_tables, considered.rule_name == columns.rule_name)
        # Grouped by all columns, because monitors read a view, for which the server knows no key.
        .group_by(*columns)
        .order_by(columns.created_at, columns.rule_name)
    )
    return tuple(
        TableRule(row[0], tuple(row[1]), tuple(row[2]), BeforeImages(row[3]), *row[4:])
        for row in connection.execute(query)
    )


def reconsider_steps(connection: Connection) -> list[Executable]:
    """Return the statements that mark all present tables as considered by all rules, because their oids have
    changed.
    """
    if not has_table(connection, SCHEMA, table_rules.name):
        return []
    return [delete(ruled_tables), _consider_step(None)]


@made_once
def list_failed(connection: Connection) -> tuple[RuledTable, ...]:
    """Return the tables that rules could not enable, by schema and name."""
    return _list_considered(connection, ruled_tables.c.outcome == FAILED)


def _list_considered(connection: Connection, condition: ColumnElement[bool]) -> tuple[RuledTable, ...]:
    columns = ruled_tables.c
    query = (
        select(
            columns.rule_name,
            columns.source_schema,
            columns.source_table,
            columns.outcome,
            columns.reason,
            columns.considered_at,
        )
        .where(condition)
        .order_by(columns.source_schema, columns.source_table)
    )
    return tuple(RuledTable(*row) for row in connection.execute(query))


def _consider_step(rule: str | None) -> Executable:
    """Return the statement that marks all present tables as considered by a rule, or by every rule (None)."""
    return text(_CONSIDER).bindparams(rule=rule)


def _parse(pattern: str) -> TablePattern:
    parsed = parse_pattern(pattern)
    if parsed.schema is None:
        raise RulePatternIncomplete(pattern)
    return parsed


def _require_readable(connection: Connection, pattern: str) -> None:
    """Raise `TablePatternInvalid` for a pattern that the server cannot read, such as one with the range z-a."""
    try:
        with translated():
            connection.execute(text("select '' ~ :expression"), {"expression": as_expression([_parse(pattern)])})
    except UnexpectedSqlError as error:
        if error.sqlstate != _INVALID_EXPRESSION:
            raise
        raise TablePatternInvalid(pattern, error.reason) from error


_CONSIDER = f"""
insert into cdc.ruled_tables (rule_name, source_object_id, source_schema, source_table, outcome)
select r.rule_name, c.oid::bigint, n.nspname, c.relname, '{PRESENT}'
from cdc.table_rules r, pg_class c join pg_namespace n on n.oid = c.relnamespace
where (cast(:rule as text) is null or r.rule_name = :rule) and c.relkind in ('r', 'p') and c.relpersistence <> 't'
  and n.nspname || E'\\n' || c.relname ~ r.included_expression
  and not coalesce(n.nspname || E'\\n' || c.relname ~ r.excluded_expression, false)
on conflict do nothing
"""  # noqa: S608 - of constants
