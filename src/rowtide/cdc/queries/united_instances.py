"""The changes of a table over both of its instances, for consumers that switch from one to the other.

The LSN of a change alone determines its instance: the older one up to the low endpoint of the newer, which has
everything from there on. A column of the source is one column, under its newest captured name; columns that an instance
lacks are null. Ordinals in masks and in `__$exact` are those of the united columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rowtide.cdc.change_columns import change_columns, column_type
from rowtide.cdc.instances import CapturedColumn, Instance, name_for_readers
from rowtide.cdc.queries.table_functions import mark_condition, mask_of
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.lake.sql_text import literal, quote

INSTANCE_COLUMN = "__$capture_instance"


@frozen
class Share:
    """The part of a window that is read from one instance; None is the window's own end."""

    capture_instance: str
    from_lsn: CommitLsn | None
    to_lsn: CommitLsn | None


def share_out(
    lows: Sequence[tuple[str, CommitLsn]], from_lsn: CommitLsn | None, to_lsn: CommitLsn | None
) -> list[Share]:
    """Divide a window among a table's instances, named oldest first with their low endpoints.

    A window outside all instances goes to the oldest one, which refuses it.
    """
    shares = []
    for index, (name, low) in enumerate(lows):
        later = [other.decrement() for _, other in lows[index + 1 :]]
        begin = from_lsn if index == 0 else max(low, from_lsn or low)
        end = min([*later, *([to_lsn] if to_lsn is not None else [])], default=None)
        if end is None or (begin or low) <= end:
            shares.append(Share(name, begin, end))
    return shares or [Share(lows[0][0], from_lsn, to_lsn)]


def unite(instances: Sequence[Instance]) -> Instance:
    """Return an instance with the columns of the newest of a table's instances, then the older ones' additional
    columns.

    Oldest first; it has the table's name.
    """
    newest = instances[-1]
    columns: dict[int, CapturedColumn] = {}
    for column in (column for instance in reversed(instances) for column in instance.columns):
        columns.setdefault(column.column_id, column)
    lake_names = name_for_readers(column.name for column in columns.values())
    named: dict[str, CapturedColumn] = {}
    for column, lake_name in zip(columns.values(), lake_names, strict=True):
        # A dropped column may have the name of a later one.
        name = lake_name if column.name in named else column.name
        named[name] = replace(column, name=name, lake_name=lake_name)
    are_keys = any(instance.before_images is BeforeImages.KEY for instance in instances)
    return replace(
        newest,
        capture_instance=f"{newest.source_schema}.{newest.source_table}",
        columns=tuple(named.values()),
        before_images=BeforeImages.KEY if are_keys else BeforeImages.FULL,
    )


def united_columns(instance: Instance, united: Instance) -> list[str]:
    """Return the expressions that turn all changes of an instance into those of the united one, and name it."""
    own = {column.column_id: (ordinal, column) for ordinal, column in enumerate(instance.columns, 1)}
    ordinals = [own[column.column_id][0] if column.column_id in own else None for column in united.columns]
    values = {
        "__$update_mask": _mask_of_both("`__$update_mask`", ordinals, len(instance.columns)),
        "__$absent_mask": _mask_of_both("`__$absent_mask`", ordinals, len(instance.columns)),
        "__$exact": _exact_of_both(ordinals),
        **{column.lake_name: _value(column, united, own) for column in united.columns},
    }
    names = [column.name for column in change_columns(united) if column.name != "__$end_lsn"]
    return [
        *(f"{values.get(name, quote(name))} as {quote(name)}" for name in names),
        f"{literal(instance.capture_instance)} as `{INSTANCE_COLUMN}`",
    ]


def _value(column: CapturedColumn, united: Instance, own: dict[int, tuple[int, CapturedColumn]]) -> str:
    if column.column_id not in own:
        return f"cast(null as {column_type(united, column).name})"
    return quote(own[column.column_id][1].lake_name)


def _mask_of_both(mask: str, ordinals: Sequence[int | None], columns: int) -> str:
    bits = [mark_condition(mask, ordinal, columns) if ordinal is not None else "false" for ordinal in ordinals]
    return f"if({mask} is null, null, {mask_of(bits)})"


def _exact_of_both(ordinals: Sequence[int | None]) -> str:
    moved = ", ".join(f"{ordinal}, {index}" for index, ordinal in enumerate(ordinals, 1) if ordinal is not None)
    return f"transform_keys(`__$exact`, (ordinal, value) -> element_at(map({moved}), ordinal))"
