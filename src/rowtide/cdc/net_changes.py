"""Net changes: the one change of each key that a window amounts to (SQL Server: fn_cdc_get_net_changes_<instance>).

What a key's rows amount to follows from its first and its last one: inserted and deleted is nothing; a last delete
is a delete; a first insert is an insert, with the last values; all else is an update, also a delete that an insert
follows. A truncate takes all before it away: the last one comes first, then the net of what follows.
(Specification, part 1.7.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.cdc.definitions import Instance
from rowtide.cdc.expressions import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, change_columns, column_type, quote
from rowtide.core.mask import mask_length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MERGE = 5
"""`__$operation` of a row to insert or update (SQL Server)."""


@dataclass(frozen=True, slots=True)
class NetFilter:
    """What a row filter option asks for: the update mask; insert and update told apart, or one operation for both."""

    has_mask: bool
    is_merge: bool


NET_ROW_FILTERS: Mapping[str, NetFilter] = {
    "all": NetFilter(has_mask=False, is_merge=False),
    "all with mask": NetFilter(has_mask=True, is_merge=False),
    "all with merge": NetFilter(has_mask=False, is_merge=True),
}

_POSITION = "struct(`__$start_lsn`, `__$seqval`)"
_ORDER = ("`__$start_lsn`", "`__$seqval`", "`__$operation`")
_CHUNK = 7
"""So many bytes of a mask are a bigint whatever they hold."""


def reduce_changes(changes: DataFrame, instance: Instance, wanted: NetFilter) -> DataFrame:
    """Return the net of a window: the truncate, then a row per key, in the order of their last changes.

    `changes` are an instance's change rows of the window in `change_columns`; the instance has a key. Returns those
    columns without `__$end_lsn` and `__$seqval`. One shuffle by key, and one sort.
    """
    truncate = changes.where(f"`__$operation` = {TRUNCATE}").selectExpr(f"max({_POSITION}) as truncated_at")
    rows = changes.where(f"`__$operation` in ({DELETE}, {INSERT}, {UPDATE_AFTER})").crossJoin(truncate)
    standing = rows.where(f"truncated_at is null or {_POSITION} > truncated_at")
    last = standing.selectExpr("*", *_over_key(instance, wanted)).where("is_last")
    net = last.where(f"not (`__$operation` = {DELETE} and first_operation = {INSERT})")
    found = net.selectExpr(*_net_row(instance, wanted)).unionAll(
        truncate.where("truncated_at is not null").selectExpr(*_truncate_row(instance))
    )
    return found.orderBy(*_ORDER).drop("__$seqval")


def _over_key(instance: Instance, wanted: NetFilter) -> Iterator[str]:
    """Return what a row needs to know of its key's other rows."""
    window = f"partition by {', '.join(_key(instance))} order by {', '.join(_ORDER)}"
    yield f"lead(false, 1, true) over ({window}) as is_last"
    yield f"first_value(`__$operation`) over ({window}) as first_operation"
    if wanted.has_mask:
        yield from (f"bit_or({number}) over ({window}) as mask_{start}" for start, _, number in _chunks(instance))


def _key(instance: Instance) -> Iterator[str]:
    """Return what tells keys apart: the columns, and the exact texts of values that their types cannot hold."""
    for ordinal, column in enumerate(instance.columns, 1):
        if column.index_ordinal is not None:
            yield quote(column.lake_name)
            if not column_type(instance, column).is_text:
                yield f"try_element_at(`__$exact`, {ordinal})"


def _chunks(instance: Instance) -> Iterator[tuple[int, int, str]]:
    """Return start, length and number of each part of the update mask."""
    length = mask_length(len(instance.columns))
    for start in range(0, length, _CHUNK):
        part = f"substring(`__$update_mask`, {start + 1}, {_CHUNK})"
        yield start, min(_CHUNK, length - start), f"cast(conv(hex({part}), 16, 10) as bigint)"


def _net_row(instance: Instance, wanted: NetFilter) -> Iterator[str]:
    values = {
        "__$operation": _operation(wanted),
        "__$update_mask": _mask(instance) if wanted.has_mask else "cast(null as binary)",
    }
    for column in change_columns(instance):
        if column.name != "__$end_lsn":
            yield f"{values.get(column.name, quote(column.name))} as {quote(column.name)}"


def _operation(wanted: NetFilter) -> str:
    standing = f"{MERGE}" if wanted.is_merge else f"if(first_operation = {INSERT}, {INSERT}, {UPDATE_AFTER})"
    return f"if(`__$operation` = {DELETE}, {DELETE}, {standing})"


def _mask(instance: Instance) -> str:
    """Return the columns that any row of the key changed; null for what is not an update."""
    parts = (f"lpad(hex(mask_{start}), {2 * length}, '0')" for start, length, _ in _chunks(instance))
    return f"if(`__$operation` = {DELETE} or first_operation = {INSERT}, null, unhex(concat({', '.join(parts)})))"


def _truncate_row(instance: Instance) -> Iterator[str]:
    values = {
        "__$start_lsn": "truncated_at.`__$start_lsn`",
        "__$seqval": "truncated_at.`__$seqval`",
        "__$operation": f"{TRUNCATE}",
    }
    for column in change_columns(instance):
        if column.name != "__$end_lsn":
            yield f"{values.get(column.name, f'cast(null as {column.type_name})')} as {quote(column.name)}"
