"""Changes the column types of a change table, and of the base table, to those of the source.

Where Delta can widen the type, in place if the setting says so; otherwise the table is rewritten in one commit: readers
see the old version or the new one, and a repeat finds the new types. Values that the old type could not hold are in
`__$exact`, and are converted from there. `before_commit` is called in front of a commit, and may raise (see
`delta.writing.alteration`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from rowtide.cdc.ddl import type_changes
from rowtide.cdc.errors.capturing import ValuesDoNotFit
from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.cdc.lake_tables import BASE_SUFFIX, base_table_path, change_table_path
from rowtide.cdc.rows.change_columns import change_columns, column_type
from rowtide.cdc.rows.conversion import TYPED_VALUES, change_schema
from rowtide.cdc.rows.exact_values import ExactValues, texts_by_ordinal
from rowtide.core.failpoints import failpoint
from rowtide.core.tables import Widened
from rowtide.databases.lake_types import LakeType, can_widen
from rowtide.databases.lake_values.casting import Column, Texts, kernels
from rowtide.delta.errors import LakeWriteFailed
from rowtide.delta.formats import IDENTITY
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.alteration import BeforeCommit
from rowtide.delta.writing.mending import is_marked, mend
from rowtide.lake import tables
from rowtide.lake.column_types import column_types
from rowtide.lake.stores import locate

REWRITTEN_BYTES = 256 * 1024 * 1024
"""The size of the data files up to which `Widened.AUTO` rewrites a table, while its cycle waits: some seconds' work."""
_EXACT = "__$exact"


@dataclass(frozen=True, slots=True)
class WidenedTable:
    """A table whose columns are about to get wider types; `columns` names them with these.

    `is_rewritten`: its data files, of so many bytes, otherwise it is marked with type widening.
    """

    capture_instance: str
    path: str
    columns: tuple[tuple[str, str], ...]
    size: int
    is_rewritten: bool


@dataclass(frozen=True, slots=True)
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
            misfits[retyped.ordinal] += type_changes.is_misfit(values, retyped.old, retyped.new).true_count
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
    """Change the column types of an instance's change table and base; `widened` says how wider ones come about.

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
            # A process may have been killed between the two commits of a base.
            mend(snapshot.location, before_commit=before_commit)
        return
    failpoint("types_carried.before")
    only_widens = all(column.can_widen for column in retyped) and not _has_exact(snapshot, retyped)
    if only_widens:
        named = tuple((column.column.name, column.new.name) for column in retyped)
        on_widened(WidenedTable(instance.capture_instance, path, named, size, is_rewritten=not stays_marked))
    must_rewrite = True
    # To a base, copies add files all the time: all of them at once are never rewritten.
    if only_widens and (stays_marked or _is_base(snapshot)):
        types = {column.column.lake_name: column.new.name for column in retyped}
        tables.widen_columns(path, types, before_commit=before_commit)
        # A chunk of a copy may have come in between; from now on one that was read for the old types is refused.
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
    """Give a base table without rows the types of the change table: capture may have changed them since `instance` was
    read, when there was no base table yet.

    Capture changes the change table first and looks for the base table then, so that one of the two sees the other.
    Raises `LakeReadFailed`, `LakeWriteFailed`.
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
    """Return whether a base table has values that its types do not hold: a copy may be ahead of what capture knows."""
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
    """Return change rows with the columns that have another type by now in that."""
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
            columns[name] = kernels.coalesce(typed, type_changes.convert(batch[name], changed.old, changed.new))
        exact.add(ordinal, found, typed)
    columns[_EXACT] = exact.as_maps()
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=change_schema(instance))
