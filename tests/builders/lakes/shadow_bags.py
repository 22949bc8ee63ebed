"""Random histories of a table without a key in a lake, with snapshots and cleanups; and what it has at each LSN."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builders.capture.capture_instances import instance, source_table
from builders.lakes.shadows import AGAIN, Shadow

BAG = instance(table=source_table([("number", "double precision"), ("name", "text")], key=()))
_NUMBERS = (0.0, -0.0, 1.5, None, float("nan"))

Row = tuple[float | None, str]


@dataclass
class BagCopy:
    """A snapshot: the rows that it saw, of which some are not copied yet."""

    number: int
    begin: int
    left: list[Row]
    covered: int | None = None


class ShadowBag(Shadow[list[Row], BagCopy]):
    """A bag of rows that changes at random, is captured, copied and cleaned up.

    Transactions end in another order than their LSNs': a snapshot does not see some that are below others that it sees.
    """

    def __init__(self, chosen: random.Random, folder: Path) -> None:
        self._chosen = chosen
        self._rows = [self._row() for _ in range(6)]
        super().__init__(chosen, folder, BAG, list(self._rows))

    def expected(self, lsn: int) -> list[str] | None:
        """Return the rows as of an LSN, as texts; None: no snapshot is complete there."""
        if not any(copy.covered is not None and copy.covered <= lsn for copy in self.copies):
            return None
        return sorted(map(str, self.states[lsn]))

    def _row(self) -> Row:
        return self._chosen.choice(_NUMBERS), self._chosen.choice("ab")

    def _transact(self) -> None:
        lsn, rows = self._next(), list[dict[str, Any]]()
        for seqval in range(1, self._chosen.randint(2, 5)):
            for operation, row in self._change():
                number, name = row or (None, None)
                stamp = {"__$start_lsn": lsn, "__$seqval": seqval, "__$operation": operation}
                rows.append({**stamp, "number": number, "name": name})
        self._pending.append((lsn, rows))
        self.states[lsn] = list(self._rows)

    def _change(self) -> list[tuple[int, Row | None]]:
        kind = self._chosen.choice(["insert"] * 4 + ["update"] * 3 + ["delete"] * 3 + ["truncate"])
        if kind == "insert":
            self._rows.append(self._row())
            return [(2, self._rows[-1])]
        if kind == "truncate":
            if self._chosen.random() > 0.2:
                return []
            self._rows.clear()
            return [(6, None)]
        if not self._rows:
            return []
        old = self._rows.pop(self._chosen.randrange(len(self._rows)))
        if kind == "delete":
            return [(1, old)]
        self._rows.append(self._row())
        return [(3, old), (4, self._rows[-1])]

    def _copy(self) -> None:
        copy = next((copy for copy in self.copies if copy.covered is None), None)
        if copy is None:
            if not self.copies or self._chosen.random() < AGAIN:
                self._begin_copy()
        elif copy.left:
            rows, copy.left = copy.left[:3], copy.left[3:]
            self.made.copy_chunk(BAG, copy.number, [{"number": number, "name": name} for number, name in rows])
        else:
            copy.covered = self._next()
            self.states[copy.covered] = list(self._rows)
            self.made.end_snapshot(BAG, copy.number, copy.covered)

    def _begin_copy(self) -> None:
        """Let the snapshot see some transactions behind the mark, and not see one that waits for a standby."""
        begin = self._next()
        seen = list(self._rows)
        for _ in range(self._chosen.randint(0, 2)):
            self._transact()
            seen = list(self._rows)
        waiting: list[int] = []
        if self._chosen.random() < 0.5:
            # An insert alone, so that what follows does not depend on it.
            waiting, row = [self._next()], self._row()
            stamp = {"__$start_lsn": waiting[0], "__$seqval": 1, "__$operation": 2}
            self._pending.append((waiting[0], [{**stamp, "number": row[0], "name": row[1]}]))
            self._rows.append(row)
            self.states[waiting[0]] = list(self._rows)
            later, new = self._next(), self._row()
            stamp["__$start_lsn"] = later
            self._pending.append((later, [{**stamp, "number": new[0], "name": new[1]}]))
            self._rows.append(new)
            seen.append(new)
            self.states[later] = list(self._rows)
        number, after = len(self.copies) + 1, self._lsn + 1
        self.copies.append(BagCopy(number, begin, seen))
        # In these lakes a transaction's id is its LSN.
        visible = f"{waiting[0] if waiting else after}:{after}:{','.join(map(str, waiting))}"
        self.made.begin_snapshot(BAG, number, begin, visible=visible)
