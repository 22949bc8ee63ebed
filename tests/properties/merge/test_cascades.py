"""Whatever foreign keys do with rows at a hub, a regional hub and devices, no accepted change is lost unrecorded."""

from __future__ import annotations

from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from builders.merge.cascading_histories import ACTIONS, Cascading
from builders.merge_machines.merge_machine_base import Opening, open_files, open_mixed
from rowtide.databases.postgres.embedded import EmbeddedServer

OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"on_unseen_children": "record"},
    {"column_tracking": True},
    {"resolver": "subscriber-wins"},
)
"""Of all articles; the seed chooses."""
LONG = pytest.mark.exhaustive
SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
LEVELS = pytest.mark.parametrize("levels", [1, 2])
"""The hub alone, or a regional hub below it, too."""


def run(opening: Opening, seed: int, action: str, levels: int) -> None:
    with ExitStack() as opened:
        cascading = Cascading(opening(opened), Random(seed), is_silent=seed > 0)
        cascading.begin(action, is_republished=levels > 1, **OPTIONS[seed % len(OPTIONS)])
        for _ in range(2):
            cascading.work(25)
            cascading.require_rest()


@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 20), marks=LONG), pytest.param(range(20, 200), marks=SOAK)]
)
@pytest.mark.parametrize("action", ACTIONS)
@LEVELS
def test_actions_lose_no_change_in_files(levels: int, action: str, seeds: range) -> None:
    for seed in seeds:
        run(open_files, seed, action, levels)


@pytest.mark.live
@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 20), marks=LONG), pytest.param(range(20, 100), marks=SOAK)]
)
@pytest.mark.parametrize("places", [(0, 2), (1, 3), (0, 1)], ids=str)
@LEVELS
def test_actions_lose_no_change_anywhere(
    levels: int, places: tuple[int, ...], seeds: range, server: EmbeddedServer
) -> None:
    for seed in seeds:
        run(lambda opened: open_mixed(opened, server, places), seed, ACTIONS[seed % len(ACTIONS)], levels)
