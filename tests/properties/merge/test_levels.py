"""Whatever is done on three levels of hubs, with a file that comes and goes, each has the rows that the model says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from builders.merge.merged_databases import Member
from builders.merge_machines.level_machines import MergingLevels
from builders.merge_machines.merge_machine_base import open_files, open_mixed, run_machine
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
PLACES = {"server hubs": (0, 1), "server devices": (2, 3)}
"""Which of hub, regional hub, file that comes prepared, and device are databases of a server."""

NUMBERED = pytest.mark.parametrize("numbered", [False, True], ids=["keys stay", "numbered anew"])


@pytest.mark.parametrize(
    ("examples", "steps"),
    [(1, 6), pytest.param(10, 30, marks=pytest.mark.exhaustive), pytest.param(300, 40, marks=SOAK)],
)
@NUMBERED
def test_levels_of_files_have_what_the_model_says(examples: int, steps: int, *, numbered: bool) -> None:
    run_machine(MergingLevels, open_files, examples, steps, numbered=numbered)


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [3, pytest.param(60, marks=SOAK)])
@pytest.mark.parametrize("servers_are", PLACES)
@NUMBERED
def test_levels_of_both_kinds_have_it(
    examples: int, servers_are: str, server: EmbeddedServer, *, numbered: bool
) -> None:
    def opening(opened: ExitStack) -> Sequence[Member]:
        return open_mixed(opened, server, PLACES[servers_are])

    run_machine(MergingLevels, opening, examples, 30, numbered=numbered)
