"""Whether the disks that rowtide writes have room. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.findings.finding import Advice
from rowtide.findings.place_facts import ObjectPlace, Place
from rowtide.findings.place_findings import describe_room, find_in_objects, find_in_place
from rowtide.health.judgements import Area, Judgement, State, settle


def judge_place(place: Place) -> Iterator[Judgement]:
    """Judge a folder; one that this user may not write is not looked at: its writer may be another."""
    if isinstance(place, ObjectPlace):
        well = f"{place.url} can be listed"
        yield from settle(Area.DISK, find_in_objects(place), subject=place.subject, well=well)
    elif place.is_forbidden:
        fact = f"this user may not write at {place.path}"
        advice = Advice("Ask for its health as the user that writes there.")
        yield Judgement(Area.DISK, place.subject, State.NOT_LOOKED_AT, fact, advice)
    else:
        well = f"{describe_room(place)} are free at {place.path}"
        yield from settle(Area.DISK, find_in_place(place), subject=place.subject, well=well)
