"""What the folders mean for capture. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.lake.errors import LakeNotWritable
from rowtide.log.errors import LogStoreNotWritable
from rowtide.monitor.findings import Advice, Finding, Severity, of_error
from rowtide.monitor.postgres.facts import DatabaseFacts, PlaceFacts, RemotePlace
from rowtide.monitor.quantities import format_bytes

LEAST_FREE_BYTES = 1 << 30
LEAST_FREE_SHARE = 0.05

_LAKE = "lake"


def find_in_places(facts: DatabaseFacts) -> Iterator[Finding]:
    """Judge the lake and the log store."""
    disks: set[int] = set()
    for place in facts.places:
        if isinstance(place, RemotePlace):
            yield Finding(Severity.TELLS, _LAKE, f"{place.url} was not looked at: only Spark reaches it")
        elif place.is_missing:
            fact = f"{place.path} is not on this machine"
            advice = (
                "Check where capture runs. If it is gone there too, restore it, or disable and enable the database."
            )
            yield Finding(Severity.STOPS, place.subject, fact, Advice(advice))
        else:
            yield from _judge(place, is_known_disk=place.device in disks)
            disks.add(place.device)
    for error in facts.place_obstacles:
        elsewhere = Advice("Give enable-db a folder of this machine with --log-store.")
        yield of_error(Severity.STOPS, "log store", error, elsewhere)


def _judge(place: PlaceFacts, *, is_known_disk: bool) -> Iterator[Finding]:
    if place.problem is not None:
        error = (LakeNotWritable if place.subject == _LAKE else LogStoreNotWritable)(place.path, place.problem)
        yield of_error(Severity.STOPS, place.subject, error)
    elif not is_known_disk and place.free_bytes < max(LEAST_FREE_BYTES, place.total_bytes * LEAST_FREE_SHARE):
        fact = f"{format_bytes(place.free_bytes)} of {format_bytes(place.total_bytes)} are free at {place.path}"
        yield Finding(Severity.WARNS, place.subject, fact, Advice("Free space, or move it to a larger disk."))
