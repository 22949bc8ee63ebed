"""What `enable-table` would refuse of a table, and how it is enabled all the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count

from rowtide.cdc.enabling.instances import MAX_NAME_LENGTH, InstanceRequest, define_instance
from rowtide.cdc.errors.enabling import (
    ColumnNameReserved,
    InstanceNameInvalid,
    InstanceNameTooLong,
    NoColumns,
    VirtualColumnUnloggable,
)
from rowtide.core.column_lists import write_column_list
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind
from rowtide.findings.finding import (
    AS_OWNER,
    Command,
    Finding,
    Mend,
    Severity,
    Sql,
    of_error,
    quote_table,
    shell,
    table_subject,
)
from rowtide.findings.postgres.facts import DatabaseFacts, TableFacts

_ANY_NAME = "check"
_NOT_IN_NAME = re.compile(r"[^\w-]+")


def find_refusals(facts: TableFacts) -> Iterator[Finding]:
    """Say everything that would be refused, not only the first; of a table of the wrong kind nothing else."""
    refusal = refuse_kind(facts.table)
    if refusal is not None:
        yield of_error(_severity(facts), table_subject(facts.table), refusal, _mend_kind(facts.table))
        return
    yield from _find_refused_columns(facts)
    yield from _find_default_name(facts.table)


def refuse_kind(table: SourceTable) -> RowtideError | None:
    """Return what a table would be refused with whatever its columns, None where it would not."""
    refusal = _refusal(replace(table, columns=()), InstanceRequest(_ANY_NAME))
    # Its columns were taken away here.
    return None if isinstance(refusal, NoColumns) and table.columns else refusal


def find_name_clashes(facts: DatabaseFacts) -> Iterator[Finding]:
    """Names of instances are compared without regard to case, and do not say where the schema ends."""
    instances = facts.capture.instances if facts.capture is not None else ()
    taken = {instance.name.lower(): f"{instance.schema}.{instance.table}" for instance in instances}
    for table in (one.table for one in facts.tables if not one.is_captured):
        name = _default_name(table)
        other = taken.setdefault(name.lower(), table.qualified_name)
        if other != table.qualified_name:
            free = _number(name, taken)
            taken[free.lower()] = table.qualified_name
            fact = f"its capture instance would be called {name}, as that of {other}"
            yield Finding(Severity.WARNS, table_subject(table), fact, _enable(table, free))


def _severity(facts: TableFacts) -> Severity:
    """A table that was not named was not asked for: a finding concerns its own capture alone."""
    return Severity.STOPS if facts.is_wanted else Severity.WARNS


def _find_refused_columns(facts: TableFacts) -> Iterator[Finding]:
    """Ask for each column by itself: `enable-table` names only the first that it refuses."""
    for column in facts.table.columns:
        refusal = _refuse_column(facts.table, column)
        if refusal is not None:
            severity = Severity.WARNS if isinstance(refusal, ColumnNameReserved) else _severity(facts)
            yield of_error(severity, table_subject(facts.table), refusal, _mend_column(facts, column, refusal))


def _refuse_column(table: SourceTable, column: SourceColumn) -> RowtideError | None:
    return _refusal(replace(table, columns=(column,)), InstanceRequest(_ANY_NAME))


def _refusal(table: SourceTable, request: InstanceRequest) -> RowtideError | None:
    try:
        define_instance(table, request, _ANY_NAME)
    except RowtideError as refusal:
        return refusal
    return None


def _mend_kind(table: SourceTable) -> Mend | None:
    if table.kind is TableKind.UNLOGGED:
        return Sql((f"alter table {quote_table(table)} set logged;",), f"{AS_OWNER}; the table is rewritten")
    return None


def _mend_column(facts: TableFacts, column: SourceColumn, refusal: RowtideError) -> Mend | None:
    if isinstance(refusal, ColumnNameReserved):
        return _leave_out(facts.table, column)
    expression = facts.expressions.get(column.name)
    if isinstance(refusal, VirtualColumnUnloggable) and expression is not None:
        name, table = quote(column.name), quote_table(facts.table)
        stored = f"generated always as ({expression}) stored"
        statements = (
            f"alter table {table} drop column {name};",
            f"alter table {table} add column {name} {column.type_text} {stored};",
        )
        return Sql(statements, f"{AS_OWNER}; it becomes the last column")
    return None


def _leave_out(table: SourceTable, column: SourceColumn) -> Mend:
    """A key column has to be captured, and one column at least: these are renamed."""
    if column.key_ordinal is not None or not _free_columns(table):
        new = quote(f"{column.name}_")
        return Sql((f"alter table {quote_table(table)} rename column {quote(column.name)} to {new};",), AS_OWNER)
    return _enable(table)


def _free_columns(table: SourceTable) -> list[str]:
    """Return the columns whose names are not those of a change table's own."""
    refusals = ((column.name, _refuse_column(table, column)) for column in table.columns)
    return [name for name, refusal in refusals if not isinstance(refusal, ColumnNameReserved)]


def _find_default_name(table: SourceTable) -> Iterator[Finding]:
    refusal = _refuse_name(table)
    if refusal is not None:
        yield of_error(Severity.WARNS, table_subject(table), refusal, _enable(table))


def _refuse_name(table: SourceTable) -> RowtideError | None:
    refusal = _refusal(replace(table, columns=()), InstanceRequest())
    return refusal if isinstance(refusal, InstanceNameTooLong | InstanceNameInvalid) else None


def _enable(table: SourceTable, name: str | None = None) -> Command:
    """Return the command that enables a table, with the options without which it would be refused."""
    free = _free_columns(table)
    columns = ("--columns", write_column_list(free)) if 0 < len(free) < len(table.columns) else ()
    if name is None and _refuse_name(table) is not None:
        name = _default_name(table)
    named = ("--capture-instance", name) if name is not None else ()
    return shell("rowtide", "cdc", "enable-table", quote_table(table), *named, *columns)


def _default_name(table: SourceTable) -> str:
    """Return the name that an instance has by default, or one like it where that is refused."""
    return _NOT_IN_NAME.sub("_", f"{table.schema}_{table.name}")[:MAX_NAME_LENGTH]


def _number(name: str, taken: Collection[str]) -> str:
    candidates = (f"{name[: MAX_NAME_LENGTH - 4]}_{number}" for number in count(2))
    return next(candidate for candidate in candidates if candidate.lower() not in taken)
