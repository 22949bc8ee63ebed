"""Whatever is done at a hub and three subscribers, all come to the same rows, or to those of their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from builders.merge_machines import Merging, MergingPartitions, Opening, open_files, open_mixed
from builders.merge_shops import MergingShop
from builders.merged_databases import Member
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
MACHINES = pytest.mark.parametrize("machine", [Merging, MergingPartitions])
TRACKING = pytest.mark.parametrize(
    "tracked_by", [pytest.param({}, id="rows"), pytest.param({"column_tracking": True}, id="columns")]
)
PLACES = {"server hub": (0, 2), "file hub": (1, 3)}
"""Which of hub and subscribers are databases of a server."""


@pytest.mark.parametrize("examples", [4, pytest.param(10, marks=pytest.mark.exhaustive), pytest.param(300, marks=SOAK)])
@TRACKING
@MACHINES
def test_files_come_to_rest(machine: type[RuleBasedStateMachine], tracked_by: dict[str, Any], examples: int) -> None:
    _run(machine, open_files, tracked_by, examples)


COMPARING = {
    "region": "later-wins:name",
    "customer": "earlier-wins:note",
    "orders": "minimum:qty",
    "item": "download-only",
}
COMBINING = {
    "region": "subscriber-wins",
    "customer": "merge-text:note:;",
    "orders": "averaging:qty",
    "item": "later-wins:label",
}


@pytest.mark.parametrize("examples", [1, pytest.param(8, marks=pytest.mark.exhaustive), pytest.param(200, marks=SOAK)])
@pytest.mark.parametrize(
    ("resolvers", "options"),
    [
        pytest.param(COMPARING, {}, id="rows"),
        pytest.param(COMPARING, {"column_tracking": True}, id="columns"),
        pytest.param(COMBINING, {"column_tracking": True}, id="made of both"),
    ],
)
def test_files_come_to_rest_with_any_resolver(
    resolvers: dict[str, str], options: dict[str, Any], examples: int
) -> None:
    made = {"opening": staticmethod(open_files), "options": options, "resolvers": resolvers}
    _run_steps(type("Resolving", (Merging,), made), examples, 25 if examples > 1 else 6)


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [2, pytest.param(40, marks=SOAK)])
@TRACKING
@MACHINES
@pytest.mark.parametrize("servers_are", PLACES)
def test_nodes_of_both_kinds_come_to_rest(
    machine: type[RuleBasedStateMachine],
    tracked_by: dict[str, Any],
    examples: int,
    servers_are: str,
    server: EmbeddedServer,
) -> None:
    def opening(opened: ExitStack) -> Sequence[Member]:
        return open_mixed(opened, server, PLACES[servers_are])

    _run(machine, opening, tracked_by, examples)


SHOPS = pytest.mark.parametrize(
    ("records", "options"),
    [
        pytest.param(None, {}, id="rows"),
        pytest.param({}, {"column_tracking": True}, id="records"),
        pytest.param({"record_conflict_resolution": True}, {"resolver": "subscriber-wins"}, id="whole"),
        pytest.param(
            {"record_conflict_resolution": True, "record_conflict_detection": True}, {"column_tracking": True}, id="any"
        ),
    ],
)


def test_a_shop_comes_to_rest() -> None:
    _run_shop(open_files, None, {}, 1, 6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("examples", [4, pytest.param(100, marks=SOAK)])
@SHOPS
def test_shops_of_files_come_to_rest(records: dict[str, Any] | None, options: dict[str, Any], examples: int) -> None:
    _run_shop(open_files, records, options, examples, 40)


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [1, pytest.param(40, marks=SOAK)])
@SHOPS
@pytest.mark.parametrize("servers_are", PLACES)
def test_shops_of_both_kinds_come_to_rest(
    records: dict[str, Any] | None, options: dict[str, Any], examples: int, servers_are: str, server: EmbeddedServer
) -> None:
    def opening(opened: ExitStack) -> Sequence[Member]:
        return open_mixed(opened, server, PLACES[servers_are])

    _run_shop(opening, records, options, examples, 40)


def _run_shop(
    opening: Opening, records: dict[str, Any] | None, options: dict[str, Any], examples: int, steps: int
) -> None:
    made = {"opening": staticmethod(opening), "options": options, "record_options": records}
    _run_steps(type("Shop", (MergingShop,), made), examples, steps)


def _run(machine: type[RuleBasedStateMachine], opening: Opening, tracked_by: dict[str, Any], examples: int) -> None:
    chosen = type(machine.__name__, (machine,), {"opening": staticmethod(opening), "options": tracked_by})
    _run_steps(chosen, examples, 25)


def _run_steps(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
