"""No accepted write disappears without a record, whatever is cut, restored, or resolved again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from builders.merge.merged_databases import Member
from builders.merge_machines.kept_writes import KeepingOthersWrites, KeepingWrites
from builders.merge_machines.merge_machine_base import open_files, open_mixed, run_machine
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK = [pytest.mark.soak, pytest.mark.timeout(7200)]
TRACKING = pytest.mark.parametrize("tracked", [False, True], ids=["rows", "columns"])
RESOLVERS = pytest.mark.parametrize("resolver", ["priority", "subscriber-wins"])


@pytest.mark.parametrize("examples", [1, pytest.param(20, marks=pytest.mark.exhaustive), pytest.param(400, marks=SOAK)])
@TRACKING
@RESOLVERS
def test_files_lose_no_write(resolver: str, examples: int, *, tracked: bool) -> None:
    steps = 40 if examples > 1 else 10
    run_machine(KeepingWrites, open_files, examples, steps, options={"column_tracking": tracked}, resolver=resolver)


@pytest.mark.parametrize("examples", [1, pytest.param(20, marks=pytest.mark.exhaustive), pytest.param(400, marks=SOAK)])
@TRACKING
def test_an_edited_file_costs_others_no_write(examples: int, *, tracked: bool) -> None:
    steps = 40 if examples > 1 else 10
    run_machine(KeepingOthersWrites, open_files, examples, steps, options={"column_tracking": tracked})


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize("examples", [20, pytest.param(100, marks=SOAK)])
@TRACKING
def test_a_servers_subscribers_lose_no_write(examples: int, server: EmbeddedServer, *, tracked: bool) -> None:
    def opening(opened: ExitStack) -> Sequence[Member]:
        return open_mixed(opened, server, (0, 2))

    run_machine(KeepingWrites, opening, examples, 40, options={"column_tracking": tracked})
