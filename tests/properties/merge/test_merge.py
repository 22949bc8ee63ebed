"""Whatever is done at a hub and three subscribers, all come to the same rows, or to those of their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine

from builders.merge.merged_databases import Member
from builders.merge_machines.merge_machine_base import Opening, open_files, open_mixed, run_machine
from builders.merge_machines.merge_machines import Merging, MergingPartitions
from builders.merge_machines.merge_shops import MergingShop
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
MACHINES = pytest.mark.parametrize("machine", [Merging, MergingPartitions])
TRACKING = pytest.mark.parametrize(
    "tracked_by", [pytest.param({}, id="rows"), pytest.param({"column_tracking": True}, id="columns")]
)
PLACES = {"server hub": (0, 2), "file hub": (1, 3)}
"""Which of hub and subscribers are databases of a server."""


@pytest.mark.parametrize("examples", [3, pytest.param(10, marks=pytest.mark.exhaustive), pytest.param(300, marks=SOAK)])
@TRACKING
@MACHINES
def test_files_come_to_rest(machine: type[RuleBasedStateMachine], tracked_by: dict[str, Any], examples: int) -> None:
    run_machine(machine, open_files, examples, options=tracked_by)


COMPARING = {
    "region": "later-wins:name",
    "customer": "earlier-wins:note",
    "orders": "maximum:qty",
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
    steps = 25 if examples > 1 else 6
    run_machine(Merging, open_files, examples, steps, options=options, resolvers=resolvers)


DECIDING = """
create function decide(owner text, name text, id uuid, subscriber text, publisher_row {table}, subscriber_row {table})
returns {table} language plpgsql as $$
begin
    if subscriber_row.{column} is null then
        return null;
    elsif publisher_row.{column} is null or subscriber_row.{column} > publisher_row.{column} then
        return subscriber_row;
    end if;
    publisher_row.{other} := subscriber_row.{other};
    publisher_row.{column} := {made};
    return publisher_row;
end $$
"""
FUNCTIONS = (
    DECIDING.format(table="customer", column="note", other="name", made="subscriber_row.note || '!'"),
    DECIDING.format(table="orders", column="qty", other="before_id", made="publisher_row.qty + subscriber_row.qty"),
)
DECIDED = {
    "region": "earlier-wins:name",
    "customer": "procedure:public.decide",
    "orders": "procedure:public.decide",
    "item": "merge-text:label",
}


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [3, pytest.param(40, marks=SOAK)])
def test_a_servers_functions_come_to_rest(examples: int, server: EmbeddedServer) -> None:
    def opening(opened: ExitStack) -> Sequence[Member]:
        return open_mixed(opened, server, (0, 2))

    options = {"column_tracking": True}
    run_machine(Merging, opening, examples, options=options, resolvers=DECIDED, functions=FUNCTIONS)


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

    run_machine(machine, opening, examples, options=tracked_by)


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
    run_machine(MergingShop, opening, examples, steps, options=options, record_options=records)
