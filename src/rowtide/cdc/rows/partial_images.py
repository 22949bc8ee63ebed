"""Log records that carry rows in part, as Spark SQL text. Pure.

An old row may be its key alone, or be left out if the key did not change (replica identity); the new row lacks
unchanged TOAST values. Each record says what it carries. A value missing in one image may be in the other; a value
missing in both is null, and marked as absent.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.cdc.definitions import Instance
from rowtide.cdc.rows.bitmasks import NO_PLACE, is_absent, mask_over, null_if_empty
from rowtide.cdc.rows.column_places import find_places
from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind, TableShape

IS_CHANGED = (
    "place >= 0 and coalesce(get(known_after, place), true) "
    "and not (coalesce(get(known_before, place), true) and get(before, place) <=> get(after, place))"
)
"""Whether the value at a `place` may have changed: it was carried, and no carried value shows that it is the old
one.
"""


def may_occur(instance: Instance, shape: TableShape) -> bool:
    """Return whether records of a shape may carry rows in part."""
    return instance.is_partitioned or shape.identity is not ImageKind.FULL


def column_places(instance: Instance, shape: TableShape) -> list[int]:
    """Return the places of the captured columns in row images, by ordinal; `NO_PLACE` for columns that the log
    lacks.
    """
    places = find_places(instance, shape)
    return [places.get(column.name, NO_PLACE) for column in instance.columns]


def key_places(instance: Instance, shape: TableShape) -> list[int]:
    """Return the places of the key's columns in row images."""
    places = find_places(instance, shape)
    return [places[column.name] for column in instance.index_columns if column.name in places]


def completing_stages(instance: Instance, shape: TableShape) -> list[Sequence[str]]:
    """Return the selects that complete `before` and `after` of records from each other, as far as possible.

    `known_before` and `known_after` say of each place whether its value was carried; null: all were.
    """
    every_place = f"sequence(0, {len(shape.columns) - 1})"
    is_key = f"array_contains(array({', '.join(map(str, [NO_PLACE, *key_places(instance, shape)]))}), place)"
    is_carried = f"(absent is null or not {is_absent('place')})"
    is_row = f"operation in ({Operation.UPDATE:d}, {Operation.DELETE:d})"
    has_before = "get(before, place) is not null"  # a key has no null, and a null in other columns proves nothing
    keeps_key = f"operation = {Operation.UPDATE:d} and image = {ImageKind.NONE:d}"
    known_before = f"({has_before} or ({keeps_key} and {is_key} and {is_carried}))"
    known_after = f"transform({every_place}, place -> {is_carried} or {has_before})"
    filled = f"transform(after, (value, place) -> if({is_absent('place')}, get(before, place), value))"
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
    others = sorted(set(range(len(shape.columns))) - set(key_places(instance, shape)))
    if not (instance.is_partitioned and others):
        return is_full
    return f"({is_full} and exists(array({', '.join(map(str, others))}), place -> get(before, place) is not null))"


def is_move(instance: Instance, shape: TableShape) -> str:
    """Return whether an update, completed, changed the key; a key that was not carried did not change."""
    changed = (f"coalesce(before[{key}] != after[{key}], false)" for key in key_places(instance, shape))
    return " or ".join(changed) or "false"


def absent_masks(instance: Instance, shape: TableShape) -> list[str]:
    """Return `absent_before` and `absent_after` of completed records: null where every captured value was carried."""
    places = column_places(instance, shape)
    return [
        f"if({known} is null, null, "
        f"{null_if_empty(mask_over(places, f'place >= 0 and not get({known}, place)'), len(places))}) as {name}"
        for known, name in (("known_before", "absent_before"), ("known_after", "absent_after"))
    ]
