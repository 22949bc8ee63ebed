"""Devices on networks that cut connections at random bytes: they converge, and nothing is lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from builders.faults.cut_network import CutNetwork, cut_network
from builders.gateway.field_work import FieldDevice, FieldWork
from builders.gateway.gateway_processes import gateway_process
from builders.merge.merged_databases import Merge
from fixtures.merged import open_member
from rowtide.core.errors import Retryable

KINDS = [pytest.param("file"), pytest.param("server", marks=pytest.mark.live)]
MOST_BYTES = (1000, 6000)
"""Half of the cuts come before a request of some rows is answered; the others leave time for the longest one."""
SLOW_ONE_IN = 10
DEVICES = 2


@pytest.fixture(params=KINDS)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FieldWork]:
    """A hub of each kind."""
    with ExitStack() as opened:
        yield FieldWork(Merge(open_member(request, opened, request.param, 0), []), tmp_path, random.Random(7))


class CutDevices:
    """Devices that synchronise by a network that is cut again and again, at random bytes."""

    def __init__(self, work: FieldWork, network: CutNetwork) -> None:
        self.work, self.network, self.random = work, network, work.random
        # The network is a thread of its own.
        chance = random.Random(work.random.random())
        network.again = lambda: chance.randrange(chance.choice(MOST_BYTES))
        network.cut_after(network.again())
        self.tablets = [self._register() for _ in range(DEVICES)]

    def _register(self) -> FieldDevice:
        tablet, code = self.work.add_device(self.network.port)
        tablet.device.client.pause = lambda _seconds: None
        while not tablet.device.token_path.exists():
            with suppress(Retryable):
                tablet.device.register(code)
        return tablet

    def step(self) -> None:
        """Write everywhere, and synchronise a device over a network that fails."""
        tablet = self.random.choice(self.tablets)
        self.work.write_at_hub([each.region for each in self.tablets])
        if tablet.device.path.exists():
            self.work.write_at(tablet)
        # What a device gives up may be tried again; nothing else may come of a cut.
        with suppress(Retryable):
            tablet.device.sync()

    def come_to_rest(self) -> None:
        """Synchronise all devices over a network that works."""
        self.network.again = self.network.cut_at = None
        for _ in range(2):
            for tablet in self.tablets:
                tablet.device.sync()


@pytest.mark.parametrize(
    ("cuts", "is_slow"),
    [pytest.param(40, False, id="short"), pytest.param(10_000, True, id="long", marks=pytest.mark.soak)],
)
def test_cuts_lose_and_double_nothing(work: FieldWork, tmp_path: Path, cuts: int, *, is_slow: bool) -> None:
    url, files = work.merged.hub.url, tmp_path / "files"
    with (
        gateway_process(url, files) as one,
        gateway_process(url, files) as other,
        cut_network(one.port, other.port) as network,
    ):
        devices = CutDevices(work, network)
        while network.cuts < cuts:
            is_slow_now = is_slow and work.random.randrange(SLOW_ONE_IN) == 0
            network.delay_s = work.random.uniform(0.05, 0.3) if is_slow_now else 0.0
            network.bytes_per_s = 300_000 if is_slow_now else None
            devices.step()
        network.delay_s, network.bytes_per_s = 0.0, None
        devices.come_to_rest()
        work.require_nothing_lost_or_doubled(*devices.tablets)
        for tablet in devices.tablets:
            assert tablet.device.sync().is_quiet
            tablet.device.close()
