"""Log records to change rows as Spark SQL: what the conversion in Arrow (`cdc.rows.conversion`) is compared with.

Whole, but for where columns are in row images and which columns a change table has. A record gets its `operations`, one
per row version; each becomes a row of numbers only, so that images are not copied; then it gets its values, `image`,
from which the columns of `change_columns` are made, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.cdc.change_columns import (
    DELETE,
    INSERT,
    NO_INDEX,
    TRUNCATE,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    column_indexes,
    column_type,
    find_indexes,
    full_mask,
    key_indexes,
    mask_length,
)
from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind, TableShape
from rowtide.lake.sql_text import quote, select_from

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def as_change_rows(records: DataFrame, instance: Instance, shape: TableShape) -> DataFrame:
    """Return the change table rows of log records of one shape, in `change_columns`' order."""
    # One statement: Spark analyses it once, where a DataFrame for each stage would be analysed by itself.
    return select_from(records, lambda rows: reduce(_select_from, _row_stages(instance, shape), rows))


def _select_from(rows: str, stage: Sequence[str]) -> str:
    source = rows if rows.isidentifier() else f"({rows})"
    return f"select {', '.join(stage)} from {source}"


def _row_stages(instance: Instance, shape: TableShape) -> list[Sequence[str]]:
    """Return the nested selects that make change table rows of the log records of a shape."""
    if instance.is_partitioned or shape.identity is not ImageKind.FULL:
        first = [*_completing_stages(instance, shape), _partial_record(instance, shape)]
        absent = f"if({_IS_BEFORE}, absent_before, absent_after)"
    else:
        first = [_full_record(instance, shape)]
        absent = "cast(null as binary)"
    return [*first, _ROW_VERSION, _IMAGE, _change_row(instance, shape, absent)]


_ROW_VERSION = ("*", "explode(operations) as version_operation")
_IS_BEFORE = f"version_operation in ({DELETE}, {UPDATE_BEFORE})"
_IMAGE = ("*", f"if({_IS_BEFORE}, before, after) as image")


def _full_record(instance: Instance, shape: TableShape) -> list[str]:
    """Unchanged TOAST values are missing in the log's after image; the before image has them."""
    filled = f"transform(after, (value, place) -> if({_is_absent('place')}, get(before, place), value))"
    is_carried = "(absent is null or not {})".format
    is_move = " or ".join(
        f"(not (before[{key}] <=> after[{key}]) and {is_carried(_is_absent(str(key)))})"
        for key in key_indexes(instance, shape)
    )
    is_changed = f"place >= 0 and not (get(before, place) <=> get(after, place)) and {is_carried(_is_absent('place'))}"
    record = _record(instance, shape, is_move or "false", is_changed)
    return [*record, "before", f"if(absent is null, after, {filled}) as after"]


def _partial_record(instance: Instance, shape: TableShape) -> list[str]:
    record = _record(instance, shape, _is_move(instance, shape), _IS_CHANGED)
    return [*record, "before", "after", *_absent_masks(instance, shape)]


def _record(instance: Instance, shape: TableShape, is_move: str, is_changed: str) -> list[str]:
    """Return what the row versions of a record share; `is_changed` is a condition over the `place` of a value."""
    update = f"if({is_move}, array({DELETE}, {INSERT}), array({UPDATE_BEFORE}, {UPDATE_AFTER}))"
    operations = (
        f"case operation when {Operation.INSERT:d} then array({INSERT}) when {Operation.DELETE:d} then array({DELETE}) "
        f"when {Operation.UPDATE:d} then {update} when {Operation.TRUNCATE:d} then array({TRUNCATE}) end"
    )
    mask = (
        f"case when operation = {Operation.TRUNCATE:d} then cast(null as binary) "
        f"when operation = {Operation.UPDATE:d} and not ({is_move}) "
        f"then {_mask_over(column_indexes(instance, shape), is_changed)} "
        f"else X'{full_mask(len(instance.columns)).hex()}' end"
    )
    return ["commit_lsn", "seqval", f"{operations} as operations", f"{mask} as mask"]


def _change_row(instance: Instance, shape: TableShape, absent: str) -> list[str]:
    """Return the expressions of a change table's columns over a row version with its `image`."""
    places = find_indexes(instance, shape)
    typed = [_typed(instance, column, places.get(column.name)) for column in instance.columns]
    return [
        "commit_lsn as `__$start_lsn`",
        "cast(null as bigint) as `__$end_lsn`",
        "seqval as `__$seqval`",
        "version_operation as `__$operation`",
        "mask as `__$update_mask`",
        *(f"{value} as {quote(column.lake_name)}" for value, column in zip(typed, instance.columns, strict=True)),
        f"{absent} as `__$absent_mask`",
        f"{_exact(instance, places)} as `__$exact`",
    ]


def _typed(instance: Instance, column: CapturedColumn, place: int | None) -> str:
    lake_type = column_type(instance, column)
    if place is None:
        return f"cast(null as {lake_type.name})"
    return lake_type.cast.format(text=f"image[{place}]")


def _exact(instance: Instance, places: dict[str, int]) -> str:
    misfits = []
    for ordinal, column in enumerate(instance.columns, 1):
        place = places.get(column.name)
        if place is not None and not column_type(instance, column).is_text:
            typed = _typed(instance, column, place)
            misfits.append((ordinal, f"image[{place}] is not null and {typed} is null", place))
    if not misfits:
        return "cast(null as map<int,string>)"
    any_misfit = " or ".join(f"({condition})" for _, condition, _ in misfits)
    entries = ", ".join(f"{ordinal}, if({condition}, image[{place}], null)" for ordinal, condition, place in misfits)
    return f"if({any_misfit}, map_filter(map({entries}), (ordinal, value) -> value is not null), null)"


_IS_CHANGED = (
    "place >= 0 and coalesce(get(known_after, place), true) "
    "and not (coalesce(get(known_before, place), true) and get(before, place) <=> get(after, place))"
)
"""Whether the value at a `place` may have changed: it was carried, and no carried value shows that it is the old
one.
"""


def _completing_stages(instance: Instance, shape: TableShape) -> list[Sequence[str]]:
    """Return the selects that complete `before` and `after` of records from each other, as far as possible.

    `known_before` and `known_after` say of each place whether its value was carried; null: all were.
    """
    every_place = f"sequence(0, {len(shape.columns) - 1})"
    is_key = f"array_contains(array({', '.join(map(str, [NO_INDEX, *key_indexes(instance, shape)]))}), place)"
    is_carried = f"(absent is null or not {_is_absent('place')})"
    is_row = f"operation in ({Operation.UPDATE:d}, {Operation.DELETE:d})"
    has_before = "get(before, place) is not null"  # a key has no null, and a null in other columns proves nothing
    keeps_key = f"operation = {Operation.UPDATE:d} and image = {ImageKind.NONE:d}"
    known_before = f"({has_before} or ({keeps_key} and {is_key} and {is_carried}))"
    known_after = f"transform({every_place}, place -> {is_carried} or {has_before})"
    filled = f"transform(after, (value, place) -> if({_is_absent('place')}, get(before, place), value))"
    return [
        ("*", f"{_is_full(instance, shape)} as is_full"),
        [
            *("commit_lsn", "seqval", "operation"),
            f"if({is_row} and not is_full, transform({every_place}, place -> {known_before}), null) as known_before",
            f"if(absent is null or is_full, null, {known_after}) as known_after",
            f"if({keeps_key}, transform(after, (value, place) -> if({is_key}, value, null)), before) as before",
            f"if(absent is null, after, {filled}) as after",
        ],
    ]


def _is_full(instance: Instance, shape: TableShape) -> str:
    """Return whether a record has the whole old row.

    The log describes old rows of a partitioned table by its own replica identity, but a partition with another one may
    log only the key. Such a row looks like one whose other values are all null.
    """
    is_full = f"image = {ImageKind.FULL:d}"
    others = sorted(set(range(len(shape.columns))) - set(key_indexes(instance, shape)))
    if not (instance.is_partitioned and others):
        return is_full
    return f"({is_full} and exists(array({', '.join(map(str, others))}), place -> get(before, place) is not null))"


def _is_move(instance: Instance, shape: TableShape) -> str:
    """Return whether an update, completed, changed the key; a key that was not carried did not change."""
    changed = (f"coalesce(before[{key}] != after[{key}], false)" for key in key_indexes(instance, shape))
    return " or ".join(changed) or "false"


def _absent_masks(instance: Instance, shape: TableShape) -> list[str]:
    """Return `absent_before` and `absent_after` of completed records: null where every captured value was carried."""
    places = column_indexes(instance, shape)
    no_bit = f"X'{bytes(mask_length(len(places))).hex()}'"
    return [
        f"if({known} is null, null, nullif({_mask_over(places, f'place >= 0 and not get({known}, place)')}, {no_bit})) "
        f"as {name}"
        for known, name in (("known_before", "absent_before"), ("known_after", "absent_after"))
    ]


def _is_absent(place: str) -> str:
    """Return whether a log record's `absent`, which is not null, has the bit of a place."""
    byte = f"substring(absent, {place} div 8 + 1, 1)"
    return f"(shiftright(cast(conv(hex({byte}), 16, 10) as int), cast({place} % 8 as int)) % 2 = 1)"


def _mask_over(places: Sequence[int], is_set: str) -> str:
    """Return a change table's mask: a bit per ordinal whose place meets a condition over `place`."""
    length = mask_length(len(places))
    # Ordinal 1 is the lowest bit of the last byte.
    from_the_last = [NO_INDEX] * (8 * length - len(places)) + list(places[::-1])
    each = f"transform(array({', '.join(map(str, from_the_last))}), place -> if({is_set}, '1', '0'))"
    packed = f"transform(sequence(0, {2 * length - 1}), digit -> conv(substring(bits, 4 * digit + 1, 4), 2, 16))"
    # An array of one, whose element the function names: the bits are made once, not for each digit.
    return f"get(transform(array(array_join({each}, '')), bits -> unhex(array_join({packed}, ''))), 0)"
