"""Random histories of one table in a lake, with snapshots and cleanups; and what the table has at each LSN."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from builders.capture.capture_instances import instance, source_table
from builders.lakes.shadows import AGAIN, Shadow
from rowtide.cdc.change_columns import pack_mask
from rowtide.core.tables import BeforeImages

TABLE = source_table([("id", "bigint"), ("name", "text"), ("note", "text")])
_KEYS = range(1, 13)
_STEPS = (1, 1 << 40)
"""Keys lie so far apart: readers may have room for a bit for each of them, or not."""
_NOTE = 3


@dataclass(frozen=True)
class Row:
    """A row of the table.

    `moved_at`: since that LSN the log has not had its note, and no layer of the base that is surely older has;
    `logged_at`: the last LSN at which the log had the note.
    """

    name: str
    note: str
    moved_at: int | None = None
    logged_at: int = 0


State = dict[int, Row]
Shown = tuple[int, str | None, str | None, bytes | None]
UNKNOWN = pack_mask([_NOTE], 3)


@dataclass
class Copy:
    """A snapshot that is being made, or was."""

    number: int
    begin: int
    of_even: bool
    left: list[range] = field(default_factory=list)
    covered: int | None = None
    is_cancelled: bool = False

    def has(self, key: int) -> bool:
        return not self.of_even or key % 2 == 0


class ShadowTable(Shadow[State, Copy]):
    """A table with a key, of which some values are not in the log."""

    def __init__(self, chosen: random.Random, folder: Path) -> None:
        self._chosen = chosen
        images = chosen.choice(list(BeforeImages))
        self._is_sparing = images is BeforeImages.KEY
        self.key_step = chosen.choice(_STEPS)
        is_mapped = chosen.random() < 0.3
        self._state: State = {key: self._row() for key in chosen.sample(_KEYS, 6)}
        changed = instance(table=TABLE, before_images=images)
        super().__init__(chosen, folder, changed, dict(self._state), is_mapped=is_mapped)

    def expected(self, lsn: int) -> list[Shown] | None:
        """Return the rows as of an LSN, by key, with what nothing has; None: no snapshot is complete there."""
        usable = [copy for copy in self.copies if copy.covered is not None and copy.covered <= lsn]
        whole = [copy for copy in usable if not copy.of_even]
        if not whole:
            return None
        above = [copy for copy in usable if copy.begin >= whole[-1].begin]
        return [self._shown(key, row, above) for key, row in sorted(self.states[lsn].items())]

    def _shown(self, key: int, row: Row, copies: list[Copy]) -> Shown:
        seen = max(copy.begin for copy in copies if copy.has(key)) if any(c.has(key) for c in copies) else 0
        if row.moved_at is not None and row.moved_at > seen:
            return self._id(key), row.name, None, UNKNOWN
        return self._id(key), row.name, row.note, None

    def _id(self, key: int) -> int:
        return key * self.key_step

    def _row(self) -> Row:
        return Row(self._chosen.choice("abcdef"), self._chosen.choice("uvwxyz"))

    def _transact(self) -> None:
        lsn, rows = self._next(), list[dict[str, Any]]()
        changes = (change for _ in range(1, self._chosen.randint(2, 5)) for change in self._change(lsn))
        for seqval, change in enumerate(changes, 1):
            stamp = {"__$start_lsn": lsn, "__$seqval": seqval}
            rows += [stamp | row for row in change]
        self._pending.append((lsn, rows))
        self.states[lsn] = dict(self._state)

    def _change(self, lsn: int) -> Iterator[list[dict[str, Any]]]:
        """Change rows; yield those of each of the log's changes."""
        free = [key for key in _KEYS if key not in self._state]
        taken = list(self._state)
        kinds = ["insert"] * 3 + ["update"] * 4 + ["delete"] * 2 + ["move"] * 2 + ["replace", "swap", "truncate"]
        kind = self._chosen.choice(kinds)
        if kind == "truncate" and self._chosen.random() < 0.3:
            self._state.clear()
            yield [{"__$operation": 6}]
        elif kind == "insert" and free:
            key = self._chosen.choice(free)
            self._state[key] = replace(self._row(), logged_at=lsn)
            yield [self._image(2, key)]
        elif kind == "update" and taken:
            yield self._update(lsn, self._chosen.choice(taken))
        elif kind == "delete" and taken:
            key = self._chosen.choice(taken)
            yield [self._old(1, key)]
            del self._state[key]
        elif kind == "move" and taken and free:
            yield self._move(lsn, self._chosen.choice(taken), self._chosen.choice(free))
        elif kind == "replace" and len(taken) > 1:
            to, key = self._chosen.sample(taken, 2)
            yield [self._old(1, to)]
            del self._state[to]
            yield self._move(lsn, key, to)
        elif kind == "swap" and len(taken) > 1 and free:
            (one, other), aside = self._chosen.sample(taken, 2), self._chosen.choice(free)
            for key, to in ((one, aside), (other, one), (aside, other)):
                yield self._move(lsn, key, to)

    def _update(self, lsn: int, key: int) -> list[dict[str, Any]]:
        is_note_kept = self._chosen.random() < 0.6
        before = self._old(3, key)
        row = self._row()
        old = self._state[key]
        kept = replace(old, name=row.name, logged_at=old.logged_at if self._is_sparing else lsn)
        self._state[key] = kept if is_note_kept else replace(row, logged_at=lsn)
        return [before, self._image(4, key, lacks_note=is_note_kept and self._is_sparing)]

    def _move(self, lsn: int, key: int, to: int) -> list[dict[str, Any]]:
        is_note_sent = not self._is_sparing or self._chosen.random() < 0.5
        before = self._old(1, key)
        row = self._state.pop(key)
        # A note that is not sent is in the row of the old key, if that was known when its key was changed.
        copies = [copy for copy in self.copies if copy.has(key) and copy.covered is not None]
        seen = max((copy.begin for copy in copies if copy.covered is not None and copy.covered < lsn), default=0)
        first = next((copy.begin for copy in copies if not copy.of_even), lsn)
        is_known = seen > (row.moved_at or 0) or (row.moved_at is None and row.logged_at > first)
        if is_note_sent:
            self._state[to] = replace(row, moved_at=None, logged_at=lsn)
        elif not is_known:
            self._state[to] = replace(row, moved_at=lsn)
        else:
            self._state[to] = row
        return [before, self._image(2, to, lacks_note=not is_note_sent)]

    def _old(self, operation: int, key: int) -> dict[str, Any]:
        if not self._is_sparing:
            return self._image(operation, key)
        return {"__$operation": operation, "id": self._id(key), "__$absent_mask": pack_mask([2, 3], 3)}

    def _image(self, operation: int, key: int, *, lacks_note: bool = False) -> dict[str, Any]:
        row = self._state[key]
        lacking = {"note": None, "__$absent_mask": pack_mask([_NOTE], 3)} if lacks_note else {"note": row.note}
        return {"__$operation": operation, "id": self._id(key), "name": row.name, **lacking}

    def _arranged(self, files: Sequence[pa.Table]) -> Sequence[pa.Table]:
        arranged = list(files)
        self._chosen.shuffle(arranged)
        return arranged

    def _copy(self) -> None:
        open_copies = [copy for copy in self.copies if copy.covered is None and not copy.is_cancelled]
        if not open_copies:
            if not self.copies or self._chosen.random() < AGAIN:
                self._begin_copy()
            return
        (copy,) = open_copies
        if self._chosen.random() < 0.05:
            copy.is_cancelled = True
            self.made.end_snapshot(self.instance, copy.number, None)
        elif copy.left:
            keys = copy.left.pop(self._chosen.randrange(len(copy.left)))
            rows = [self._copied(key) for key in keys if key in self._state and copy.has(key)]
            self.made.copy_chunk(self.instance, copy.number, rows)
        else:
            copy.covered = self._next()
            self.states[copy.covered] = dict(self._state)
            self.made.end_snapshot(self.instance, copy.number, copy.covered)

    def _begin_copy(self) -> None:
        number, begin = len(self.copies) + 1, self._next()
        has_whole = any(copy.covered is not None and not copy.of_even for copy in self.copies)
        of_even = has_whole and self._chosen.random() < 0.4
        bounds = sorted({1, *self._chosen.sample(_KEYS, 2), 13})
        chunks = [range(low, high) for low, high in itertools.pairwise(bounds)]
        self.copies.append(Copy(number, begin, of_even, chunks))
        self.made.begin_snapshot(self.instance, number, begin, is_whole=not of_even)

    def _copied(self, key: int) -> dict[str, Any]:
        return {"id": self._id(key), "name": self._state[key].name, "note": self._state[key].note}
