"""The statements that apply changes to a table of current rows (SCD type 1) or of history (SCD type 2). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rowtide.cdc.change_columns import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE
from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.table_functions import mark_condition
from rowtide.core.values import frozen
from rowtide.lake.sql_text import quote
from rowtide.targets.columns import HISTORY_NAMES, TargetColumn, TargetColumns

# The statements that apply changes to a table of current rows (SCD type 1). Pure. The rows to be merged have the
# table's columns, and which of them are deleted. All that a window does is one statement, so that it is one commit.

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
    """Return whether a column's values are the same; false where its type cannot compare them."""
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


FROM_LSN, FROM_TIME, TO_LSN, TO_TIME, IS_CURRENT = HISTORY_NAMES
HISTORY_COLUMNS = [
    (FROM_LSN, "bigint"),
    (FROM_TIME, "timestamp"),
    (TO_LSN, "bigint"),
    (TO_TIME, "timestamp"),
    (IS_CURRENT, "boolean"),
]
OPENS, ALTERS = "__$opens", "__$alters"
_LSN, _SEQVAL, _OPERATION = "`__$start_lsn`", "`__$seqval`", "`__$operation`"
BEFORE_ALL = -1
"""The LSN of rows that stand for the slices that are open before the window."""


@frozen
class Truncated:
    """A transaction that truncated the table, and the index of its last truncate."""

    lsn: int
    seqval: int


def change_actions(rows: str, shape: TargetColumns, truncates: Sequence[Truncated], *, may_lack: bool) -> str:
    """Return the query for the actions of change rows, with columns of the table and which rows are deleted.

    With `may_lack` the open slices of their keys are among the rows, at LSN `BEFORE_ALL`, and values that a row lacks
    are those of the slice before; otherwise what a transaction found is in the rows themselves.
    """
    collapsed = _collapse(rows, shape, may_lack=may_lack)
    events = _events_filled(collapsed, shape, truncates) if may_lack else _events(collapsed, shape, truncates)
    return _act(_slice(events, shape), shape, truncates)


def _keys(shape: TargetColumns) -> str:
    return ", ".join(quote(key.name) for key in shape.keys)


def _others(shape: TargetColumns) -> list[tuple[int, str]]:
    """Return index and name of the columns that are not the key's."""
    return [(index, quote(column.name)) for index, column in enumerate(shape.columns) if not column.is_key]


def _row(shape: TargetColumns, names: Sequence[str] | None = None) -> str:
    values = [name for _, name in _others(shape)] if names is None else names
    return f"struct({', '.join([*values, '1 as `__$one`'])})"


def _collapse(rows: str, shape: TargetColumns, *, may_lack: bool) -> str:
    """Return the query for one row per key and transaction: its last row, and what it found."""
    keys = _keys(shape)
    order = f"struct({_SEQVAL}, {_OPERATION})"
    wanted = f"{_OPERATION} in ({DELETE}, {INSERT}, {UPDATE_BEFORE}, {UPDATE_AFTER})"
    found = f"if({_OPERATION} in ({DELETE}, {UPDATE_BEFORE}) and not `{IS_DELETED}`, {_row(shape)}, null)"
    last = f"struct({_OPERATION} as operation, {_SEQVAL} as seqval, `{IS_DELETED}` as is_deleted, {_row(shape)} as row)"
    aggregates = [
        f"max_by({last}, {order}) filter (where {_OPERATION} != {UPDATE_BEFORE}) as `__$last`",
        f"min_by({found}, {order}) as `__$found`",
    ]
    if may_lack:
        aggregates += [
            f"max_by(struct({name} as value), {order}) filter (where {_OPERATION} != {UPDATE_BEFORE} and not "
            f"{absent(index)}) as `__$value_{index}`"
            for index, name in _others(shape)
        ]
    distributed = f"select * from {rows} where {wanted} distribute by {keys}"
    return f"select {keys}, {_LSN} as `__$lsn`, {', '.join(aggregates)} from ({distributed}) group by {keys}, {_LSN}"


def _row_condition(truncates: Sequence[Truncated]) -> str:
    standing = f"`__$last`.operation in ({INSERT}, {UPDATE_AFTER}) and not `__$last`.is_deleted"
    if not truncates:
        return standing
    at = f"exists({_array(truncates)}, t -> t.lsn = `__$lsn` and t.seqval > `__$last`.seqval)"
    return f"{standing} and not {at}"


def _truncation_condition(truncates: Sequence[Truncated]) -> str:
    """Return whether the row's own transaction truncated the table: every slice ends there."""
    if not truncates:
        return "false"
    return f"exists({_array(truncates)}, t -> t.lsn = `__$lsn`)"


def _next_truncate(truncates: Sequence[Truncated]) -> str:
    if not truncates:
        return "cast(null as bigint)"
    return f"array_min(transform(filter({_array(truncates)}, t -> t.lsn > `__$lsn`), t -> t.lsn))"


def _array(truncates: Sequence[Truncated]) -> str:
    listed = (f"named_struct('lsn', {each.lsn}L, 'seqval', {each.seqval}L)" for each in truncates)
    return f"array({', '.join(listed)})"


def _tracked(shape: TargetColumns, row: str) -> str:
    tracked = [f"{row}.{quote(column.name)}" for column in shape.columns if column.is_tracked and not column.is_key]
    return f"struct({', '.join([*tracked, '1'])})"


def _events(collapsed: str, shape: TargetColumns, truncates: Sequence[Truncated]) -> str:
    """Return the query for what each transaction left of a key, and whether a slice begins or ends with it."""
    differs = f"not ({_tracked(shape, '`__$found`')} <=> {_tracked(shape, '`__$last`.row')})"
    return (
        f"select {_keys(shape)}, `__$lsn`, `__$is_row`, `__$last`.row as `__$row`, "
        f"not `__$is_row` or `__$found` is null or {_truncation_condition(truncates)} or {differs} "
        "as `__$is_boundary`, "
        f"{_next_truncate(truncates)} as `__$next_truncate` "
        f"from (select *, {_row_condition(truncates)} as `__$is_row` from ({collapsed}))"
    )


def _events_filled(collapsed: str, shape: TargetColumns, truncates: Sequence[Truncated]) -> str:
    """As `_events`, with absent values from the transaction before, and what it found from there."""
    keys = _keys(shape)
    over = f"over (partition by {keys} order by `__$lsn`)"
    # A row that begins has every value; so what is filled in never comes from a row that had ended.
    filled = [f"last(`__$value_{index}`, true) {over}.value as {name}" for index, name in _others(shape)]
    rows = (
        f"select {keys}, `__$lsn`, {_row_condition(truncates)} as `__$is_row`, {_row(shape, filled)} as `__$row`, "
        f"{_next_truncate(truncates)} as `__$next_truncate` from ({collapsed})"
    )
    before = (
        f"select *, if(lag(`__$is_row`) {over} and not (coalesce(lag(`__$next_truncate`) {over} < `__$lsn`, false)), "
        f"lag(`__$row`) {over}, null) as `__$found` from ({rows})"
    )
    differs = f"not ({_tracked(shape, '`__$found`')} <=> {_tracked(shape, '`__$row`')})"
    return (
        f"select {keys}, `__$lsn`, `__$is_row`, `__$row`, `__$next_truncate`, `__$lsn` != {BEFORE_ALL} and "
        f"(not `__$is_row` or `__$found` is null or {_truncation_condition(truncates)} or {differs}) "
        "as `__$is_boundary` "
        f"from ({before})"
    )


def _slice(events: str, shape: TargetColumns) -> str:
    """Return the query for runs of events that belong to one slice; run 0 alters the slice that was open."""
    keys = _keys(shape)
    numbered = (
        f"select *, sum(if(`__$is_boundary`, 1, 0)) over (partition by {keys} order by `__$lsn`) as `__$run` "
        f"from ({events})"
    )
    runs = (
        f"select {keys}, `__$run`, min(`__$lsn`) as `__$from`, max(`__$lsn`) as `__$last_lsn`, "
        f"max_by(`__$row`, `__$lsn`) as `__$row`, bool_and(`__$is_row`) as `__$is_row`, "
        f"min(`__$next_truncate`) as `__$next_truncate` from ({numbered}) group by {keys}, `__$run`"
    )
    over = f"over (partition by {keys} order by `__$run`)"
    return f"select *, lead(`__$from`) {over} as `__$next_from`, row_number() {over} = 1 as `__$is_first` from ({runs})"


def _act(runs: str, shape: TargetColumns, truncates: Sequence[Truncated]) -> str:
    keys = _keys(shape)
    first_truncate = f"{truncates[0].lsn}L" if truncates else "cast(null as bigint)"
    opened = (
        f"struct(true as `{OPENS}`, false as `{ALTERS}`, `__$from` as `{FROM_LSN}`, "
        f"least(`__$next_from`, `__$next_truncate`) as `{TO_LSN}`)"
    )
    closed = (
        f"struct(false as `{OPENS}`, `__$run` = 0 and `__$last_lsn` > {BEFORE_ALL} as `{ALTERS}`, "
        f"cast(null as bigint) as `{FROM_LSN}`, "
        f"least(if(`__$run` = 0, `__$next_from`, `__$from`), {first_truncate}) as `{TO_LSN}`)"
    )
    both = (
        f"filter(array(if(`__$run` > 0 and `__$is_row`, {opened}, null), if(`__$is_first`, {closed}, null)), "
        f"a -> a is not null)"
    )
    names = [name for _, name in _others(shape)]
    values = ", ".join([keys, *(f"`__$row`.{name} as {name}" for name in names)])
    exploded = f"select *, explode({both}) as `__$action` from ({runs})"
    done = f"`__$action`.`{OPENS}` or `__$action`.`{ALTERS}` or `__$action`.`{TO_LSN}` is not null"
    return f"select {values}, `__$action`.* from ({exploded}) where {done}"


def copy_actions(rows: str, open_slices: str, shape: TargetColumns, lsn: int) -> str:
    """Return the query for the actions that make the open slices those of a table's rows as of an LSN."""
    same = " and ".join(f"o.{quote(key.name)} <=> r.{quote(key.name)}" for key in shape.keys)
    others = [name for _, name in _others(shape)]
    key_values = [f"coalesce(r.{quote(key.name)}, o.{quote(key.name)}) as {quote(key.name)}" for key in shape.keys]
    tracked = [quote(column.name) for column in shape.columns if column.is_tracked and not column.is_key]
    is_there, was_there = "r.`__$there`", "o.`__$there`"
    keeps = " and ".join(["true", *(f"r.{name} <=> o.{name}" for name in tracked)])
    alike = " and ".join(["true", *(f"r.{name} <=> o.{name}" for name in others)])
    opened = f"named_struct('{OPENS}', true, '{ALTERS}', false, '{FROM_LSN}', {lsn}L, '{TO_LSN}', cast(null as bigint))"
    closed = (
        f"named_struct('{OPENS}', false, '{ALTERS}', false, '{FROM_LSN}', cast(null as bigint), '{TO_LSN}', {lsn}L)"
    )
    altered = (
        f"named_struct('{OPENS}', false, '{ALTERS}', true, '{FROM_LSN}', cast(null as bigint), "
        f"'{TO_LSN}', cast(null as bigint))"
    )
    both = (
        f"case when {is_there} and {was_there} and {alike} then array() "
        f"when {is_there} and {was_there} and {keeps} then array({altered}) "
        f"when {is_there} and {was_there} then array({closed}, {opened}) "
        f"when {is_there} then array({opened}) else array({closed}) end"
    )
    joined = (
        f"(select *, true as `__$there` from {rows} where not `{IS_DELETED}`) r full outer join "
        f"(select *, true as `__$there` from {open_slices}) o on {same}"
    )
    values = ", ".join([*key_values, *(f"r.{name} as {name}" for name in others)])
    names = ", ".join([_keys(shape), *others])
    exploded = f"select {values}, explode({both}) as `__$action` from {joined}"
    return f"select {names}, `__$action`.* from ({exploded})"


def date_actions(actions: str, times: str) -> str:
    """Return the query for actions with the times at which the transactions of their LSNs ended."""
    return (
        f"select a.*, f.time as `{FROM_TIME}`, t.time as `{TO_TIME}` from {actions} a "
        f"left join {times} f on f.lsn = a.`{FROM_LSN}` left join {times} t on t.lsn = a.`{TO_LSN}`"
    )


@frozen
class SlicesMerged:
    """The changes of slices in one statement.

    `ranges` are conditions on the table's key that all actions meet; `truncated` are LSN and time of the window's first
    truncate, as literals, which ends every slice that no action closes.
    """

    ranges: Sequence[str] = ()
    truncated: tuple[str, str] | None = None


def open_condition(shape: TargetColumns, prefix: str = "") -> str:
    """Return the condition that a slice is open; partitions that have none are not read."""
    current = f" and {prefix}{IS_CURRENT}" if IS_CURRENT in shape.partition_by else ""
    return f"{prefix}{TO_LSN} is null{current}"


def slices_statement(table: str, actions: str, shape: TargetColumns, merged: SlicesMerged) -> str:
    """Return the statement that carries out actions."""
    keys = [f"t.{quote(key.name)} = s.{quote(key.name)}" for key in shape.keys]
    altered = [f"t.{name} = s.{name}" for _, name in _others(shape)]
    closed = [f"t.{TO_LSN} = s.{TO_LSN}", f"t.{TO_TIME} = s.{TO_TIME}", f"t.{IS_CURRENT} = s.{TO_LSN} is null"]
    condition = " and ".join([*keys, open_condition(shape, "t."), f"not s.`{OPENS}`", *merged.ranges])
    return "\n".join(
        [
            f"merge into {table} as t using {actions} as s on {condition}",
            f"when matched and s.`{ALTERS}` then update set {', '.join([*altered, *closed])}",
            f"when matched then update set {', '.join(closed)}",
            _slice_insertion(shape),
            *_truncation(merged),
        ]
    )


def _slice_insertion(shape: TargetColumns) -> str:
    names = [quote(column.name) for column in shape.columns] + [FROM_LSN, FROM_TIME, TO_LSN, TO_TIME]
    values = [*(f"s.{name}" for name in names), f"s.{TO_LSN} is null"]
    return (
        f"when not matched and s.`{OPENS}` then insert ({', '.join([*names, IS_CURRENT])}) values ({', '.join(values)})"
    )


def _truncation(merged: SlicesMerged) -> Iterator[str]:
    if merged.truncated is not None:
        lsn, time = merged.truncated
        yield (
            f"when not matched by source and t.{TO_LSN} is null then update set t.{TO_LSN} = {lsn}, "
            f"t.{TO_TIME} = {time}, t.{IS_CURRENT} = false"
        )


def insert_slices_statement(table: str, rows: str, shape: TargetColumns, lsn: int, time: str) -> str:
    """Return the statement that fills an empty table with slices that are open from an LSN on."""
    names = [quote(column.name) for column in shape.columns]
    stamps = [f"{lsn}L", time, "cast(null as bigint)", "cast(null as timestamp)", "true"]
    every = ", ".join([*names, FROM_LSN, FROM_TIME, TO_LSN, TO_TIME, IS_CURRENT])
    return f"insert into {table} ({every}) select {', '.join([*names, *stamps])} from {rows} where not `{IS_DELETED}`"
