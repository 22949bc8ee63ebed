"""What a window's change rows do to the slices of their keys, as `rowtide.targets.slices` says it in SQL. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.lake_readers.last_rows import comparable
from rowtide.cdc.rows.operations import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE

Numbers: TypeAlias = npt.NDArray[Any]
_kernels: Any = pc
_NONE = -1


@dataclass(frozen=True, slots=True)
class Closed:
    """What becomes of each key's open slice, by the key's number.

    `alters`: it gets the values of `row`. `to` is the LSN at which it ends, -1 if it stays open.
    """

    alters: Numbers
    row: Numbers
    to: Numbers


@dataclass(frozen=True, slots=True)
class Opened:
    """Slices that begin: their rows, and the LSNs at which they begin and end; -1: they stay open."""

    row: Numbers
    start: Numbers
    to: Numbers


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Change rows of a window in their order, truncates left out, with the number of each row's key."""

    rows: pa.Table
    keys: Numbers
    lsns: Numbers
    operations: Numbers

    def slice(self, tracked: Iterable[str]) -> tuple[Closed, Opened]:
        """Return what becomes of slices; a change of `tracked` columns begins one."""
        # By key, and for each key in their order.
        order = np.argsort(self.keys, kind="stable")
        events = self._find_events(order)
        is_boundary = self._find_boundaries(events, tracked)
        is_first = _begins(events.keys)
        first = np.flatnonzero(is_first | is_boundary)
        last = np.append(first[1:], len(events.keys)) - 1 if len(first) else first
        starts, row, keys = events.lsns[first], events.last[last], events.keys[first]
        following = np.append(starts[1:], _NONE)
        ends_key = np.append(keys[1:] != keys[:-1], True)
        following = np.where(ends_key[: len(keys)], _NONE, following[: len(keys)])
        is_begun, is_of_key = is_boundary[first], _begins(keys)
        closed = Closed(~is_begun[is_of_key], row[is_of_key], np.where(is_begun, starts, following)[is_of_key])
        opens = is_begun & events.is_row[first]
        return closed, Opened(row[opens], starts[opens], following[opens])

    def _find_events(self, order: Numbers) -> _Events:
        """Return what each transaction does to a key."""
        keys, lsns, operations = self.keys[order], self.lsns[order], self.operations[order]
        first = np.flatnonzero(_begins(keys) | _begins(lsns))
        after = np.where(operations != UPDATE_BEFORE, np.arange(len(order)), _NONE)
        last = np.maximum.reduceat(after, first) if len(first) else first
        assert (last != _NONE).all(), "a before image comes with what the update left"
        has_found = np.isin(operations[first], (DELETE, UPDATE_BEFORE))
        return _Events(
            keys[first],
            lsns[first],
            np.where(has_found, order[first], _NONE),
            order[last],
            np.isin(operations[last], (INSERT, UPDATE_AFTER)),
        )

    def _find_boundaries(self, events: _Events, tracked: Iterable[str]) -> Numbers:
        """Return the events with which a slice ends or begins."""
        has_both = np.flatnonzero(events.is_row & (events.found != _NONE))
        differs = np.zeros(len(has_both), np.bool_)
        for name in tracked:
            column = self.rows[name]
            before, after = (column.take(pa.array(rows[has_both], pa.int64())) for rows in (events.found, events.last))
            differs |= _differ(before, after)
        boundaries = np.ones(len(events.keys), np.bool_)
        boundaries[has_both] = differs
        return boundaries


@dataclass(frozen=True, slots=True)
class _Events:
    """Transactions by key: the row that each found, -1 if none, its last row, and whether there is a row then."""

    keys: Numbers
    lsns: Numbers
    found: Numbers
    last: Numbers
    is_row: Numbers


def _begins(values: Numbers) -> Numbers:
    """Return where a value differs from the one before."""
    begins = np.ones(len(values), np.bool_)
    begins[1:] = values[1:] != values[:-1]
    return begins


def _differ(one: pa.ChunkedArray[Any], other: pa.ChunkedArray[Any]) -> Numbers:
    """Return where values differ; nulls are alike, and so are NaNs."""
    before, after = (comparable(each.combine_chunks()) for each in (one, other))
    alike = _kernels.equal(before, after).fill_null(fill_value=False)
    alike = _kernels.or_(alike, _kernels.and_(before.is_null(), after.is_null()))
    if pa.types.is_floating(before.type):
        nans = (_kernels.is_nan(each).fill_null(fill_value=False) for each in (before, after))
        alike = _kernels.or_(alike, _kernels.and_(*nans))
    differs: Numbers = ~np.asarray(alike.to_numpy(zero_copy_only=False))
    return differs
