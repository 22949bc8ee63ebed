"""Changes the column types of a change table, and of the base table, to those of the source.

If Delta can widen the type and the setting allows it, this happens in place; otherwise the table is rewritten in one
commit. Readers see the old version or the new one, and a repeat finds the new types. Values that the old type could not
hold are in `__$exact`, and are converted from there. `before_commit` is called in front of a commit, and may raise (see
`delta.writing.alteration`).

Values are converted between lake types here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.cdc.change_columns import change_columns, column_type
from rowtide.cdc.errors.capturing import ValuesDoNotFit
from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.cdc.published import BASE_SUFFIX, base_table_path, change_table_path
from rowtide.cdc.rows.conversion import TYPED_VALUES, ExactValues, change_schema, texts_by_ordinal
from rowtide.core.failpoints import failpoint
from rowtide.core.tables import Widened
from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType, can_widen, parse_decimal
from rowtide.databases.lake_values.casting import (
    Cast,
    Column,
    Texts,
    arrow_type,
    decimals,
    kernels,
    where,
    whole_numbers,
)
from rowtide.databases.lake_values.texts import as_texts, plain_numbers
from rowtide.databases.postgres.typed_values import typed_values
from rowtide.delta.errors import LakeWriteFailed
from rowtide.delta.formats import IDENTITY
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.alteration import BeforeCommit
from rowtide.delta.writing.widening_removal import is_marked, mend
from rowtide.lake import tables
from rowtide.lake.sql_text import column_types
from rowtide.lake.stores import locate

_NUMBERS = ("boolean", "smallint", "int", "bigint", "float", "double")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_TRUE, _FALSE = pa.array(["t", "true", "y", "yes", "1"]), pa.array(["f", "false", "n", "no", "0"])
_BLANKS = "".join(map(chr, range(0x21)))
_DAY_US = 86_400_000_000
_MOST_DAYS = np.iinfo(np.int64).max // _DAY_US


def convert(values: Column, old: str, new: LakeType) -> Column:
    """Convert values to another type; null where a value does not fit."""
    if _is_kin(old, new.name):
        return _convert_kin(values, old, new.name)
    texts = as_texts(values)
    return texts if new.is_text else _FROM_TEXT.get(new.name, lambda texts: typed_values(texts, new))(texts)


def find_misfits(values: Column, old: str, new: LakeType) -> Column:
    """Return which values would change in another type; for texts, only which ones cannot be parsed."""
    converted = convert(values, old, new)
    if not _is_kin(old, new.name):
        return kernels.and_(values.is_valid(), converted.is_null())
    back = _convert_kin(converted, new.name, old)
    is_same = kernels.equal(values, back).fill_null(fill_value=False)
    if pa.types.is_floating(values.type):
        are_no_numbers = kernels.and_(kernels.is_nan(values), kernels.is_nan(back))
        is_same = kernels.or_(is_same, are_no_numbers.fill_null(fill_value=False))
    return kernels.and_(values.is_valid(), kernels.invert(is_same))


def _convert_kin(values: Column, old: str, new: str) -> Column:
    return _convert_times(values, new) if old in _TIMES else _convert_numbers(values, new)


def _convert_times(values: Column, new: str) -> Column:
    """Timestamps without time zone count as UTC."""
    to = arrow_type(new)
    if pa.types.is_timestamp(to) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(to)
    if pa.types.is_timestamp(to):
        days = values.cast(pa.int32()).cast(pa.int64())
        days = where(kernels.less_equal(kernels.abs(days), _MOST_DAYS), days)
        return kernels.multiply(days, _DAY_US).cast(to)
    if pa.types.is_timestamp(values.type):
        micros = values.cast(pa.int64())
        days = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), _DAY_US).astype(np.int32)
        return pa.array(days, mask=micros.is_null().to_numpy(zero_copy_only=False)).cast(to)
    return values


def _convert_numbers(values: Column, new: str) -> Column:
    """Fractions are cut off for whole numbers, and rounded half up for decimals."""
    kind: Any = values.type
    to: Any = arrow_type(new)
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif kind == pa.float32() and not pa.types.is_float32(to):
        values = values.cast(pa.float64())
    if pa.types.is_floating(to) and not pa.types.is_decimal(kind):
        return values.cast(to, safe=False)
    if pa.types.is_integer(to) and pa.types.is_floating(values.type):
        return _whole(values, to)
    texts = values.cast(pa.string())
    if pa.types.is_floating(to):
        return texts.cast(to)
    if pa.types.is_boolean(to):
        return kernels.match_substring_regex(texts, r"^[^eE]*[1-9nN]")
    plain = plain_numbers(values)
    if isinstance(to, pa.Decimal128Type):
        return decimals(plain, to)
    return whole_numbers(kernels.replace_substring_regex(plain, r"\.\d*$", ""), to)


def _whole(values: Column, to: Any) -> Column:
    """Not from the shortest text, which is not the exact value of a large number."""
    numbers = np.trunc(values.cast(pa.float64()).fill_null(math.nan).to_numpy(zero_copy_only=False))
    bound = 2.0 ** (to.bit_width - 1)
    fits = (numbers >= -bound) & (numbers < bound)
    return pa.array(np.where(fits, numbers, 0).astype(np.int64), mask=~fits).cast(to)


def _flags(texts: Texts) -> Column:
    words = kernels.utf8_lower(kernels.utf8_trim(texts, _BLANKS))
    is_true, is_false = kernels.is_in(words, _TRUE), kernels.is_in(words, _FALSE)
    return where(kernels.or_(is_true, is_false), is_true)


def _bytes(texts: Texts) -> Column:
    return typed_values(where(kernels.starts_with(texts, "\\x"), texts), LakeType("binary", ""))


_FROM_TEXT: Mapping[str, Cast] = {"boolean": _flags, "binary": _bytes}


def _is_kin(old: str, new: str) -> bool:
    return {old, new} <= set(_TIMES) or (_is_number(old) and _is_number(new))


def _is_number(name: str) -> bool:
    return name in _NUMBERS or parse_decimal(name) is not None


REWRITTEN_BYTES = 256 * 1024 * 1024
"""The size of the data files up to which `Widened.AUTO` rewrites a table. The cycle waits for that, a few seconds."""
_EXACT = "__$exact"


@frozen
class WidenedTable:
    """A table whose columns are about to get wider types; `columns` names them with these.

    `is_rewritten`: its data files, of `size` bytes, otherwise it is marked with type widening.
    """

    capture_instance: str
    path: str
    columns: tuple[tuple[str, str], ...]
    size: int
    is_rewritten: bool


@frozen
class _Retyped:
    """A column of a change table whose type has changed."""

    ordinal: int
    column: CapturedColumn
    old: str
    new: LakeType

    @property
    def can_widen(self) -> bool:
        return can_widen(self.old, self.new.name)


def require_fit(lake: str, instance: Instance) -> None:
    """Raise `ValuesDoNotFit` if a stored value does not fit its column's type in the source."""
    for snapshot in _open_tables(lake, instance):
        _require_fit(snapshot, instance)


def _require_fit(snapshot: Snapshot, instance: Instance) -> None:
    narrowed = [retyped for retyped in _find_retyped(snapshot, instance) if not retyped.can_widen]
    misfits: Counter[int] = Counter()
    for batch in snapshot.stream([retyped.column.lake_name for retyped in narrowed]) if narrowed else ():
        for retyped, values in zip(narrowed, batch.columns, strict=True):
            misfits[retyped.ordinal] += find_misfits(values, retyped.old, retyped.new).true_count
    for retyped in narrowed:
        if count := misfits[retyped.ordinal]:
            raise ValuesDoNotFit(count, retyped.column.name, instance.capture_instance, retyped.column.type_text)


def carry_types(
    lake: str,
    instance: Instance,
    *,
    widened: Widened,
    before_commit: BeforeCommit = lambda: None,
    on_widened: Callable[[WidenedTable], None] = lambda _table: None,
) -> None:
    """Change the column types of an instance's change table and base; `widened` says how columns are widened.

    `on_widened` is called before a table gets wider types only. Raises `LakeWriteFailed`.
    """
    for snapshot in _open_tables(lake, instance):
        _carry_types(snapshot, instance, widened, before_commit, on_widened)


def _carry_types(
    snapshot: Snapshot,
    instance: Instance,
    widened: Widened,
    before_commit: BeforeCommit,
    on_widened: Callable[[WidenedTable], None],
) -> None:
    path, retyped = snapshot.location.path, _find_retyped(snapshot, instance)
    size = sum(file.size for file in snapshot.files.values())
    stays_marked = widened is Widened.MARK or (widened is Widened.AUTO and size > REWRITTEN_BYTES)
    if not retyped:
        if not stays_marked and is_marked(snapshot):
            # A base takes two commits, between which a process may have been killed.
            mend(snapshot.location, before_commit=before_commit)
        return
    failpoint("types_carried.before")
    only_widens = all(column.can_widen for column in retyped) and not _has_exact(snapshot, retyped)
    if only_widens:
        named = tuple((column.column.name, column.new.name) for column in retyped)
        on_widened(WidenedTable(instance.capture_instance, path, named, size, is_rewritten=not stays_marked))
    must_rewrite = True
    # Copies keep adding files to a base, so it is never rewritten as a whole.
    if only_widens and (stays_marked or _is_base(snapshot)):
        types = {column.column.lake_name: column.new.name for column in retyped}
        tables.widen_columns(path, types, before_commit=before_commit)
        # A chunk may have been committed in between; from now on a chunk that was read for the old types is refused.
        retyped = [replace(column, old=column.new.name) for column in retyped]
        found = open_snapshot(snapshot.location)
        must_rewrite = found is not None and _has_exact(found, retyped)
    if must_rewrite:
        convert = partial(_convert_batch, instance=instance, retyped=retyped)
        columns = _columns(instance)
        tables.rewrite(path, columns, convert, changes_rows=not only_widens, before_commit=before_commit)
    elif not stays_marked:
        mend(snapshot.location, before_commit=before_commit)
    failpoint("types_carried.after")


def follow_change_table(lake: str, instance: Instance, before_commit: BeforeCommit) -> None:
    """Give an empty base table the types of the change table. Capture may have changed those since `instance` was read,
    before the base table existed.

    Capture changes the change table first and then looks for the base table, so that one of the two processes sees the
    other's table. Raises `LakeReadFailed`, `LakeWriteFailed`.
    """
    changes = locate(change_table_path(lake, instance.capture_instance))

    def read_types() -> Mapping[str, str]:
        snapshot = open_snapshot(changes)
        if snapshot is None or snapshot.properties.get(IDENTITY) != instance.member_id:
            return {}
        return column_types(snapshot.metadata.schema_text)

    base = base_table_path(lake, instance.capture_instance)
    tables.retype_empty(base, read_types, before_commit=before_commit)


def require_types(lake: str, instance: Instance, before_commit: BeforeCommit) -> None:
    """Empty the tables of an instance whose columns have other types, and give them these."""
    for snapshot in _open_tables(lake, instance):
        if _find_retyped(snapshot, instance):
            path = snapshot.location.path
            tables.renew_table(path, _columns(instance), instance.member_id, before_commit=before_commit)


def _open_tables(lake: str, instance: Instance) -> Iterator[Snapshot]:
    """Return the change table of an instance, and its base table if there is one."""
    location = locate(change_table_path(lake, instance.capture_instance))
    changes = open_snapshot(location)
    if changes is None:
        raise LakeWriteFailed(location.path, "there is no table")
    yield changes
    base = open_snapshot(locate(base_table_path(lake, instance.capture_instance)))
    if base is not None and base.properties.get(IDENTITY) == instance.member_id:
        yield base


def _has_exact(snapshot: Snapshot, retyped: Sequence[_Retyped]) -> bool:
    """Return whether a base table has values that do not fit its types: a copy may be ahead of capture."""
    if not _is_base(snapshot):
        return False
    ordinals = {column.ordinal for column in retyped}
    return any(ordinals & texts_by_ordinal(batch[_EXACT]).keys() for batch in snapshot.stream([_EXACT]))


def _is_base(snapshot: Snapshot) -> bool:
    return snapshot.location.path.endswith(BASE_SUFFIX)


def _columns(instance: Instance) -> list[tuple[str, str]]:
    return [(column.name, column.type_name) for column in change_columns(instance)]


def _find_retyped(snapshot: Snapshot, instance: Instance) -> list[_Retyped]:
    stored = column_types(snapshot.metadata.schema_text)
    found = [
        _Retyped(ordinal, column, stored[column.lake_name], column_type(instance, column))
        for ordinal, column in enumerate(instance.columns, 1)
    ]
    return [retyped for retyped in found if retyped.old != retyped.new.name]


def _convert_batch(batch: pa.RecordBatch, instance: Instance, retyped: Sequence[_Retyped]) -> pa.RecordBatch:
    """Return change rows with retyped columns converted to their present types."""
    typed_values = TYPED_VALUES[instance.database_kind]
    exact = ExactValues(batch.num_rows)
    texts = texts_by_ordinal(batch[_EXACT])
    columns: dict[str, Column] = {column.name: batch[column.name] for column in change_columns(instance)}
    by_ordinal: Mapping[int, _Retyped] = {column.ordinal: column for column in retyped}
    for ordinal in sorted({*texts, *by_ordinal}):
        found: Texts = texts.get(ordinal, pa.nulls(batch.num_rows, pa.string()))
        typed: Column = pa.nulls(batch.num_rows)
        if (changed := by_ordinal.get(ordinal)) is not None:
            name = changed.column.lake_name
            typed = typed_values(found, changed.new)
            columns[name] = kernels.coalesce(typed, convert(batch[name], changed.old, changed.new))
        exact.add(ordinal, found, typed)
    columns[_EXACT] = exact.as_maps()
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=change_schema(instance))
