"""Chains of parents by which a subscriber has rows. Pure.

One parent is stored with each row of the partition membership. A chain of them ends at a row that belongs for another
reason than a parent: a row that loses the reason for its membership is found from the row that has lost its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Subject = TypeVar("Subject", bound=Hashable)


def choose_parents(parents: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return for each row the one of its parents that is nearest to a row that has none here."""
    followers: dict[str, list[str]] = {}
    chosen: dict[str, str] = {}
    for row, listed in parents.items():
        outside = next((parent for parent in listed if parent not in parents), None)
        if outside is not None:
            chosen[row] = outside
        for parent in listed:
            followers.setdefault(parent, []).append(row)
    reached = deque(chosen)
    while reached:
        parent = reached.popleft()
        for row in followers.get(parent, ()):
            if row not in chosen:
                chosen[row] = parent
                reached.append(row)
    return chosen


def link_members(
    found: Mapping[Subject, Sequence[tuple[str, Sequence[str]]]],
) -> dict[Subject, list[tuple[str, str | None]]]:
    """Return all rows of a partition, by article, each with the parent that is stored with it; None if it has none."""
    chosen = choose_parents({row: parents for rows in found.values() for row, parents in rows if parents})
    return {subject: [(row, chosen.get(row)) for row, _ in rows] for subject, rows in found.items()}
