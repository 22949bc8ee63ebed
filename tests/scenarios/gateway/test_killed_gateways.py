"""Two gateways behind a round robin, one killed at each step of a device's path: nothing is lost, nothing doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.faults.cut_network import cut_network
from builders.faults.failpoints import DEVICE_FAILPOINTS, GATEWAY_FAILPOINTS, MERGE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.gateway.field_work import FieldDevice, FieldWork
from builders.gateway.gateway_processes import GatewayProcess, gateway_process
from builders.merge.merged_databases import Merge
from fixtures.merged import open_member

KINDS = [pytest.param("file"), pytest.param("server", marks=pytest.mark.live)]
AT_GATEWAY = (*MERGE_FAILPOINTS, *GATEWAY_FAILPOINTS)
MOST_HITS = 200


@pytest.fixture(params=KINDS)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FieldWork]:
    """A hub of each kind."""
    with ExitStack() as opened:
        yield FieldWork(Merge(open_member(request, opened, request.param, 0), []), tmp_path, random.Random(1))


@pytest.fixture
def healthy(work: FieldWork, tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway that lives as long as the test."""
    with gateway_process(work.merged.hub.url, tmp_path / "files") as gateway:
        yield gateway


def use(work: FieldWork, tablet: FieldDevice, code: str) -> None:
    """Do all that a device does, from its registration on; what fails is tried again by the device itself."""
    work.write_at_hub([tablet.region])
    with tablet.device as device:
        device.register(code)
        device.sync()
        work.write_at_hub([tablet.region, "elsewhere"])
        work.write_at(tablet)
        device.sync()
        device.wait(0)
        assert {each.article for each in device.list_conflicts()} <= {"stock"}
        assert device.sync().is_quiet
        device.logout()


def survive(work: FieldWork, healthy: GatewayProcess, files: Path, failpoint: str) -> bool:
    """Have a new device use a gateway that is killed at a failpoint, and the other one then; return whether it was."""
    with (
        gateway_process(work.merged.hub.url, files, failpoint=failpoint) as doomed,
        cut_network(doomed.port, healthy.port) as network,
    ):
        tablet, code = work.add_device(network.port)
        tablet.device.client.pause = lambda _seconds: time.sleep(0 if doomed.await_end_if_killed() else 0.1)
        use(work, tablet, code)
        work.require_nothing_lost_or_doubled(tablet)
        return doomed.await_end_if_killed()


def kind_of(work: FieldWork) -> str:
    return "sqlite" if work.merged.hub.url.startswith("sqlite") else "postgres"


@pytest.mark.parametrize("hit", [2, 5, 9])
def test_a_device_goes_on_at_the_other_gateway(
    work: FieldWork, healthy: GatewayProcess, tmp_path: Path, hit: int
) -> None:
    for side in ("before", "after"):
        assert survive(work, healthy, tmp_path / "files", f"{kind_of(work)}_merge_commit.{side}@{hit}")
    assert survive(work, healthy, tmp_path / "files", f"gateway_answer.before@{hit // 2}")


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)  # each hit is a device of its own: on a busy machine dozens take longer than a test may
@pytest.mark.parametrize("failpoint", AT_GATEWAY)
def test_nothing_is_lost_wherever_a_gateway_is_killed(
    work: FieldWork, healthy: GatewayProcess, tmp_path: Path, failpoint: str
) -> None:
    hits = 0
    while survive(work, healthy, tmp_path / "files", f"{failpoint}@{hits + 1}"):
        hits += 1
        assert hits < MOST_HITS
    # A device's first file is made by a gateway, whatever kind of database the hub is.
    assert bool(hits) == failpoint.startswith(("gateway", "sqlite", kind_of(work)))


PROGRAM = """
import sys
from rowtide.gateway.device import Device
path, url, code = sys.argv[1:]
with Device(path, url) as device:
    if not device.token_path.exists():
        device.register(code)
    device.sync()
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", [*DEVICE_FAILPOINTS, "sqlite_merge_commit.before", "sqlite_merge_commit.after"])
def test_a_device_that_is_killed_begins_again(work: FieldWork, healthy: GatewayProcess, failpoint: str) -> None:
    tablet, code = work.add_device(healthy.port)
    arguments = [str(tablet.device.path), tablet.device.client.url, code]
    work.write_at_hub([tablet.region])
    hits, ended = 0, KILLED
    while ended == KILLED:
        hits += 1
        assert hits < MOST_HITS
        ended = run_program(PROGRAM, *arguments, failpoint=f"{failpoint}@{hits}")
        work.write_at_hub([tablet.region, "elsewhere"])
        if tablet.device.path.exists():
            work.write_at(tablet)
    with tablet.device as device:
        device.sync()
        device.sync()
    work.require_nothing_lost_or_doubled(tablet)
    assert hits > 1
