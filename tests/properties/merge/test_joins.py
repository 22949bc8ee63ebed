"""Whatever moves at any depth of joins, each subscriber comes to the rows that the model says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from builders.merge.merged_databases import Member
from builders.merge_machines.join_machines import MergingTrees
from builders.merge_machines.merge_machine_base import open_files, open_mixed, run_machine
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
PLACES = {"server hub": (0, 2), "file hub": (1, 3)}
"""Which of hub and subscribers are databases of a server."""


@pytest.mark.parametrize("examples", [1, pytest.param(15, marks=pytest.mark.exhaustive), pytest.param(400, marks=SOAK)])
def test_files_have_what_the_model_says(examples: int) -> None:
    run_machine(MergingTrees, open_files, examples)


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [3, pytest.param(60, marks=SOAK)])
@pytest.mark.parametrize("servers_are", PLACES)
def test_nodes_have_what_the_model_says(examples: int, servers_are: str, server: EmbeddedServer) -> None:
    def opening(opened: ExitStack) -> Sequence[Member]:
        return open_mixed(opened, server, PLACES[servers_are])

    run_machine(MergingTrees, opening, examples)
