"""Captured tables as their base rows and change rows say, by the rules alone: slow, and without any of the readers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from rowtide.cdc.published import (
    base_table_path,
    change_table_path,
    read_instances,
    read_publication,
    system_table_path,
)
from rowtide.cdc.recorded_snapshots import RecordedSnapshot, excluded_begins, find_base, read_snapshots
from rowtide.copying.chunks import parse_snapshot
from rowtide.core.lsn import CommitLsn
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate

if TYPE_CHECKING:
    from builders.capture.captured_databases import CapturedDatabase

_INSERTED, _DELETED, _TRUNCATED = (2, 4), (1, 3), 6


def snapshots_of(captured: CapturedDatabase, instance: str) -> tuple[RecordedSnapshot, ...]:
    """Return the recorded snapshots of an instance that is enabled."""
    lake = str(captured.lake)
    publication = read_publication(lake)
    assert publication is not None
    member_id = read_instances(lake, publication.cycle)[instance].instance.member_id
    return read_snapshots(lake).get(member_id, ())


def read_rows(path: str) -> list[dict[str, Any]]:
    """Return all rows of a table of the lake; none if there is no table."""
    found = open_snapshot(locate(path))
    return found.read([field.name for field in found.columns.fields]).to_pylist() if found is not None else []


def base_rows(captured: CapturedDatabase, instance: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return columns of an instance's base rows, sorted."""
    rows = read_rows(base_table_path(str(captured.lake), instance))
    return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)


def table_of(
    captured: CapturedDatabase, instance: str, *columns: str, key: tuple[str, ...] = (), at: CommitLsn | None = None
) -> list[tuple[Any, ...]]:
    """Return columns of an instance's table as of an LSN (None: the last published one), sorted.

    Without `key`, rows are counted: a change counts unless the one transaction snapshot of the copy has seen it.
    """
    lake = str(captured.lake)
    publication = read_publication(lake)
    assert publication is not None
    at = at or publication.lsn
    assert at is not None
    snapshots = snapshots_of(captured, instance)
    newest = find_base(snapshots, at)
    assert newest is not None, "no snapshot is covered there"
    excluded = excluded_begins(snapshots, at)
    base = [
        row
        for row in read_rows(base_table_path(lake, instance))
        if newest.begin.value <= row["__$start_lsn"] <= at.value and row["__$start_lsn"] not in excluded
    ]
    changes = [
        row
        for row in read_rows(change_table_path(lake, instance))
        if newest.begin.value < row["__$start_lsn"] <= at.value
    ]
    ordered = sorted([*base, *changes], key=lambda row: (row["__$start_lsn"], row["__$seqval"], row["__$operation"]))
    rows = _last_rows(ordered, key) if key else _counted_rows(lake, ordered, newest, columns)
    return sorted((tuple(row[column] for column in columns) for row in rows), key=repr)


def _last_rows(ordered: list[dict[str, Any]], key: tuple[str, ...]) -> list[dict[str, Any]]:
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in ordered:
        if row["__$operation"] == _TRUNCATED:
            last.clear()
        else:
            last[tuple(row[column] for column in key)] = row
    return [row for row in last.values() if row["__$operation"] in _INSERTED]


def _counted_rows(
    lake: str, ordered: list[dict[str, Any]], newest: RecordedSnapshot, columns: tuple[str, ...]
) -> list[dict[str, Any]]:
    assert newest.definition.visible is not None
    visible = parse_snapshot(newest.definition.visible)
    xids = {row["start_lsn"]: row["tran_id"] for row in read_rows(system_table_path(lake, "lsn_time_mapping"))}
    counts: Counter[tuple[Any, ...]] = Counter()
    for row in ordered:
        if row["__$seqval"] and visible.sees(np.array([xids[row["__$start_lsn"]]])).all():
            continue
        if row["__$operation"] == _TRUNCATED:
            counts.clear()
        else:
            counts[tuple(row[column] for column in columns)] += 1 if row["__$operation"] in _INSERTED else -1
    assert all(count >= 0 for count in counts.values())
    return [dict(zip(columns, values, strict=True)) for values in counts.elements()]
