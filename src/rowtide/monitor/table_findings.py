"""What tables mean for capture. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count

from rowtide.cdc.errors import ColumnNameReserved, InstanceNameInvalid, InstanceNameTooLong, VirtualColumnUnloggable
from rowtide.cdc.instances import MAX_NAME_LENGTH, InstanceRequest, define_instance, name_lake_columns
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.values import lake_type
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind
from rowtide.log.postgres.membership import FULL_IDENTITY
from rowtide.monitor.facts import DatabaseFacts, TableFacts
from rowtide.monitor.findings import Advice, Command, Finding, Mend, Severity, Sql, of_error, shell
from rowtide.monitor.quantities import format_bytes, format_names

_OWNER = "as the table's owner"
_ANY_NAME = "check"
_CHARACTERS = re.compile(r"(character varying|character|text|name|uuid)(\(\d+\))?")
"""Types whose text form is what everybody expects."""
_NOT_IN_NAME = re.compile(r"[^\w-]+")


def find_in_tables(facts: DatabaseFacts) -> Iterator[Finding]:
    """Judge the tables, each by itself, then together."""
    for table in facts.tables:
        yield from find_in_table(table)
    yield from _find_name_clashes(facts)
    yield from _tell_identities(facts.tables)
    if facts.foreign_tables:
        fact = f"the rows of {format_names(facts.foreign_tables)} are on another server, whose log has their changes"
        yield Finding(Severity.TELLS, "foreign tables", fact, Advice("Capture them there."))


def find_in_table(facts: TableFacts) -> Iterator[Finding]:
    """Judge one table by itself."""
    if not facts.is_captured:
        refusal = _refuse_kind(facts.table)
        if refusal is not None:
            yield of_error(_severity(facts), _subject(facts.table), refusal, _mend_kind(facts.table))
            return
        yield from _find_refused_columns(facts)
        yield from _find_default_name(facts.table)
        yield from _find_out_of_line(facts)
    yield from _find_partitions(facts)
    yield from _find_missing_key(facts)
    yield from _tell_names(facts.table)
    yield from _tell_texts(facts.table)


def _severity(facts: TableFacts) -> Severity:
    """Nobody asked for a table that was not named: it stops nothing but its own capture."""
    return Severity.STOPS if facts.is_wanted else Severity.WARNS


def _refuse_kind(table: SourceTable) -> RowtideError | None:
    return _refusal(replace(table, columns=()), InstanceRequest(_ANY_NAME))


def _find_refused_columns(facts: TableFacts) -> Iterator[Finding]:
    """Ask for each column by itself: `enable-table` names only the first that it refuses."""
    for column in facts.table.columns:
        refusal = _refuse_column(facts.table, column)
        if refusal is not None:
            severity = Severity.WARNS if isinstance(refusal, ColumnNameReserved) else _severity(facts)
            yield of_error(severity, _subject(facts.table), refusal, _mend_column(facts, column, refusal))


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
        return Sql((f"alter table {_quoted(table)} set logged;",), f"{_OWNER}; it is written anew")
    return None


def _mend_column(facts: TableFacts, column: SourceColumn, refusal: RowtideError) -> Mend | None:
    if isinstance(refusal, ColumnNameReserved):
        return _leave_out(facts.table, column)
    expression = facts.expressions.get(column.name)
    if isinstance(refusal, VirtualColumnUnloggable) and expression is not None:
        name, table = quote(column.name), _quoted(facts.table)
        stored = f"generated always as ({expression}) stored"
        statements = (
            f"alter table {table} drop column {name};",
            f"alter table {table} add column {name} {column.type_text} {stored};",
        )
        return Sql(statements, f"{_OWNER}; it becomes the last column")
    return None


def _leave_out(table: SourceTable, column: SourceColumn) -> Mend:
    """A key column has to be captured, and --columns cannot hold every name: these are renamed."""
    if column.key_ordinal is not None or not _are_listable(_free_columns(table)):
        new = quote(f"{column.name}_")
        return Sql((f"alter table {_quoted(table)} rename column {quote(column.name)} to {new};",), _OWNER)
    return _enable(table)


def _free_columns(table: SourceTable) -> list[str]:
    """Return the columns whose names are not those of a change table's own."""
    refusals = ((column.name, _refuse_column(table, column)) for column in table.columns)
    return [name for name, refusal in refusals if not isinstance(refusal, ColumnNameReserved)]


def _are_listable(names: Sequence[str]) -> bool:
    return bool(names) and not any("," in name or name != name.strip() for name in names)


def _find_default_name(table: SourceTable) -> Iterator[Finding]:
    refusal = _refuse_name(table)
    if refusal is not None:
        yield of_error(Severity.WARNS, _subject(table), refusal, _enable(table))


def _refuse_name(table: SourceTable) -> RowtideError | None:
    refusal = _refusal(replace(table, columns=()), InstanceRequest())
    return refusal if isinstance(refusal, InstanceNameTooLong | InstanceNameInvalid) else None


def _enable(table: SourceTable, name: str | None = None) -> Command:
    """Return the command that enables a table, with the options without which it would be refused."""
    free = _free_columns(table)
    columns = ("--columns", ",".join(free)) if len(free) < len(table.columns) and _are_listable(free) else ()
    if name is None and _refuse_name(table) is not None:
        name = _default_name(table)
    named = ("--capture-instance", name) if name is not None else ()
    return shell("rowtide", "cdc", "enable-table", _quoted(table), *named, *columns)


def _default_name(table: SourceTable) -> str:
    """Return the name that an instance has by default, or one like it where that is refused."""
    return _NOT_IN_NAME.sub("_", f"{table.schema}_{table.name}")[:MAX_NAME_LENGTH]


def _find_name_clashes(facts: DatabaseFacts) -> Iterator[Finding]:
    """Names of instances are told apart without regard to case, and do not say where the schema ends."""
    instances = facts.capture.instances if facts.capture is not None else ()
    taken = {instance.name.lower(): f"{instance.schema}.{instance.table}" for instance in instances}
    for table in (one.table for one in facts.tables if not one.is_captured):
        name = _default_name(table)
        other = taken.setdefault(name.lower(), table.qualified_name)
        if other != table.qualified_name:
            free = _number(name, taken)
            taken[free.lower()] = table.qualified_name
            fact = f"its capture instance would be called {name}, as that of {other}"
            yield Finding(Severity.WARNS, _subject(table), fact, _enable(table, free))


def _number(name: str, taken: Collection[str]) -> str:
    candidates = (f"{name[: MAX_NAME_LENGTH - 4]}_{number}" for number in count(2))
    return next(candidate for candidate in candidates if candidate.lower() not in taken)


def _find_out_of_line(facts: TableFacts) -> Iterator[Finding]:
    """A full identity makes the server read and log what it stores out of line, at every update and delete."""
    if facts.table.identity == FULL_IDENTITY or not facts.out_of_line_bytes:
        return
    fact = (
        f"enabling it sets replica identity full: every update and delete then logs the whole old row{_width(facts)}, "
        f"and of this table's values {format_bytes(facts.out_of_line_bytes)} are stored out of line"
    )
    advice = "Keep rarely changed large values in a table of their own, if updates beside them are frequent."
    yield Finding(Severity.WARNS, _subject(facts.table), fact, Advice(advice))


def _width(facts: TableFacts) -> str:
    """Out-of-line values count with a pointer in the server's statistics; the old row in the log has them whole."""
    if facts.row_width is None or facts.row_count is None:
        return ""
    return f", {format_bytes(facts.row_width + facts.out_of_line_bytes / facts.row_count)} on average"


def _tell_identities(tables: Sequence[TableFacts]) -> Iterator[Finding]:
    changing = tuple(
        facts
        for facts in tables
        if not (facts.is_captured or facts.table.identity == FULL_IDENTITY or facts.out_of_line_bytes)
        and _refuse_kind(facts.table) is None
    )
    if changing:
        names = format_names(tuple(facts.table.qualified_name for facts in changing))
        widths = [facts.row_width for facts in changing if facts.row_width is not None]
        width = f", {format_bytes(min(widths))} to {format_bytes(max(widths))} on average" if widths else ""
        fact = f"enabling sets replica identity full for {names}: updates and deletes then log the whole old row{width}"
        yield Finding(Severity.TELLS, "tables", fact)


def _find_partitions(facts: TableFacts) -> Iterator[Finding]:
    """The log carries old rows as the partition that holds them is told to, whatever the root is told."""
    if not facts.is_captured:
        return
    for partition in facts.partitions:
        if partition.identity != FULL_IDENTITY:
            name = quote_qualified(partition.schema, partition.name)
            fact = f"the replica identity of partition {partition.schema}.{partition.name} is not full"
            mend = Sql((f"alter table {name} replica identity full;",), _OWNER)
            yield Finding(Severity.STOPS, _subject(facts.table), fact, mend)


def _find_missing_key(facts: TableFacts) -> Iterator[Finding]:
    if facts.table.key_columns:
        return
    fact = "it has no primary key: an instance of it has no net changes"
    if facts.unique_key:
        columns = ", ".join(map(quote, facts.unique_key))
        mend: Mend = Sql((f"alter table {_quoted(facts.table)} add primary key ({columns});",), _OWNER)
    else:
        mend = Advice("Give it one before it is enabled.")
    yield Finding(Severity.TELLS, _subject(facts.table), fact, mend)


def _tell_names(table: SourceTable) -> Iterator[Finding]:
    names = [column.name for column in table.columns]
    renamed = [(name, lake) for name, lake in zip(names, name_lake_columns(names), strict=True) if name != lake]
    if renamed:
        pairs = ", ".join(f"{name} is {lake}" for name, lake in renamed)
        yield Finding(Severity.TELLS, _subject(table), f"names that differ only in case: in the lake {pairs}")


def _tell_texts(table: SourceTable) -> Iterator[Finding]:
    texts = tuple(
        f"{column.name} ({column.type_text})"
        for column in table.columns
        if lake_type(column.type_text).is_text and _CHARACTERS.fullmatch(column.type_text) is None
    )
    if texts:
        fact = f"held in the lake as the text that the server prints: {format_names(texts)}"
        yield Finding(Severity.TELLS, _subject(table), fact)


def _subject(table: SourceTable) -> str:
    return f"table {table.qualified_name}"


def _quoted(table: SourceTable) -> str:
    return quote_qualified(table.schema, table.name)
