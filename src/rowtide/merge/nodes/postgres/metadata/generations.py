"""Generations of a PostgreSQL node: each is a snapshot, and holds what it sees that the previous snapshot did not.

A number taken from a sequence while writing does not follow commit order, so writers take none: rows carry their
transaction ids, and a row belongs to the first generation whose snapshot sees its transaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Select, bindparam, func, insert, select, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.clock import unseen_by
from rowtide.databases.postgres.quoting import statement
from rowtide.merge.definitions import genhistory, replinfo
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, GENHISTORY, LOG, OF_TABLE, SEEN, TOMBSTONE


@frozen
class GenerationSnapshot:
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
    """The node's closed generations from a known one to the last.

    A busy hub closes one for each synchronisation, and keeps them until they are purged. With `is_tail` there are some
    before the first that is known: they are asked for by the transactions that belong to them, which `unknown` names,
    and `learn` takes the answer.
    """

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._snapshots: list[str] = []
        self._known: dict[int, int] = {}
        self._earlier: dict[int, int] = {}
        self.is_tail = False

    @property
    def last(self) -> int:
        """The number of the last generation, 0 before the first."""
        return self._numbers[-1] if self._numbers else 0

    def refresh(self, connection: Connection, own: int) -> None:
        """Read the generations closed since, as the caller's snapshot sees them, and all before that are not known."""
        if self.is_tail:
            self._numbers.clear()
            self._snapshots.clear()
        newer = (genhistory.c.nickname == own) & (genhistory.c.generation > self.last)
        found = select(genhistory.c.generation, genhistory.c.snapshot).where(newer)
        for number, written in connection.execute(found.order_by(genhistory.c.generation)):
            self.add(number, written)
        self.is_tail = False

    def add(self, number: int, snapshot: str) -> None:
        """Append the next generation."""
        self._numbers.append(number)
        self._snapshots.append(snapshot)
        # A transaction that no generation saw may be in this one.
        self._known.clear()

    def has(self, number: int) -> bool:
        """Whether `snapshot_of` knows the snapshot of a generation."""
        return not self.is_tail or (bool(self._numbers) and self._numbers[0] <= number)

    def snapshot_of(self, number: int) -> str | None:
        """Return the snapshot of the last generation up to a number; None if there is no such generation."""
        assert self.has(number), number
        place = bisect_left(self._numbers, number + 1)
        return self._snapshots[place - 1] if place else None

    def number_of(self, stamp: int) -> int:
        """Return the generation of a transaction; the next generation if no closed one sees it."""
        found = self._find(stamp)
        assert found is not None, stamp
        return found

    def unknown(self, stamps: Iterable[int]) -> list[int]:
        """Return the transactions that belong to generations which are not known."""
        return [] if not self.is_tail else [stamp for stamp in set(stamps) if self._find(stamp) is None]

    def learn(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Take the rows of `numbers_request`."""
        self._earlier.update((int(stamp), int(number)) for stamp, number in rows)

    def _find(self, stamp: int) -> int | None:
        found = self._known.get(stamp, self._earlier.get(stamp))
        if found is None:
            # Each snapshot sees what earlier ones see: the first that sees a transaction is found by bisection.
            place = bisect_left(self._snapshots, 1, key=lambda written: _read(written).sees(stamp))
            if not place and self._numbers and self.is_tail:
                return None
            found = self._numbers[place] if place < len(self._numbers) else self.last + 1
            self._known[stamp] = found
        return found


@lru_cache(maxsize=1000)
def _read(written: str) -> GenerationSnapshot:
    """Parse a snapshot when it is needed: of a busy node's generations, few are."""
    return GenerationSnapshot(written)


def numbers_request(own: int, stamps: Sequence[int]) -> tuple[str, Sequence[object]]:
    """Return the query of the generations of a node's transactions; `Generations.learn` takes its rows."""
    sees = f"{SEEN} > s.stamp and pg_visible_in_snapshot(s.stamp::text::xid8, snapshot::pg_snapshot)"
    first = (
        f"select generation from {GENHISTORY} where snapshot is not null and nickname = {own} and {sees} "
        f"order by {SEEN}, generation limit 1"
    )
    return f"select s.stamp, ({first}) from unnest(%s::bigint[]) s (stamp)", [list(stamps)]


_GENERATION = genhistory.alias()
_OWN = select(replinfo.c.nickname).scalar_subquery()
_BEFORE = (
    select(func.max(_GENERATION.c.generation))
    .where((_GENERATION.c.nickname == _OWN) & (_GENERATION.c.generation <= bindparam("since_generation")))
    .scalar_subquery()
)
SELECT_CLOSED: Select[Any] = (
    select(genhistory.c.nickname, genhistory.c.generation, genhistory.c.snapshot)
    .where(
        (genhistory.c.generation > bindparam("known_generation"))
        & (genhistory.c.generation >= func.coalesce(_BEFORE, 0))
        & (genhistory.c.nickname == _OWN)
    )
    .order_by(genhistory.c.generation)
)
"""The query of the node's generations after the last that is known, from `since_generation` on."""


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
