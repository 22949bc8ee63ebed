"""However a hub alters its tables while devices are away, all come to the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from builders.merge_machines import Opening, open_files, open_mixed
from builders.merged_databases import Member
from builders.schema_machines import ChangingSchemas
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
    _run(open_files, tracked_by, examples)


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

    _run(opening, tracked_by, examples)


def _run(opening: Opening, tracked_by: dict[str, Any], examples: int) -> None:
    chosen = type(
        ChangingSchemas.__name__, (ChangingSchemas,), {"opening": staticmethod(opening), "options": tracked_by}
    )
    run_state_machine_as_test(
        chosen,
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
