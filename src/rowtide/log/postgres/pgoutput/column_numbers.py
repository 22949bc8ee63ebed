"""Maps the columns of a Relation message to attribute numbers: the log lists names in the order of the numbers.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import pairwise

from rowtide.log.alterations import AlteredColumn


def are_in_order(described: Sequence[str], needed: Mapping[int, str]) -> bool:
    """Return whether a description has the needed columns in the order of their numbers; False if names were
    swapped.
    """
    places = {name: place for place, name in enumerate(described)}
    found = [places[needed[number]] for number in sorted(needed) if needed[number] in places]
    return len(found) == len(needed) and found == sorted(found)


def name_columns(
    described: Sequence[str], needed: Mapping[int, str], columns: Iterable[AlteredColumn], computed: Set[int]
) -> dict[int, str | None]:
    """Return the needed columns' names as described, by number; None if they cannot be determined.

    `needed` are the columns by the names that they had before the description; `columns` are the catalogue's
    later state.
    Columns dropped by then have the names that they had, if the description has those. `computed` are columns that were
    generated at some time and were not in the log then.

    A column that is needed and still exists was in the table throughout, and so was each existing column with a lower
    number. If no column before it can have been dropped since, its place follows from the numbers alone.
    """
    present = {column.number: column.name for column in columns if not column.is_generated}
    last = max((number for number in needed if number in present), default=0)
    steady = sorted(number for number in present if number <= last and number not in computed)
    places = _bound_places(described, needed, present, steady)
    is_ordered = _is_ascending([described.index(needed[n]) for n in sorted(needed) if needed[n] in described])
    names: dict[int, str | None] = {}
    for number, name in needed.items():
        if number in places:
            names[number] = _choose(described[slice(*places[number])], name, present[number], is_ordered=is_ordered)
        elif name in described:
            names[number] = name if is_ordered else None
    known = [name for name in names.values() if name is not None]
    return {number: name if known.count(name or "") == 1 else None for number, name in names.items()}


def _bound_places(
    described: Sequence[str], needed: Mapping[int, str], present: Mapping[int, str], steady: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Return the first possible place, and the one after the last, of each column that was in the table throughout."""
    anchors = {
        number: described.index(needed[number])
        for number in steady
        if number in needed and needed[number] == present[number] and needed[number] in described
    }
    if not _is_ascending(list(anchors.values())):
        anchors = {}
    lowest: dict[int, int] = {}
    place = -1
    for number in steady:
        lowest[number] = place = max(place + 1, anchors.get(number, 0))
    highest: dict[int, int] = {}
    place = len(described)
    for number in reversed(steady):
        # At most as many columns are before it as there are lower numbers.
        highest[number] = place = min(place - 1, number - 1, anchors.get(number, place))
    return {number: (lowest[number], highest[number] + 1) for number in steady}


def _choose(candidates: Sequence[str], before: str, now: str, *, is_ordered: bool) -> str | None:
    """Return the only candidate; of several the one with a name that the column had, unless names were swapped."""
    if len(candidates) == 1:
        return candidates[0]
    known = (name for name in (before, now) if name in candidates)
    return next(known, None) if is_ordered else None


def _is_ascending(places: Sequence[int]) -> bool:
    return all(one < other for one, other in pairwise(places))
