"""Net changes of a window: one row for each key, with the net effect of its changes.

The net effect follows from a key's first and last row: inserted and then deleted is nothing; a last delete is a delete;
a first insert is an insert, with the last values; anything else is an update, also a delete followed by an insert. A
truncate removes everything before it: the last truncate comes first, then the net effect of what follows.
(Specification, part 1.7.) A value that the last row lacks (unchanged TOAST) is taken from the row before, except by an
insert. If an insert lacks a value, a row moved to the key, and the value is nowhere in the lake: the net effect is then
an insert, which replaces an existing row. As Spark SQL text, shared by DataFrames and the functions of a session. Pure.

Rows are distributed by key and grouped: the sort is by the key alone, of which Spark sorts prefixes, where window
functions sorted by four columns. Keeping the grouped key lets a `merge` by it neither shuffle nor sort again. Ten
million rows of a million keys took 12.5 CPU seconds, with window functions 15 to 24, scan and shuffle alone 7. Partial
aggregation before the shuffle took twice as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, change_columns, column_type, mask_length
from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.cdc.queries.table_functions import mark_condition, mask_of, null_if_empty
from rowtide.lake.sql_text import quote

MERGE = 5
"""`__$operation` of a row to insert or update (SQL Server)."""

ALL, WITH_MASK, WITH_MERGE = "all", "all with mask", "all with merge"
NET_ROW_FILTERS = (ALL, WITH_MASK, WITH_MERGE)
"""Row filter options: insert and update as separate operations; with the update mask; one operation for both."""

_POSITION = "struct(`__$start_lsn`, `__$seqval`)"
_ORDER = "struct(`__$start_lsn`, `__$seqval`, `__$operation`)"
_CHUNK = 7
"""Number of a mask's bytes that fit a bigint."""


def net_columns(instance: Instance) -> list[tuple[str, str]]:
    """Return the columns of net changes, names and types."""
    hidden = ("__$end_lsn", "__$seqval")
    return [(column.name, column.type_name) for column in change_columns(instance) if column.name not in hidden]


class Truncates(Enum):
    """How a query finds the last truncate among its rows."""

    NONE = "none"
    """No truncate is among the rows."""
    SOUGHT = "sought"
    """By a subquery in a condition."""
    JOINED = "joined"
    """By a join: Spark accepts no subquery over a function's arguments in a condition."""


def net_select(rows: str, instance: Instance, option: str, truncates: Truncates) -> str:
    """Return the query for the net changes of a window: a row per key, and the truncate. One shuffle and one sort, by
    key.

    `rows` is a table, or a function's call, with an instance's change rows of the window; the instance has a key.
    `option` is an expression: one of `NET_ROW_FILTERS`. Columns: `__$seqval`, to sort by, and `net_columns`.
    """
    last = _last_rows(rows, instance, truncates)
    net = (
        f"select `__$net_last`.`__$seqval` as `__$seqval`, {', '.join(_net_row(instance, option))} from ({last}) "
        f"where not ({_last('__$operation')} = {DELETE} and `__$net_first_operation` = {INSERT})"
    )
    if truncates is Truncates.NONE:
        return net
    shown = ", ".join(_truncate_row(instance))
    removal = f"select {shown} from {_truncate(rows)} where `__$net_truncated_at` is not null"
    return f"{net} union all {removal}"


IS_DELETED, LACKS_VALUES = "__$is_deleted", "__$lacks_values"


def last_select(rows: str, instance: Instance, truncates: Truncates) -> str:
    """Return the query for each key's last row after the last truncate, completed as `net_select` does.

    Columns: the captured ones, `__$absent_mask`, `__$exact`, `IS_DELETED`, and `LACKS_VALUES`: none of the rows has the
    values of some columns, and none is an insert.
    """
    values = _completed_row(instance)
    names = [*(column.lake_name for column in instance.columns), "__$absent_mask", "__$exact"]
    shown = [f"{values.get(name, _last(name))} as {quote(name)}" for name in names]
    lacks = " or ".join(f"{_filled(ordinal)} is null" for ordinal, _ in _fillable(instance)) or "false"
    marks = f"{_last('__$operation')} = {DELETE} as `{IS_DELETED}`, {lacks} as `{LACKS_VALUES}`"
    return f"select {', '.join(shown)}, {marks} from ({_last_rows(rows, instance, truncates)})"


def _last_rows(rows: str, instance: Instance, truncates: Truncates) -> str:
    truncate = _truncate(rows)
    source, is_standing = {
        Truncates.NONE: (rows, "true"),
        Truncates.SOUGHT: (rows, f"({truncate} is null or {_POSITION} > {truncate})"),
        Truncates.JOINED: (
            f"{rows} cross join {truncate}",
            f"(`__$net_truncated_at` is null or {_POSITION} > `__$net_truncated_at`)",
        ),
    }[truncates]
    key = ", ".join(key_expressions(instance))
    # All rows of a key are in one partition before grouping, so partial aggregation would only add cost.
    standing = (
        f"select * from {source} where `__$operation` in ({DELETE}, {INSERT}, {UPDATE_AFTER}) and {is_standing} "
        f"distribute by {key}"
    )
    return f"select {', '.join(_over_key(instance))} from ({standing}) group by {key}"


def _truncate(rows: str) -> str:
    return f"(select max({_POSITION}) as `__$net_truncated_at` from {rows} where `__$operation` = {TRUNCATE})"


def _over_key(instance: Instance) -> Iterator[str]:
    """Return the aggregates over a key's rows: its last row, its first operation, and what follows from all of them."""
    grouped = list(_grouped(instance))
    yield from map(quote, grouped)
    separate = {"__$update_mask", *grouped, *(column.lake_name for _, column in _fillable(instance))}
    taken = ["__$seqval", *(name for name, _ in net_columns(instance) if name not in separate)]
    yield f"max_by(struct({', '.join(map(quote, taken))}), {_ORDER}) as `__$net_last`"
    yield f"min_by(`__$operation`, {_ORDER}) as `__$net_first_operation`"
    yield from (f"bit_or({number}) as `__$net_mask_{start}`" for start, _, number in _chunks(instance))
    for ordinal, column in _fillable(instance):
        carried = _carried(instance, ordinal, column)
        yield f"max_by({carried}, {_ORDER}) filter (where {carried} is not null) as {_filled(ordinal)}"


def _last(name: str) -> str:
    """Return a column of a key's last row."""
    return f"`__$net_last`.{quote(name)}"


def _fillable(instance: Instance) -> Iterator[tuple[int, CapturedColumn]]:
    """Return the columns, by ordinal, whose values the log may lack."""
    if instance.may_lack_values:
        for ordinal, column in enumerate(instance.columns, 1):
            if column.index_ordinal is None:
                yield ordinal, column


def _carried(instance: Instance, ordinal: int, column: CapturedColumn) -> str:
    """Return a row's value, with `is_known` false if an insert lacks it; null if another row lacks it, so that an
    earlier row's value is taken.
    """
    is_absent = mark_condition("`__$absent_mask`", ordinal, len(instance.columns))
    values = f"not {is_absent} as is_known, {quote(column.lake_name)} as value, {_exact_text(ordinal)} as exact"
    return f"if(`__$operation` = {INSERT} or not {is_absent}, struct({values}), null)"


def _exact_text(ordinal: int, texts: str = "`__$exact`") -> str:
    return f"try_element_at({texts}, {ordinal})"


def _filled(ordinal: int) -> str:
    return f"`__$net_value_{ordinal}`"


def key_expressions(instance: Instance) -> Iterator[str]:
    """Return what identifies a key: the columns, and the exact texts of values that their types cannot hold."""
    for ordinal, column in enumerate(instance.columns, 1):
        if column.index_ordinal is not None:
            yield quote(column.lake_name)
            if not column_type(instance, column).holds_all:
                yield _exact_text(ordinal)


def _grouped(instance: Instance) -> Iterator[str]:
    """Return the key's columns that are identical in all its rows: Spark then knows that the result is partitioned by
    them.

    Others may differ in ways that grouping ignores, as 0.0 and -0.0.
    """
    for column in instance.columns:
        if column.index_ordinal is not None and column_type(instance, column).holds_all:
            yield column.lake_name


def _chunks(instance: Instance) -> Iterator[tuple[int, int, str]]:
    """Return start, length and number of each part of the update mask."""
    length = mask_length(len(instance.columns))
    for start in range(0, length, _CHUNK):
        part = f"substring(`__$update_mask`, {start + 1}, {_CHUNK})"
        yield start, min(_CHUNK, length - start), f"cast(conv(hex({part}), 16, 10) as bigint)"


def _net_row(instance: Instance, option: str) -> Iterator[str]:
    values = {
        "__$operation": _operation(instance, option),
        "__$update_mask": _mask(instance, option),
        **_completed_row(instance),
    }
    for name, _ in net_columns(instance):
        yield f"{values.get(name, _last(name))} as {quote(name)}"


def _completed_row(instance: Instance) -> dict[str, str]:
    """Return the columns of a key's last row that are not as in the row."""
    values = {}
    if instance.may_lack_values:
        values = {"__$absent_mask": _absent_mask(instance), "__$exact": _exact(instance)}
        values |= {column.lake_name: f"{_filled(ordinal)}.value" for ordinal, column in _fillable(instance)}
    return values | {name: quote(name) for name in _grouped(instance)}


def _operation(instance: Instance, option: str) -> str:
    insert_update = f"if(`__$net_first_operation` = {INSERT}, {INSERT}, {UPDATE_AFTER})"
    other = f"if({option} = '{WITH_MERGE}', {MERGE}, {insert_update})"
    # A missing value counts as unknown only in an insert: the row moved to the key, whose earlier row is another one.
    moved = [f"not {_filled(ordinal)}.is_known" for ordinal, _ in _fillable(instance)]
    if moved:
        other = f"if(coalesce({', '.join(f'nullif({each}, false)' for each in moved)}, false), {INSERT}, {other})"
    return f"if({_last('__$operation')} = {DELETE}, {DELETE}, {other})"


def _mask(instance: Instance, option: str) -> str:
    """Return the columns that any row of the key changed; null for what is not an update."""
    parts = (f"lpad(hex(`__$net_mask_{start}`), {2 * length}, '0')" for start, length, _ in _chunks(instance))
    is_update = f"{_last('__$operation')} != {DELETE} and `__$net_first_operation` != {INSERT}"
    return f"if({option} = '{WITH_MASK}' and {is_update}, unhex(concat({', '.join(parts)})), null)"


def _absent_mask(instance: Instance) -> str:
    """Return the columns whose value no row of the window has."""
    is_absent = ["false"] * len(instance.columns)
    for ordinal, _ in _fillable(instance):
        is_absent[ordinal - 1] = f"not coalesce({_filled(ordinal)}.is_known, false)"
    return null_if_empty(mask_of(is_absent), len(is_absent))


def _exact(instance: Instance) -> str:
    """Return the exact texts, each from the row that provides the value."""
    filled = {ordinal for ordinal, _ in _fillable(instance)}
    texts = {
        ordinal: f"{_filled(ordinal)}.exact" if ordinal in filled else _exact_text(ordinal, _last("__$exact"))
        for ordinal, column in enumerate(instance.columns, 1)
        if not column_type(instance, column).is_text
    }
    if not texts:
        return "cast(null as map<int,string>)"
    every = f"map({', '.join(f'{ordinal}, {text}' for ordinal, text in texts.items())})"
    return f"if(coalesce({', '.join(texts.values())}) is null, null, map_filter({every}, (k, v) -> v is not null))"


def _truncate_row(instance: Instance) -> Iterator[str]:
    values = {"__$start_lsn": "`__$net_truncated_at`.`__$start_lsn`", "__$operation": f"{TRUNCATE}"}
    yield "`__$net_truncated_at`.`__$seqval` as `__$seqval`"
    for name, type_name in net_columns(instance):
        yield f"{values.get(name, f'cast(null as {type_name})')} as {quote(name)}"
