"""However a hub alters its tables while devices are away, all come to the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from builders.merge.merged_databases import Member
from builders.merge_machines.merge_machine_base import open_files, open_mixed, run_machine
from builders.merge_machines.schema_machines import ChangingSchemas
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
TRACKING = pytest.mark.parametrize(
    "tracked_by", [pytest.param({}, id="rows"), pytest.param({"column_tracking": True}, id="columns")]
)
PLACES = {"server hub": (0, 2), "file hub": (2,)}
"""Which of hub and subscribers are databases of a server."""


@pytest.mark.parametrize("examples", [2, pytest.param(20, marks=pytest.mark.exhaustive), pytest.param(300, marks=SOAK)])
@TRACKING
def test_files_follow_any_change_of_schemas(tracked_by: dict[str, Any], examples: int) -> None:
    run_machine(ChangingSchemas, open_files, examples, options=tracked_by)


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=SOAK)])
@TRACKING
@pytest.mark.parametrize("servers_are", PLACES)
def test_nodes_of_both_kinds_follow_any_change(
    tracked_by: dict[str, Any], examples: int, servers_are: str, server: EmbeddedServer
) -> None:
    def opening(opened: ExitStack) -> Sequence[Member]:
        return open_mixed(opened, server, PLACES[servers_are])

    run_machine(ChangingSchemas, opening, examples, options=tracked_by)
