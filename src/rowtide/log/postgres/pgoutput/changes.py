"""Selects the changes of a batch that are kept, and groups them by table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rowtide.core.values import frozen
from rowtide.log.postgres.pgoutput.control import Control
from rowtide.log.postgres.pgoutput.frames import Frames, Ints
from rowtide.log.postgres.pgoutput.relations import LayoutChange, RowLayout
from rowtide.log.postgres.pgoutput.transactions import BatchTransactions

NO_PAYLOAD = -1
_IS_ROW = np.zeros(256, np.int64)
_IS_ROW[list(b"IUD")] = 1
_OID_SHIFT = np.uint64(32)


@frozen
class DecodedChanges:
    """Row changes and truncated tables, in log order; `payload` counts truncated tables, `slot` names the layout."""

    message: Ints
    seqval: Ints
    payload: Ints
    slot: Ints

    def chosen(self, which: Ints) -> DecodedChanges:
        return DecodedChanges(self.message[which], self.seqval[which], self.payload[which], self.slot[which])


class LayoutTimeline:
    """Finds the layout that a table has at a message, by a search in (oid, first message)."""

    def __init__(self, changes: list[LayoutChange]) -> None:
        ordered = sorted(changes, key=lambda change: (change.oid, change.message))
        self.layouts: list[RowLayout] = [change.layout for change in ordered]
        self._is_needed = np.array([layout.shape is not None for layout in self.layouts], np.bool_)
        self._oids = np.array([change.oid for change in ordered], np.int64)
        self._starts = _search_keys(self._oids, np.array([change.message for change in ordered], np.int64))

    def find(self, frames: Frames, oids: Ints, messages: Ints) -> Ints:
        """Return the slot in `layouts` per change. Raises `DecodeError` for a table without a Relation message."""
        slots = np.searchsorted(self._starts, _search_keys(oids, messages), side="right") - 1
        if len(oids):
            known = slots >= 0
            if len(self._oids):
                known &= self._oids[slots] == oids
            frames.require(known, messages, "the table was not described before")
        return slots

    def needed(self, slots: Ints) -> npt.NDArray[np.bool_]:
        return self._is_needed[slots] if len(slots) else np.zeros(0, np.bool_)


def _search_keys(oids: Ints, messages: Ints) -> npt.NDArray[np.uint64]:
    """Combine oid and message number in one integer; a message sees descriptions at its own place or before."""
    keys: npt.NDArray[np.uint64] = oids.astype(np.uint64) << _OID_SHIFT
    return keys | messages.astype(np.uint64)


def row_counts(frames: Frames) -> Ints:
    """Return 1 for each message that is a row change, else 0."""
    return _IS_ROW[frames.kinds]


def keep_changes(
    frames: Frames, transactions: BatchTransactions, control: Control, first_ordinals: Ints, timeline: LayoutTimeline
) -> DecodedChanges:
    """Return the changes that a member needs and that no position covers. Raises `DecodeError`."""
    rows = np.flatnonzero(row_counts(frames))
    row_oids = frames.uint32_at(frames.starts[rows] + 1)
    parts = [
        (message, table, oid)
        for message, truncation in control.truncations
        for table, oid in enumerate(truncation.oids)
    ]
    truncated = np.array(parts, np.int64).reshape(-1, 3)
    message = np.concatenate((rows, truncated[:, 0]))
    oid = np.concatenate((row_oids, truncated[:, 2]))
    seqval = first_ordinals[message]
    seqval[len(rows) :] += truncated[:, 1]
    payload = np.full(len(message), NO_PAYLOAD, np.int64)
    payload[len(rows) :] = np.arange(len(parts))
    changes = DecodedChanges(message, seqval, payload, timeline.find(frames, oid, message))
    is_kept = timeline.needed(changes.slot) & ~transactions.is_dropped[transactions.number[message]]
    kept = np.flatnonzero(is_kept)
    in_log_order = np.argsort(message[kept], kind="stable") if parts else slice(None)
    return changes.chosen(kept[in_log_order])


def by_slot(changes: DecodedChanges) -> list[Ints]:
    """Return the indices of each slot's changes, in log order."""
    if not len(changes.slot):
        return []
    first = changes.slot[0]
    if (changes.slot == first).all():
        return [np.arange(len(changes.slot))]
    narrow = np.uint16 if changes.slot.max() < 1 << 16 else np.int64  # 16 bits are radix-sorted
    order = np.argsort(changes.slot.astype(narrow), kind="stable")
    borders = np.flatnonzero(np.diff(changes.slot[order])) + 1
    return np.split(order, borders)
