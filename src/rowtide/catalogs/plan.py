"""What has to be done so that a catalogue has a database's tables, and nothing else is touched. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from rowtide.catalogs.entries import Entry, Registered
from rowtide.catalogs.errors import CatalogueNameTaken

_DIGEST_LENGTH = 6


class Action(StrEnum):
    """What is done with a table's registration."""

    ADD = "add"
    CORRECT = "correct"
    REMOVE = "remove"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Step:
    """An action on the registration of a table under a name of the catalogue; `entry` is None for a removal."""

    action: Action
    name: str
    entry: Entry | None


def plan_steps(
    wanted: Iterable[Entry], present: Iterable[Registered], as_name: Callable[[str], str], namespace: str
) -> list[Step]:
    """Return a step for each table: removals first, which free names, and then the entries in their order.

    `as_name` turns a name into one that the catalogue takes. What is registered keeps its name; no other table gets it
    before that one is gone. Of two tables that would share one, the later gets a suffix made of its own name. The
    entries are as the catalogue would have them. Raises `CatalogueNameTaken`.
    """
    entries, found = list(wanted), list(present)
    keys = {entry.key for entry in entries}
    ours = {one.key: one for one in found if one.key is not None and one.key in keys}
    gone = [one for one in found if one.key is not None and ours.get(one.key) is not one]
    foreign = {one.name for one in found if one.key is None}
    taken = {one.name for one in ours.values()}
    steps = [Step(Action.REMOVE, one.name, None) for one in gone]
    for entry in entries:
        known = ours.get(entry.key)
        if known is not None:
            steps.append(
                Step(Action.KEEP if known.entry == replace(entry, name="") else Action.CORRECT, known.name, entry)
            )
            continue
        name = _choose(entry.name, as_name, taken)
        if name in foreign:
            raise CatalogueNameTaken(namespace, name)
        taken.add(name)
        steps.append(Step(Action.ADD, name, entry))
    return steps


def _choose(wanted: str, as_name: Callable[[str], str], taken: Iterable[str]) -> str:
    name = as_name(wanted)
    if name not in taken:
        return name
    return f"{name}_{hashlib.sha256(wanted.encode()).hexdigest()[:_DIGEST_LENGTH]}"
