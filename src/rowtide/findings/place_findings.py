"""What the folders that rowtide writes mean for it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator

from rowtide.core.errors import RowtideError
from rowtide.findings.finding import Advice, Command, Finding, Severity, of_error
from rowtide.findings.place_facts import LAKE, LOG_STORE, ObjectPlace, Place, PlaceFacts
from rowtide.findings.quantities import format_bytes
from rowtide.lake.errors import LakeNotWritable
from rowtide.log.errors import LogStoreNotWritable

LEAST_FREE_BYTES = 1 << 30
LEAST_FREE_SHARE = 0.05

OTHERS = 0o007

_REFUSALS: dict[str, Callable[[str, str], RowtideError]] = {LAKE: LakeNotWritable, LOG_STORE: LogStoreNotWritable}


def find_in_places(places: Iterable[Place]) -> Iterator[Finding]:
    """Judge folders; of two on one disk the first tells how full it is."""
    disks: set[int] = set()
    for place in places:
        if isinstance(place, ObjectPlace):
            yield from find_in_objects(place)
        else:
            yield from find_in_place(place, is_known_disk=place.device in disks)
            yield from _find_readers(place)
            disks.add(place.device)


def find_taken(blockers: Iterable[RowtideError]) -> Iterator[Finding]:
    """Judge what is wrong with the folder that a log store would have."""
    for error in blockers:
        elsewhere = Advice("Give enable-db a folder of this machine with --log-store.")
        yield of_error(Severity.STOPS, LOG_STORE, error, elsewhere)


def find_in_place(place: PlaceFacts, *, is_known_disk: bool = False) -> Iterator[Finding]:
    """Judge one folder: whether it is there, can be written, and has room."""
    if place.is_missing:
        fact = f"{place.path} is not on this machine"
        advice = "Check where capture runs. If it is gone there too, restore it, or disable and enable the database."
        yield Finding(Severity.STOPS, place.subject, fact, Advice(advice))
    elif place.problem is not None:
        yield _refuse(place, place.problem)
    elif not is_known_disk and place.free_bytes < max(LEAST_FREE_BYTES, place.total_bytes * LEAST_FREE_SHARE):
        fact = f"{describe_room(place)} are free at {place.path}"
        yield Finding(Severity.WARNS, place.subject, fact, Advice("Free space, or move it to a larger disk."))


def find_in_objects(place: ObjectPlace) -> Iterator[Finding]:
    """Judge a folder of an object store: whether it can be listed."""
    if place.problem is not None:
        advice = Advice(
            "Check the URL, the endpoint and the credentials in the environment (AWS_…, GOOGLE_…, AZURE_…)."
        )
        yield Finding(Severity.STOPS, place.subject, f"{place.url} cannot be listed: {place.problem}", advice)


def _find_readers(place: PlaceFacts) -> Iterator[Finding]:
    """Warn of a folder whose rows any user of the machine may read; its group was asked for, or is the user's own."""
    if place.mode is not None and place.mode & OTHERS:
        fact = f"every user of this machine can read {place.path}: its mode is {place.mode & 0o777:o}"
        yield Finding(Severity.WARNS, place.subject, fact, Command(f"chmod -R o= {shlex.quote(place.path)}"))


def describe_room(place: PlaceFacts) -> str:
    """Return how much of its disk is free."""
    return f"{format_bytes(place.free_bytes)} of {format_bytes(place.total_bytes)}"


def _refuse(place: PlaceFacts, problem: str) -> Finding:
    refusal = _REFUSALS.get(place.subject)
    if refusal is not None:
        return of_error(Severity.STOPS, place.subject, refusal(place.path, problem))
    fact = f"nothing can be written at {place.path}: {problem}"
    return Finding(Severity.STOPS, place.subject, fact, Advice("Give this user the right to write there."))
