"""Generations of a PostgreSQL node: each is a snapshot, and holds what it sees that the previous snapshot did not.

A number taken from a sequence while writing does not follow commit order, so writers take none: rows carry their
transaction ids, and a row belongs to the first generation whose snapshot sees its transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, insert, select, text

from rowtide.databases.postgres.clock import unseen_by
from rowtide.databases.postgres.quoting import quote_qualified, statement
from rowtide.merge.definitions import SCHEMA, genhistory
from rowtide.merge.nodes.postgres.system_tables import CONTENTS, LOG, OF_TABLE, TOMBSTONE

GENHISTORY = quote_qualified(SCHEMA, genhistory.name)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A PostgreSQL snapshot, xmin:xmax:xid,xid,…; `text` is that form."""

    text: str
    lowest: int = field(init=False)
    next: int = field(init=False)
    in_progress: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        lowest, following, listed = self.text.split(":")
        object.__setattr__(self, "lowest", int(lowest))
        object.__setattr__(self, "next", int(following))
        object.__setattr__(self, "in_progress", frozenset(int(number) for number in listed.split(",") if number))

    def sees(self, stamp: int) -> bool:
        """Return whether the snapshot sees a transaction that is known to be committed by now."""
        return stamp < self.lowest or (stamp < self.next and stamp not in self.in_progress)


class Generations:
    """The node's closed generations, as far as they were read."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._snapshots: list[str] = []
        self._known: dict[int, int] = {}

    @property
    def last(self) -> int:
        """The number of the last generation, 0 before the first."""
        return self._numbers[-1] if self._numbers else 0

    def refresh(self, connection: Connection, own: int) -> None:
        """Read the generations closed since, as the caller's snapshot sees them."""
        newer = (genhistory.c.nickname == own) & (genhistory.c.generation > self.last)
        found = select(genhistory.c.generation, genhistory.c.snapshot).where(newer)
        for number, written in connection.execute(found.order_by(genhistory.c.generation)):
            self.add(number, written)

    def add(self, number: int, snapshot: str) -> None:
        """Append the next generation."""
        self._numbers.append(number)
        self._snapshots.append(snapshot)
        self._known.clear()

    def snapshot_of(self, number: int) -> str | None:
        """Return the snapshot of the last generation up to a number; None if there is no such generation."""
        place = bisect_left(self._numbers, number + 1)
        return self._snapshots[place - 1] if place else None

    def number_of(self, stamp: int) -> int:
        """Return the generation of a transaction; the next generation if no closed one sees it."""
        found = self._known.get(stamp)
        if found is None:
            place = bisect_left(self._snapshots, 1, key=lambda written: _read(written).sees(stamp))
            found = self._numbers[place] if place < len(self._numbers) else self.last + 1
            self._known[stamp] = found
        return found


@lru_cache(maxsize=1000)
def _read(written: str) -> Snapshot:
    """Read a snapshot; of the generations of a busy node, few are looked into."""
    return Snapshot(written)


def newer_generations(generations: Generations) -> str:
    """Return the query of the generations closed since; `take_generations` reads its rows."""
    return (
        f"select nickname, generation, snapshot from {GENHISTORY} where snapshot is not null "
        f"and generation > {generations.last} order by generation"
    )


def take_generations(generations: Generations, own: int, rows: Iterable[tuple[Any, ...]]) -> None:
    """Add those of this node to what is known."""
    for nickname, number, snapshot in rows:
        if int(nickname) == own and int(number) > generations.last:
            generations.add(int(number), snapshot)


def window_since(generations: Generations, since: int) -> Callable[[str], str]:
    """Return a function that builds the condition that a stamp belongs to a generation after the given one."""
    before = generations.snapshot_of(since)
    return lambda stamp: f"{stamp} is not null" if before is None else unseen_by(stamp, before)


def close_generation(connection: Connection, own: int, nicknames: Iterable[int]) -> None:
    """Close the open generation with the snapshot of the caller's transaction; do nothing if it is empty."""
    generations = Generations()
    generations.refresh(connection, own)
    snapshot = connection.execute(text("select pg_current_snapshot()::text")).scalar_one()
    last = generations.snapshot_of(generations.last)
    if last is None or _is_stamped(connection, last, list(nicknames)):
        connection.execute(
            insert(genhistory).values(
                nickname=own, generation=generations.last + 1, guidsrc=str(uuid4()), genstatus=1, snapshot=snapshot
            )
        )


def _is_stamped(connection: Connection, last: str, nicknames: list[int]) -> bool:
    """Whether any row was changed that the last generation does not see."""
    listed = ", ".join(map(str, nicknames)) or "null"
    exists = " or ".join(
        f"exists (select from {table} where {OF_TABLE} in ({listed}) and {unseen_by('stamp', last)})"
        for table in (CONTENTS, TOMBSTONE)
    )
    logged = f"exists (select from {LOG} where tablenick in ({listed}))"
    return bool(connection.execute(statement(f"select {exists} or {logged}")).scalar())
