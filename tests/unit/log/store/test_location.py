"""The owner of a log store, by system and slot together: servers number their databases, and so their slots, alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders.commands.check_facts import SOURCE
from rowtide.log.errors import LogStoreMoved, ServerPromoted
from rowtide.log.store.entries import StoredSource
from rowtide.log.store.location import require_own, require_timeline

OWN = StoredSource(SOURCE.system_identifier, 1, SOURCE.slot, SOURCE.publication, SOURCE.publication_id)


def test_the_store_of_the_same_system_and_slot_is_own() -> None:
    require_own(SOURCE, replace(OWN, timeline=2, publication="renewed", publication_id=100))


@pytest.mark.parametrize(
    "other", [replace(OWN, system_identifier="7002"), replace(OWN, slot="rowtide_6")], ids=["another system", "slot"]
)
def test_the_store_of_another_system_or_slot_is_not(other: StoredSource) -> None:
    with pytest.raises(LogStoreMoved, match=f"RT-2141: .*slot {other.slot} of system {other.system_identifier}"):
        require_own(SOURCE, other)


def test_server_on_another_timeline_is_refused_as_promoted() -> None:
    require_timeline(OWN, 1)
    with pytest.raises(ServerPromoted, match="RT-2142: the server is on timeline 2, .* timeline 1"):
        require_timeline(OWN, 2)
