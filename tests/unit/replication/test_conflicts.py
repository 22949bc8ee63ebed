"""Conflicts: what they are, and that the last commit time brings all databases to the same rows."""

from __future__ import annotations

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


def test_rows_of_other_keys_stop_the_last_commit_time() -> None:
    decision = decide(Resolver.LAST_COMMIT_TIME, INSERT, Found(others=[OTHER]), Version(9, "a"))

    assert decision.resolution is Resolution.STOPPED


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
