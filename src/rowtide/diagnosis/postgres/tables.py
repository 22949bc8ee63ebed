"""Check tables: what `enable-table` would refuse of them, and captured names that no table has any more. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from rowtide.cdc.definitions import FEATURE as CAPTURE
from rowtide.cdc.enabling.instances import MAX_NAME_LENGTH, define_instance
from rowtide.cdc.errors.enabling import (
    ColumnNameReserved,
    InstanceNameInvalid,
    InstanceNameTooLong,
    NoColumns,
    VirtualColumnUnloggable,
)
from rowtide.cdc.instances import name_for_readers
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.errors import RowtideError
from rowtide.core.names import write_column_list
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.values import lake_type
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind, TablePartition
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.postgres.reading import DatabaseFacts
from rowtide.diagnosis.postgres.table_facts import MemberFacts, PostgresTableFacts
from rowtide.diagnosis.result import (
    AS_OWNER,
    Advice,
    CheckResult,
    Remediation,
    ShellCommand,
    Sql,
    State,
    counts,
    format_bytes,
    format_names,
    note,
    of_error,
    quote_table,
    shell,
    sizes,
    table_subject,
    warning,
)
from rowtide.log.postgres.membership import FULL_IDENTITY
from rowtide.replication.articles.articles import FEATURE as REPLICATION

_NOUNS = {CAPTURE: "instance", REPLICATION: "article"}
_REPLACED = {CAPTURE: Code.INSTANCE_TABLE_REPLACED, REPLICATION: Code.ARTICLE_TABLE_REPLACED}
_READ = {CAPTURE: "captured", REPLICATION: "published"}


def check_members(members: Iterable[MemberFacts], feature: str | None = None) -> Iterator[CheckResult]:
    """Check the members of a feature, or all: whether their names belong to other tables, and what they do not see."""
    for member in members:
        if member.feature in _NOUNS and feature in (None, member.feature):
            yield from _check_namesake(member)
            if member.table is not None:
                subject = f"{_NOUNS[member.feature]} {member.name}"
                yield from check_child_tables(member.table, subject, _READ[member.feature])
                yield from _check_row_holders(member.table, subject)


def check_child_tables(table: SourceTable, subject: str, read: str) -> Iterator[CheckResult]:
    """Say that rows of the tables that inherit from one are not its own in the log."""
    if table.child_tables:
        message = (
            f"rows of the tables that inherit from {table.qualified_name} are not {read} with it, though a query of it "
            f"returns them: {format_names(table.child_tables)}"
        )
        yield note(Code.CHILD_TABLES_NOT_READ, subject, message, "Have those tables read too, each by itself.")


def _check_row_holders(table: SourceTable, subject: str) -> Iterator[CheckResult]:
    """A table with such a partition is refused, but one can become so, be attached and be created later."""
    for partition in table.row_holders:
        if partition.kind is not TableKind.ORDINARY:
            message = (
                f"partition {partition.qualified_name} of {table.qualified_name} is {partition.kind.value}: changes of "
                "its rows are not in the log"
            )
            yield CheckResult(Code.PARTITION_NOT_LOGGED, State.FAILING, subject, message, _remediate_holder(partition))


def _remediate_holder(partition: TablePartition) -> Remediation:
    if partition.kind is TableKind.UNLOGGED:
        name = quote_qualified(partition.schema, partition.name)
        return Sql((f"alter table {name} set logged;",), f"{AS_OWNER}; then copy the partitioned table again")
    return Advice("Detach it.")


def _check_namesake(member: MemberFacts) -> Iterator[CheckResult]:
    """A table that is swapped in, or made again, has the name and not the changes of the one that is read."""
    if not member.has_namesake:
        return
    read = _READ[member.feature]
    if member.dropped_at is not None:
        message = (
            f"it ended when its table {member.recorded} was dropped, on {member.dropped_at:%Y-%m-%d}; another table "
            f"has this name now, and is not {read}"
        )
    elif member.table is None:
        message = f"its table {member.recorded} was dropped; another table has this name now, and is not {read}"
    else:
        message = (
            f"{member.recorded} is another table now, and is not {read}: this reads on from the one that had the name "
            f"before, now {member.table.qualified_name}"
        )
    yield CheckResult(
        _REPLACED[member.feature],
        State.WARNING,
        f"{_NOUNS[member.feature]} {member.name}",
        message,
        _remediate_name(member),
    )


def _remediate_name(member: MemberFacts) -> Remediation:
    table = quote_qualified(member.recorded_schema, member.recorded_name)
    if member.dropped_at is not None and member.feature == CAPTURE:
        return shell("rowtide", "cdc", "enable-table", table, "--capture-instance", member.name)
    begin = _BEGIN[member.feature](table)
    return Advice(f"Read the table of that name too: `{begin}`; end the other when its changes are consumed.")


_BEGIN = {
    CAPTURE: lambda table: shell("rowtide", "cdc", "enable-table", table, "--capture-instance", "NAME"),
    REPLICATION: lambda table: shell("rowtide", "replication", "add-article", "PUBLICATION", table),
}


_ANY_NAME = "check"
_NOT_IN_NAME = re.compile(r"[^\w-]+")


def check_enabling(facts: PostgresTableFacts) -> Iterator[CheckResult]:
    """Report everything that would be refused, not only the first problem; for a table of the wrong kind, only that."""
    refusal = refuse_kind(facts.table)
    if refusal is not None:
        remediation = _remediate_kind(facts.table)
        yield of_error(Code.TABLE_REFUSED, _state(facts), table_subject(facts.table), refusal, remediation)
        return
    yield from _check_columns(facts)
    yield from _check_default_name(facts.table)


def refuse_kind(table: SourceTable) -> RowtideError | None:
    """Return what a table would be refused with whatever its columns, None where it would not."""
    refusal = _refusal(replace(table, columns=()), InstanceRequest(capture_instance=_ANY_NAME))
    # Its columns were taken away here.
    return None if isinstance(refusal, NoColumns) and table.columns else refusal


def check_name_clashes(facts: DatabaseFacts) -> Iterator[CheckResult]:
    """Instances' names are compared without regard to case, and do not separate schema and table."""
    instances = facts.capture.instances if facts.capture is not None else ()
    taken = {instance.name.lower(): f"{instance.schema}.{instance.table}" for instance in instances}
    for table in (one.table for one in facts.tables if not one.is_captured):
        name = _default_name(table)
        other = taken.setdefault(name.lower(), table.qualified_name)
        if other != table.qualified_name:
            free = _number(name, taken)
            taken[free.lower()] = table.qualified_name
            message = f"its capture instance would be called {name}, as that of {other}"
            yield warning(Code.INSTANCE_NAME_SHARED, table_subject(table), message, _enable(table, free))


def _state(facts: PostgresTableFacts) -> State:
    """A table that was not named was not asked for: that concerns its own capture alone."""
    return State.FAILING if facts.is_wanted else State.WARNING


def _check_columns(facts: PostgresTableFacts) -> Iterator[CheckResult]:
    """Ask for each column by itself: `enable-table` names only the first that it refuses."""
    for column in facts.table.columns:
        refusal = _refuse_column(facts.table, column)
        if refusal is not None:
            state = State.WARNING if isinstance(refusal, ColumnNameReserved) else _state(facts)
            remediation = _remediate_column(facts, column, refusal)
            yield of_error(Code.COLUMN_REFUSED, state, table_subject(facts.table), refusal, remediation)


def _refuse_column(table: SourceTable, column: SourceColumn) -> RowtideError | None:
    return _refusal(replace(table, columns=(column,)), InstanceRequest(capture_instance=_ANY_NAME))


def _refusal(table: SourceTable, request: InstanceRequest) -> RowtideError | None:
    try:
        define_instance(table, request, _ANY_NAME)
    except RowtideError as refusal:
        return refusal
    return None


def _remediate_kind(table: SourceTable) -> Remediation | None:
    if table.kind is TableKind.UNLOGGED:
        return Sql((f"alter table {quote_table(table)} set logged;",), f"{AS_OWNER}; the table is rewritten")
    return None


def _remediate_column(facts: PostgresTableFacts, column: SourceColumn, refusal: RowtideError) -> Remediation | None:
    if isinstance(refusal, ColumnNameReserved):
        return _exclude(facts.table, column)
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


def _exclude(table: SourceTable, column: SourceColumn) -> Remediation:
    """A key column has to be captured, and one column at least: these are renamed."""
    if column.key_ordinal is not None or not _free_columns(table):
        new = quote(f"{column.name}_")
        return Sql((f"alter table {quote_table(table)} rename column {quote(column.name)} to {new};",), AS_OWNER)
    return _enable(table)


def _free_columns(table: SourceTable) -> list[str]:
    """Return the columns whose names are not those of a change table's own."""
    refusals = ((column.name, _refuse_column(table, column)) for column in table.columns)
    return [name for name, refusal in refusals if not isinstance(refusal, ColumnNameReserved)]


def _check_default_name(table: SourceTable) -> Iterator[CheckResult]:
    refusal = _refuse_name(table)
    if refusal is not None:
        yield of_error(Code.INSTANCE_NAME_REFUSED, State.WARNING, table_subject(table), refusal, _enable(table))


def _refuse_name(table: SourceTable) -> RowtideError | None:
    refusal = _refusal(replace(table, columns=()), InstanceRequest())
    return refusal if isinstance(refusal, InstanceNameTooLong | InstanceNameInvalid) else None


def _enable(table: SourceTable, name: str | None = None) -> ShellCommand:
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


_CHARACTERS = re.compile(r"(character varying|character|text|name|uuid)(\(\d+\))?")
"""Types whose text form is what everybody expects."""


def check_tables(facts: DatabaseFacts) -> Iterator[CheckResult]:
    """Check the tables, each by itself, then together."""
    instances = facts.capture.instances if facts.capture is not None else ()
    reduced = {one.source_id for one in instances if one.definition is not None and one.definition.supports_net_changes}
    for table in facts.tables:
        yield from check_table(table, has_net_changes=table.table.source_id in reduced)
    yield from check_name_clashes(facts)
    yield from _check_identities(facts.tables)
    if facts.foreign_tables:
        message = f"the rows of {format_names(facts.foreign_tables)} are on another server, whose log has their changes"
        measures = counts(tables=len(facts.foreign_tables))
        yield note(Code.FOREIGN_TABLES, "foreign tables", message, "Capture them there.", measures)


def check_table(facts: PostgresTableFacts, *, has_net_changes: bool = False) -> Iterator[CheckResult]:
    """Check one table by itself; `has_net_changes` says that an instance of it has them."""
    if not facts.is_captured:
        yield from check_enabling(facts)
        if refuse_kind(facts.table) is not None:
            return
        yield from _check_toast(facts)
        yield from check_child_tables(facts.table, table_subject(facts.table), "captured")
    yield from _check_partitions(facts)
    if not has_net_changes:
        yield from _check_key(facts)
    yield from _check_column_names(facts.table)
    yield from _check_texts(facts.table)


def _check_toast(facts: PostgresTableFacts) -> Iterator[CheckResult]:
    """A full identity makes the server read and log what it stores out of line, at every update and delete."""
    if facts.table.identity == FULL_IDENTITY or not facts.out_of_line_bytes:
        return
    row_bytes = _measure_row(facts)
    width = f", {format_bytes(row_bytes)} on average" if row_bytes is not None else ""
    message = (
        f"enabling it sets replica identity full: every update and delete then logs the whole old row{width}, "
        f"and of this table's values {format_bytes(facts.out_of_line_bytes)} are stored out of line"
    )
    advice = "Keep rarely changed large values in a table of their own, if updates beside them are frequent."
    measures = sizes(row_bytes=row_bytes, toast_bytes=facts.out_of_line_bytes)
    yield warning(Code.TOAST_LOGGED, table_subject(facts.table), message, advice, measures)


def _measure_row(facts: PostgresTableFacts) -> float | None:
    """Out-of-line values count with a pointer in the server's statistics; the old row in the log has them whole."""
    if facts.row_width is None or facts.row_count is None:
        return None
    return facts.row_width + facts.out_of_line_bytes / facts.row_count


def _check_identities(tables: Sequence[PostgresTableFacts]) -> Iterator[CheckResult]:
    changing = tuple(
        facts
        for facts in tables
        if not (facts.is_captured or facts.table.identity == FULL_IDENTITY or facts.out_of_line_bytes)
        and refuse_kind(facts.table) is None
    )
    if changing:
        names = format_names(tuple(facts.table.qualified_name for facts in changing))
        widths = [facts.row_width for facts in changing if facts.row_width is not None]
        width = f", {format_bytes(min(widths))} to {format_bytes(max(widths))} on average" if widths else ""
        message = (
            f"enabling sets replica identity full for {names}: updates and deletes then log the whole old row{width}"
        )
        of_rows = sizes(least_row_bytes=min(widths, default=None), most_row_bytes=max(widths, default=None))
        yield note(Code.IDENTITY_CHANGES, "tables", message, measures=(*counts(tables=len(changing)), *of_rows))


def _check_partitions(facts: PostgresTableFacts) -> Iterator[CheckResult]:
    """The log carries old rows by the replica identity of the partition that holds them, not the root's.

    A root whose own identity is not full is captured by keys.
    """
    if not facts.is_captured or facts.table.identity != FULL_IDENTITY:
        return
    for partition in facts.partitions:
        if partition.identity != FULL_IDENTITY:
            name = quote_qualified(partition.schema, partition.name)
            message = (
                f"the replica identity of partition {partition.schema}.{partition.name} is not full: "
                "change rows of its updates and deletes lack the old values"
            )
            remediation = Sql((f"alter table {name} replica identity full;",), AS_OWNER)
            yield warning(Code.PARTITION_IDENTITY, table_subject(facts.table), message, remediation)


def _check_key(facts: PostgresTableFacts) -> Iterator[CheckResult]:
    if facts.table.key_columns:
        return
    message = (
        "it has no primary key: an instance of it has no net changes, and a copy of its rows begins again when it is "
        "interrupted"
    )
    if facts.unique_key:
        columns = ", ".join(map(quote, facts.unique_key))
        as_whom = f"{AS_OWNER}; then disable its instances and enable them again" if facts.is_captured else AS_OWNER
        remediation: Remediation = Sql(
            (f"alter table {quote_table(facts.table)} add primary key ({columns});",), as_whom
        )
    else:
        remediation = Advice("Give it one; an instance that is enabled afterwards has them.")
    yield note(Code.PRIMARY_KEY_MISSING, table_subject(facts.table), message, remediation)


def _check_column_names(table: SourceTable) -> Iterator[CheckResult]:
    names = [column.name for column in table.columns]
    renamed = [(name, lake) for name, lake in zip(names, name_for_readers(names), strict=True) if name != lake]
    if renamed:
        pairs = ", ".join(f"{name} is {lake}" for name, lake in renamed)
        yield note(
            Code.COLUMN_NAMES_DIFFER_IN_CASE,
            table_subject(table),
            f"names that differ only in case: in the lake {pairs}",
        )


def _check_texts(table: SourceTable) -> Iterator[CheckResult]:
    texts = tuple(
        f"{column.name} ({column.type_text})"
        for column in table.columns
        if lake_type(column.value_type_text).is_text and _CHARACTERS.fullmatch(column.value_type_text) is None
    )
    if texts:
        message = f"held in the lake as the text that the server prints: {format_names(texts)}"
        yield note(Code.COLUMNS_HELD_AS_TEXT, table_subject(table), message, measures=counts(columns=len(texts)))
