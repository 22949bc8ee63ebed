"""What tables are like, and what that means for capture. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rowtide.cdc.instances import name_for_readers
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.values import lake_type
from rowtide.databases.source_table import SourceTable
from rowtide.findings.finding import AS_OWNER, Advice, Finding, Mend, Severity, Sql, quote_table, table_subject
from rowtide.findings.postgres.enabling_findings import find_name_clashes, find_refusals, refuse_kind
from rowtide.findings.postgres.facts import DatabaseFacts, TableFacts
from rowtide.findings.postgres.member_findings import warn_of_child_tables
from rowtide.findings.quantities import format_bytes, format_names
from rowtide.log.postgres.membership import FULL_IDENTITY

_CHARACTERS = re.compile(r"(character varying|character|text|name|uuid)(\(\d+\))?")
"""Types whose text form is what everybody expects."""


def find_in_tables(facts: DatabaseFacts) -> Iterator[Finding]:
    """Judge the tables, each by itself, then together."""
    instances = facts.capture.instances if facts.capture is not None else ()
    reduced = {one.source_id for one in instances if one.definition is not None and one.definition.supports_net_changes}
    for table in facts.tables:
        yield from find_in_table(table, has_net_changes=table.table.source_id in reduced)
    yield from find_name_clashes(facts)
    yield from _tell_identities(facts.tables)
    if facts.foreign_tables:
        fact = f"the rows of {format_names(facts.foreign_tables)} are on another server, whose log has their changes"
        yield Finding(Severity.TELLS, "foreign tables", fact, Advice("Capture them there."))


def find_in_table(facts: TableFacts, *, has_net_changes: bool = False) -> Iterator[Finding]:
    """Judge one table by itself; `has_net_changes` says that an instance of it has them."""
    if not facts.is_captured:
        yield from find_refusals(facts)
        if refuse_kind(facts.table) is not None:
            return
        yield from _find_out_of_line(facts)
        yield from warn_of_child_tables(facts.table, table_subject(facts.table), "captured")
    yield from _find_partitions(facts)
    if not has_net_changes:
        yield from _find_missing_key(facts)
    yield from _tell_names(facts.table)
    yield from _tell_texts(facts.table)


def _find_out_of_line(facts: TableFacts) -> Iterator[Finding]:
    """A full identity makes the server read and log what it stores out of line, at every update and delete."""
    if facts.table.identity == FULL_IDENTITY or not facts.out_of_line_bytes:
        return
    fact = (
        f"enabling it sets replica identity full: every update and delete then logs the whole old row{_width(facts)}, "
        f"and of this table's values {format_bytes(facts.out_of_line_bytes)} are stored out of line"
    )
    advice = "Keep rarely changed large values in a table of their own, if updates beside them are frequent."
    yield Finding(Severity.WARNS, table_subject(facts.table), fact, Advice(advice))


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
        and refuse_kind(facts.table) is None
    )
    if changing:
        names = format_names(tuple(facts.table.qualified_name for facts in changing))
        widths = [facts.row_width for facts in changing if facts.row_width is not None]
        width = f", {format_bytes(min(widths))} to {format_bytes(max(widths))} on average" if widths else ""
        fact = f"enabling sets replica identity full for {names}: updates and deletes then log the whole old row{width}"
        yield Finding(Severity.TELLS, "tables", fact)


def _find_partitions(facts: TableFacts) -> Iterator[Finding]:
    """The log carries old rows by the replica identity of the partition that holds them, not the root's.

    A root whose own identity is not full is captured by keys.
    """
    if not facts.is_captured or facts.table.identity != FULL_IDENTITY:
        return
    for partition in facts.partitions:
        if partition.identity != FULL_IDENTITY:
            name = quote_qualified(partition.schema, partition.name)
            fact = (
                f"the replica identity of partition {partition.schema}.{partition.name} is not full: "
                "change rows of its updates and deletes lack the old values"
            )
            mend = Sql((f"alter table {name} replica identity full;",), AS_OWNER)
            yield Finding(Severity.WARNS, table_subject(facts.table), fact, mend)


def _find_missing_key(facts: TableFacts) -> Iterator[Finding]:
    if facts.table.key_columns:
        return
    fact = (
        "it has no primary key: an instance of it has no net changes, and a copy of its rows begins again when it is "
        "interrupted"
    )
    if facts.unique_key:
        columns = ", ".join(map(quote, facts.unique_key))
        note = f"{AS_OWNER}; then disable its instances and enable them again" if facts.is_captured else AS_OWNER
        mend: Mend = Sql((f"alter table {quote_table(facts.table)} add primary key ({columns});",), note)
    else:
        mend = Advice("Give it one; an instance that is enabled afterwards has them.")
    yield Finding(Severity.TELLS, table_subject(facts.table), fact, mend)


def _tell_names(table: SourceTable) -> Iterator[Finding]:
    names = [column.name for column in table.columns]
    renamed = [(name, lake) for name, lake in zip(names, name_for_readers(names), strict=True) if name != lake]
    if renamed:
        pairs = ", ".join(f"{name} is {lake}" for name, lake in renamed)
        yield Finding(Severity.TELLS, table_subject(table), f"names that differ only in case: in the lake {pairs}")


def _tell_texts(table: SourceTable) -> Iterator[Finding]:
    texts = tuple(
        f"{column.name} ({column.type_text})"
        for column in table.columns
        if lake_type(column.value_type_text).is_text and _CHARACTERS.fullmatch(column.value_type_text) is None
    )
    if texts:
        fact = f"held in the lake as the text that the server prints: {format_names(texts)}"
        yield Finding(Severity.TELLS, table_subject(table), fact)
