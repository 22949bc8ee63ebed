"""Whether a server's history resumes from the one that was read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from builders.log.log_stores import NOW, SOURCE, opened, range_to
from rowtide.core.lsn import Position
from rowtide.log.postgres.provenance import find_history_difference
from rowtide.log.postgres.stream.stream import StreamIdentity, TimelineFork
from rowtide.log.store.entries import LeaseTaken
from rowtide.log.store.replay import apply
from rowtide.log.store.state import ManifestState

POSITION = 0x100


def state(epoch: int = 0, timeline: int = 2) -> ManifestState:
    """Return a store that was read up to `POSITION` of a timeline."""
    source = replace(SOURCE, timeline=timeline)
    started = apply(None, 1, replace(opened(), source=source))
    leased = apply(started, 2, LeaseTaken("log", "us", NOW))
    read = apply(leased, 3, range_to(leased, POSITION))
    return replace(read, epoch=epoch, position=Position.of(epoch, POSITION))


@dataclass(frozen=True)
class Server:
    """What a server says when asked: itself, and where the earlier timelines of its history ended."""

    system: str = SOURCE.system_identifier
    timeline: int = 2
    flushed: int = POSITION
    forks: tuple[TimelineFork, ...] = ()

    def differs(self, state: ManifestState) -> str | None:
        return find_history_difference(StreamIdentity(self.system, self.timeline, self.flushed), self.forks, state)


AT_POSITION = (TimelineFork(1, 0x20), TimelineFork(2, POSITION))
ABOVE = (TimelineFork(1, 0x20), TimelineFork(2, POSITION + 1))
BELOW = (TimelineFork(1, 0x20), TimelineFork(2, POSITION - 1))

SAME = {
    "nothing new": Server(),
    "more log": Server(flushed=0x9_0000_0000),
    "promoted at our position": Server(timeline=3, forks=AT_POSITION),
    "promoted above our position": Server(timeline=3, flushed=0x500, forks=ABOVE),
    "promoted twice above our position": Server(timeline=4, flushed=0x500, forks=(*ABOVE, TimelineFork(3, 0x200))),
}
OTHER = {
    "another system": (Server(system="7002"), "system 7002, not 7001"),
    "another system, whatever else differs": (Server(system="7002", timeline=9, flushed=1), "system 7002, not 7001"),
    "a log that ends below our position": (Server(flushed=POSITION - 1), "its log ends at 0/FF"),
    "a promoted server whose log ends below": (Server(timeline=3, flushed=1, forks=ABOVE), "its log ends at 0/1"),
    "an earlier timeline": (Server(timeline=1), "timeline 1 does not come from timeline 2"),
    "a timeline forked from an earlier one": (
        Server(timeline=3, forks=(TimelineFork(1, 0x300),)),
        "timeline 3 does not come from timeline 2",
    ),
    "promoted below our position": (Server(timeline=3, flushed=0x500, forks=BELOW), "timeline 2 ended at 0/FF"),
    "promoted below our position and again above it": (
        Server(timeline=4, flushed=0x500, forks=(*BELOW, TimelineFork(3, 0x300))),
        "timeline 2 ended at 0/FF",
    ),
}


@pytest.mark.parametrize("case", SAME)
def test_history_that_has_all_below_our_position_is_accepted(case: str) -> None:
    assert SAME[case].differs(state()) is None


@pytest.mark.parametrize("case", OTHER)
def test_any_other_history_is_described_in_words(case: str) -> None:
    server, difference = OTHER[case]

    assert server.differs(state()) == difference


@pytest.mark.parametrize("asked", [Server(), Server(flushed=POSITION - 1)])
def test_only_the_log_position_counts_not_the_epoch(asked: Server) -> None:
    assert (asked.differs(state(epoch=5)) is None) == (asked.differs(state()) is None)
