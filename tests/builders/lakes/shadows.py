"""Random histories of a captured table in a lake: what all kinds of tables have in common."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from builders.lakes.made_lakes import MadeLake, make_rows
from rowtide.cdc.cleanup.rolling import Base
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import ENABLED, change_table_path
from rowtide.cdc.system_tables import InstanceEvent
from rowtide.core.lsn import CommitLsn
from rowtide.delta.writing.changes import Below
from rowtide.lake.tables import delete_rows

BEGIN = 100
AGAIN = 0.15
"""How often a snapshot begins when none is being made: layers are folded between two only."""


class Copied(Protocol):
    """A snapshot that is being made, or was."""

    covered: int | None


State = TypeVar("State")
Copy = TypeVar("Copy", bound=Copied)


class Shadow(ABC, Generic[State, Copy]):
    """A table that changes at random, is captured, copied and cleaned up; `states` are those at transactions."""

    def __init__(
        self, chosen: random.Random, folder: Path, instance: Instance, state: State, *, is_mapped: bool = False
    ) -> None:
        self.instance = instance
        self.made = MadeLake(folder)
        self.made.enable(instance, BEGIN, is_mapped=is_mapped)
        self.made.publish(lsns=[BEGIN])
        self.low = self.high = BEGIN
        self.states: dict[int, State] = {BEGIN: state}
        self.copies: list[Copy] = []
        self._chosen = chosen
        self._lsn = BEGIN
        self._pending: list[tuple[int, list[dict[str, Any]]]] = []

    def step(self) -> None:
        """Do one thing."""
        steps = [self._transact] * 8 + [self._publish] * 4 + [self._copy] * 4 + [self._clean_up] * 2
        self._chosen.choice(steps)()

    def publish(self) -> None:
        """Publish everything."""
        self._publish(everything=True)

    def lsns(self) -> list[int]:
        """Return the LSNs of the validity interval at which something is known."""
        return [lsn for lsn in self.states if self.low <= lsn <= self.high]

    @abstractmethod
    def _transact(self) -> None:
        """Commit a transaction, which is to be published."""

    @abstractmethod
    def _copy(self) -> None:
        """Begin a snapshot, copy a chunk, or end it."""

    def _arranged(self, files: Sequence[pa.Table]) -> Sequence[pa.Table]:
        """Return the files of a cycle in the order in which they are written."""
        return files

    def _next(self) -> int:
        self._lsn += self._chosen.randint(2, 5)
        return self._lsn

    def _publish(self, *, everything: bool = False) -> None:
        count = len(self._pending) if everything else self._chosen.randint(0, len(self._pending))
        published, self._pending = self._pending[:count], self._pending[count:]
        marks = [copy.covered for copy in self.copies if copy.covered is not None and copy.covered > self.high]
        end = self._pending[0][0] if self._pending else self._lsn + 1
        lsns = sorted({lsn for lsn, _ in published} | {mark for mark in marks if mark < end})
        files = self._arranged([make_rows(self.instance, rows) for _, rows in published])
        self.made.publish((self.instance, files), lsns=lsns)
        self.high = max([self.high, *lsns])

    def _clean_up(self) -> None:
        """Move the low endpoint, and do some of what follows: the process may die between."""
        candidates = [lsn for lsn in self.states if self.low < lsn <= self.high]
        if candidates:
            self.low = self._chosen.choice(candidates)
            self.made.record(InstanceEvent(self.instance, ENABLED, CommitLsn(self.low)))
            self.made.publish(lsns=[])
        base = Base(self.made.path, self.instance, CommitLsn(self.low))
        path = change_table_path(self.made.path, self.instance.capture_instance)
        steps = self._chosen.randint(0, 3) if base.has_snapshots() else 0
        if steps > 0:
            base.roll(lambda: None)
        if steps > 1:
            delete_rows(path, Below("__$start_lsn", base.find_end().value))
        if steps > 2:
            base.tidy(lambda: None)
