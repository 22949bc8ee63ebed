"""No accepted write disappears without a record, whatever is cut, restored, or resolved again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from builders.merge.merged_databases import Member
from builders.merge_machines.kept_writes import HOSTILE, KeepingOthersWrites, KeepingWrites
from builders.merge_machines.merge_machine_base import open_files, open_mixed, run_machine
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
TRACKING = pytest.mark.parametrize("tracked", [False, True], ids=["rows", "columns"])
LEVELS = pytest.mark.parametrize("is_republished", [False, True], ids=["a hub", "a regional hub"])
RESOLVERS = pytest.mark.parametrize("resolver", ["priority", "subscriber-wins"])


@pytest.mark.parametrize("examples", [1, pytest.param(20, marks=pytest.mark.exhaustive), pytest.param(400, marks=SOAK)])
@TRACKING
@RESOLVERS
@LEVELS
def test_files_lose_no_write(resolver: str, examples: int, *, is_republished: bool, tracked: bool) -> None:
    steps = 40 if examples > 1 else 10
    options = {"column_tracking": tracked}
    attributes = {"options": options, "resolver": resolver, "is_republished": is_republished}
    run_machine(KeepingWrites, open_files, examples, steps, **attributes)


@pytest.mark.parametrize("examples", [1, pytest.param(20, marks=pytest.mark.exhaustive), pytest.param(400, marks=SOAK)])
@TRACKING
@LEVELS
def test_an_edited_file_costs_others_no_write(examples: int, *, is_republished: bool, tracked: bool) -> None:
    steps = 40 if examples > 1 else 10
    options = {"column_tracking": tracked}
    run_machine(KeepingOthersWrites, open_files, examples, steps, options=options, is_republished=is_republished)


def test_a_file_overwrites_what_it_has_received() -> None:
    """What its regional hub wrote is no loss then. An edited file may claim to have received it."""
    attributes = {"opening": staticmethod(open_files), "is_republished": True}
    machine = type("History", (KeepingOthersWrites,), attributes)()
    hub, regional_hub, file = 0, 1, HOSTILE + 1
    try:
        machine.insert(key=1, member=file, region="n")
        machine.merge.sync(HOSTILE)
        machine.update(key=1, member=regional_hub, column="b")
        machine.merge.sync(HOSTILE)
        assert machine.values_at(file, 1) == ["w1.", "w3."]
        machine.update(key=1, member=file, column="b")
        for number in (HOSTILE, 0):
            machine.merge.sync(number)
        assert machine.values_at(hub, 1) == ["w1.", "w4."]
    finally:
        machine.teardown()


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [20, pytest.param(100, marks=SOAK)])
@pytest.mark.parametrize("machine", [KeepingWrites, KeepingOthersWrites])
@pytest.mark.parametrize("places", [(0, 2), (1, 3), (0, 1)], ids=str)
@LEVELS
@TRACKING
def test_servers_lose_no_write(
    machine: type[KeepingWrites],
    places: tuple[int, ...],
    examples: int,
    server: EmbeddedServer,
    *,
    is_republished: bool,
    tracked: bool,
) -> None:
    """Networks to them fail, too."""

    def opening(opened: ExitStack) -> Sequence[Member]:
        at = {place for place in places if place != HOSTILE + 1 or machine is KeepingWrites}
        return open_mixed(opened, server, sorted(at))

    run_machine(machine, opening, examples, 40, options={"column_tracking": tracked}, is_republished=is_republished)
