"""The statements that apply changes to a table of current rows (SCD type 1). Pure.

The rows to be merged have the table's columns, and which of them are deleted. All that a window does is one statement,
so that it is one commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.table_functions import mark_condition
from rowtide.cdc.rows.change_columns import DELETE
from rowtide.core.values import frozen
from rowtide.lake.sql_text import quote
from rowtide.targets.columns import TargetColumn, TargetColumns

IS_DELETED = "__$is_deleted"
_COMPARED = re.compile(
    r"(tinyint|smallint|int|bigint|decimal\(.*\)|boolean|string|binary|date|timestamp|timestamp_ntz)$"
)
_WITH_TWO_ZEROS = frozenset({"float", "double"})


@frozen
class Merged:
    """What is to be merged.

    `is_whole`: the rows are all that the table has to have afterwards. `may_lack`: values may be absent, and are then
    as they were. `ranges` are conditions on the table's key that all rows to be merged meet.
    """

    is_whole: bool
    may_lack: bool
    ranges: Sequence[str] = ()


def select_rows(
    rows: str, shape: TargetColumns, instance: Instance, kept: Sequence[str] = (), *, may_lack: bool, are_changes: bool
) -> str:
    """Return the query for the rows to be merged, from net changes, or from rows of the source's table.

    `kept` are columns that they keep as they are.
    """
    selected = [*map(quote, kept), *_selected(shape, instance, may_lack=may_lack, are_changes=are_changes)]
    return f"select {', '.join(selected)} from {rows}"


def _selected(shape: TargetColumns, instance: Instance, *, may_lack: bool, are_changes: bool) -> Iterator[str]:
    is_deleted = f"`__$operation` = {DELETE}" if are_changes else "false"
    if shape.apply_as_deletes is not None:
        is_deleted = f"{is_deleted} or coalesce({shape.apply_as_deletes}, false)"
    yield f"{is_deleted} as `{IS_DELETED}`"
    for index, column in enumerate(shape.columns):
        yield f"{column.expression} as {quote(column.name)}"
        if may_lack and not column.is_key:
            marked = [mark_condition("`__$absent_mask`", ordinal, len(instance.columns)) for ordinal in column.sources]
            yield f"{' or '.join(marked) or 'false'} as {absent(index)}"


def lacks_any(shape: TargetColumns, *, may_lack: bool) -> str:
    """Return the condition that a row lacks a value of the table's columns."""
    indexes = [absent(index) for index, column in enumerate(shape.columns) if may_lack and not column.is_key]
    return f"({' or '.join(indexes) or 'false'})"


def absent(index: int) -> str:
    """Return the column that says whether a value is absent."""
    return f"`__$absent_{index}`"


def merge_statement(table: str, rows: str, shape: TargetColumns, merged: Merged) -> str:
    """Return the statement that merges rows, given by their name in SQL, into a table."""
    keys = [f"t.{quote(key.name)} = s.{quote(key.name)}" for key in shape.keys]
    updated = ", ".join(_updated(shape, merged))
    clauses = [
        f"merge into {table} as t using {rows} as s on {' and '.join([*keys, *merged.ranges])}",
        f"when matched and s.`{IS_DELETED}` then {_removal(shape)}",
        *([f"when matched then update set {updated}"] if updated else []),
        _insertion(shape),
    ]
    if merged.is_whole:
        standing = f" and not t.{quote(shape.soft_delete)}" if shape.soft_delete is not None else ""
        clauses.append(f"when not matched by source{standing} then {_removal(shape)}")
    return "\n".join(clauses)


def differences(rows: str, present: str, shape: TargetColumns, types: Mapping[str, str]) -> str:
    """Return the query for what makes the rows that a table has now those of a copy: rows to be merged.

    `types` are those of the columns, by name.
    """
    same = " and ".join(f"r.{quote(key.name)} <=> o.{quote(key.name)}" for key in shape.keys)
    is_there, was_there = "r.`__$there` is not null", "o.`__$there` is not null"
    alike = [_equality_condition(column.name, types[column.name]) for column in shape.columns if not column.is_key]
    if shape.soft_delete is not None:
        alike.append(f"o.{quote(shape.soft_delete)} <=> false")
    gone = f"{was_there} and not o.{quote(shape.soft_delete)}" if shape.soft_delete is not None else was_there
    selected = [f"not {is_there} as `{IS_DELETED}`"]
    for column in shape.columns:
        name = quote(column.name)
        selected.append(f"coalesce(r.{name}, o.{name}) as {name}" if column.is_key else f"r.{name}")
    return (
        f"select {', '.join(selected)} from (select *, true as `__$there` from {rows} where not `{IS_DELETED}`) r "
        f"full outer join (select *, true as `__$there` from {present}) o on {same} "
        f"where case when {is_there} and {was_there} then not ({' and '.join(['true', *alike])}) "
        f"when {is_there} then true else {gone} end"
    )


def _equality_condition(name: str, type_name: str) -> str:
    """Return whether a column's values are the same; false where its type does not tell them apart."""
    copied, present = f"r.{quote(name)}", f"o.{quote(name)}"
    if type_name in _WITH_TWO_ZEROS:
        copied, present = f"cast({copied} as string)", f"cast({present} as string)"
    elif not _COMPARED.match(type_name):
        return "false"
    return f"{copied} <=> {present}"


def _removal(shape: TargetColumns) -> str:
    return f"update set t.{quote(shape.soft_delete)} = true" if shape.soft_delete is not None else "delete"


def _updated(shape: TargetColumns, merged: Merged) -> Iterator[str]:
    for index, column in enumerate(shape.columns):
        if not column.is_key:
            yield f"t.{quote(column.name)} = {_value(index, column, merged)}"
    if shape.soft_delete is not None:
        yield f"t.{quote(shape.soft_delete)} = false"


def _value(index: int, column: TargetColumn, merged: Merged) -> str:
    given = f"s.{quote(column.name)}"
    if not merged.may_lack:
        return given
    return f"if(s.{absent(index)}, t.{quote(column.name)}, {given})"


def insert_statement(table: str, rows: str, shape: TargetColumns) -> str:
    """Return the statement that fills an empty table."""
    names = [quote(column.name) for column in shape.columns]
    values = list(names)
    if shape.soft_delete is not None:
        names.append(quote(shape.soft_delete))
        values.append("false")
    return f"insert into {table} ({', '.join(names)}) select {', '.join(values)} from {rows} where not `{IS_DELETED}`"


def _insertion(shape: TargetColumns) -> str:
    names = [quote(column.name) for column in shape.columns]
    values = [f"s.{name}" for name in names]
    if shape.soft_delete is not None:
        names.append(quote(shape.soft_delete))
        values.append("false")
    return f"when not matched and not s.`{IS_DELETED}` then insert ({', '.join(names)}) values ({', '.join(values)})"
