"""Conflicts: what they are, and that the last commit time brings all databases to the same rows."""

from __future__ import annotations

import random
from itertools import permutations, product

import pytest

from rowtide.core.operations import Operation
from rowtide.replication.conflicts import (
    ConflictKind,
    Found,
    PresentRow,
    Resolution,
    Resolver,
    Version,
    decide,
    detect,
)

INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE
SAME, OTHER, OWN = (
    PresentRow(("1", "x"), is_as_before=True),
    PresentRow(("1", "y")),
    PresentRow(("1", "y"), is_own=True),
)


@pytest.mark.parametrize(
    ("operation", "found", "kind"),
    [
        (INSERT, Found(), None),
        (INSERT, Found(OTHER), ConflictKind.INSERT_EXISTS),
        (INSERT, Found(others=[OTHER]), ConflictKind.INSERT_EXISTS),
        (INSERT, Found(OTHER, [OTHER]), ConflictKind.MULTIPLE_UNIQUE_CONFLICTS),
        (UPDATE, Found(SAME), None),
        (UPDATE, Found(OWN), None),
        (UPDATE, Found(OTHER), ConflictKind.UPDATE_ORIGIN_DIFFERS),
        (UPDATE, Found(), ConflictKind.UPDATE_MISSING),
        (UPDATE, Found(SAME, [OTHER]), ConflictKind.UPDATE_EXISTS),
        (UPDATE, Found(OTHER, [OTHER, OTHER]), ConflictKind.MULTIPLE_UNIQUE_CONFLICTS),
        (DELETE, Found(SAME), None),
        (DELETE, Found(OWN), None),
        (DELETE, Found(OTHER), ConflictKind.DELETE_ORIGIN_DIFFERS),
        (DELETE, Found(), ConflictKind.DELETE_MISSING),
    ],
)
def test_kind_of_a_conflict(operation: Operation, found: Found, kind: ConflictKind | None) -> None:
    assert detect(operation, found) == kind


@pytest.mark.parametrize(
    ("rival", "released", "kind", "resolution", "is_displaced"),
    [
        (8, None, ConflictKind.INSERT_EXISTS, Resolution.APPLIED, True),
        (10, None, ConflictKind.INSERT_EXISTS, Resolution.SKIPPED, False),
        (None, 10, ConflictKind.INSERT_EXISTS, Resolution.SKIPPED, False),
        (None, 8, None, Resolution.APPLIED, False),
        (8, 10, ConflictKind.INSERT_EXISTS, Resolution.SKIPPED, True),
    ],
)
def test_of_rows_with_one_unique_value_the_last_stays(
    rival: int | None, released: int | None, kind: ConflictKind | None, resolution: Resolution, *, is_displaced: bool
) -> None:
    others = [] if rival is None else [PresentRow(("2", "x"), Version(rival, "b"))]
    found = Found(others=others, released=None if released is None else Version(released, "b"))
    decision = decide(Resolver.LAST_COMMIT_TIME, INSERT, found, Version(9, "a"))

    assert (decision.kind, decision.resolution) == (kind, resolution)
    assert decision.displaced == (tuple(others) if is_displaced else ())
    assert decision.is_hidden == (resolution is Resolution.SKIPPED)


class Node:
    """One key of a table at one database: its row and version, or the version of its deletion."""

    def __init__(self) -> None:
        self.row: str | None = None
        self.version: Version | None = None

    def write(self, operation: Operation, row: str | None, version: Version) -> None:
        """Change it as a session of the database does."""
        self.row, self.version = (None if operation is DELETE else row), version

    def deliver(self, operation: Operation, row: str | None, version: Version) -> None:
        """Change it as delivery does, whose changes carry their versions."""
        target = PresentRow((self.row,), self.version) if self.row is not None else None
        deleted = self.version if self.row is None else None
        if decide(Resolver.LAST_COMMIT_TIME, operation, Found(target, (), deleted), version).resolution is APPLIED:
            self.write(operation, row, version)


APPLIED = Resolution.APPLIED
Change = tuple[Operation, str | None, Version]


def possible_at(node: Node, operation: Operation) -> bool:
    """Whether a session can do that now: rows that are there are not inserted, others not changed."""
    return (node.row is None) == (operation is INSERT)


@pytest.mark.parametrize("operations", list(product((INSERT, UPDATE, DELETE), repeat=3)))
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("times", [(1, 2, 3), (1, 1, 1), (2, 1, 2), (3, 2, 1)])
def test_three_databases_come_to_the_same_row(
    operations: tuple[Operation, ...], times: tuple[int, ...], *, exists: bool
) -> None:
    """Each database does one thing, knowing none of the others'; these then arrive in every order."""
    changes: dict[str, Change] = {}
    for name, operation, time in zip("abc", operations, times, strict=True):
        node = Node()
        if exists:
            node.write(INSERT, "first", Version(0, "a"))
        if possible_at(node, operation):
            changes[name] = (operation, f"of {name}", Version(time, name))
    outcomes = set()
    for orders in product(*(permutations([one for one in changes if one != name]) for name in "abc")):
        for name, order in zip("abc", orders, strict=True):
            node = Node()
            if exists:
                node.write(INSERT, "first", Version(0, "a"))
            if name in changes:
                node.write(*changes[name])
            for other in order:
                node.deliver(*changes[other])
            outcomes.add((node.row, node.version))

    assert len(outcomes) == 1


@pytest.mark.parametrize("second", [INSERT, UPDATE, DELETE])
@pytest.mark.parametrize("first", [INSERT, UPDATE, DELETE])
def test_changes_of_one_database_arrive_between_those_of_another(first: Operation, second: Operation) -> None:
    """One does two things in its order, the other one thing at any time between them; the third sees all orders."""
    start = Version(0, "a")
    for other, time in product((INSERT, UPDATE, DELETE), (5, 15, 25)):
        outcomes = set()
        for place in range(3):
            node = Node()
            if first is not INSERT:
                node.write(INSERT, "first", start)
            changes = [(first, "one", Version(10, "a")), (second, "two", Version(20, "a"))]
            changes.insert(place, (other, "other", Version(time, "b")))
            for change in changes:
                node.deliver(*change)
            outcomes.add((node.row, node.version))
        assert len(outcomes) == 1


Values = tuple[str | None, ...]


class Table:
    """A table with two unique columns beside its key, at one database, as delivery and the triggers keep it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: dict[int, tuple[Values, Version]] = {}
        self.deleted: dict[int, Version] = {}
        self.released: dict[tuple[int, str], Version] = {}

    def write(self, key: int, values: Values | None, version: Version) -> bool:
        """Change a row as a session of the database does; return whether it could."""
        if self.rivals(key, values) or (values is None and key not in self.rows):
            return False
        self.remove(key)
        if values is None:
            self.deleted[key] = version
        else:
            self.rows[key] = (values, version)
        return True

    def deliver(self, key: int, values: Values | None, version: Version) -> None:
        """Change a row as delivery does."""
        rivals = {other: PresentRow((str(other),), self.rows[other][1]) for other in self.rivals(key, values)}
        had = [self.released[one] for one in self.held(values) if one in self.released]
        target = PresentRow((str(key),), self.rows[key][1]) if key in self.rows else None
        found = Found(target, tuple(rivals.values()), self.deleted.get(key), max(had, default=None))
        operation = DELETE if values is None else UPDATE if target is not None else INSERT
        decision = decide(Resolver.LAST_COMMIT_TIME, operation, found, version)
        for other in [other for other, row in rivals.items() if row in decision.displaced]:
            self.deleted[other] = self.rows[other][1]
            self.remove(other)
        if decision.resolution is Resolution.SKIPPED and values is not None:
            for one in self.held(values):
                self.released[one] = max(version, self.released.get(one, version))
        if decision.resolution is APPLIED or decision.is_hidden:
            self.remove(key)
            if values is None or decision.is_hidden:
                self.deleted[key] = version
            else:
                self.rows[key] = (values, version)

    def remove(self, key: int) -> None:
        """Take a row away; its values are released as of its version."""
        if key in self.rows:
            values, version = self.rows.pop(key)
            for one in self.held(values):
                self.released[one] = max(version, self.released.get(one, version))

    def rivals(self, key: int, values: Values | None) -> list[int]:
        """Return the keys of other rows that have one of the values."""
        held = set(self.held(values))
        return [other for other, (theirs, _) in self.rows.items() if other != key and held & set(self.held(theirs))]

    @staticmethod
    def held(values: Values | None) -> list[tuple[int, str]]:
        return [(place, value) for place, value in enumerate(values or ()) if value is not None]


class Three:
    """Databases a, b and c, each with what it wrote, and how much of that each other one has."""

    def __init__(self) -> None:
        self.tables = {name: Table(name) for name in "abc"}
        self.logs: dict[str, list[tuple[int, Values | None, Version]]] = {name: [] for name in "abc"}
        self.delivered = dict.fromkeys(permutations("abc", 2), 0)

    def left(self) -> list[tuple[str, str]]:
        """Return the ways by which changes are to come, by origin and destination."""
        return [way for way, count in self.delivered.items() if count < len(self.logs[way[0]])]

    def deliver(self, way: tuple[str, str]) -> None:
        origin, destination = way
        self.tables[destination].deliver(*self.logs[origin][self.delivered[way]])
        self.delivered[way] += 1

    def write(self, name: str, key: int, values: Values | None, version: Version) -> None:
        if self.tables[name].write(key, values, version):
            self.logs[name].append((key, values, version))


@pytest.mark.parametrize("first_seed", range(0, 4000, 400))
def test_unique_values_come_to_the_same_rows(first_seed: int) -> None:
    """Three databases change rows with few unique values, and get each other's changes at any time between."""
    for seed in range(first_seed, first_seed + 400):
        choose, three = random.Random(seed), Three()
        for time in range(choose.randrange(4, 16)):
            name, values = choose.choice("abc"), (choose.choice("uv-"), choose.choice("xy-"))
            row = tuple(None if value == "-" else value for value in values) if choose.random() < 0.8 else None
            three.write(name, choose.randrange(3), row, Version(time, name))
            if choose.random() < 0.5 and (left := three.left()):
                three.deliver(choose.choice(left))
        while left := three.left():
            three.deliver(choose.choice(left))

        first, *others = (table.rows for table in three.tables.values())
        assert others == [first, first], seed
