"""Two gateways behind nginx and behind Caddy, as the how-to says: one is killed, and devices go on."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.gateway.field_work import FieldDevice, FieldWork
from builders.gateway.gateway_processes import gateway_process
from builders.gateway.proxies import PROXIES, Proxy
from builders.gateway.served_hubs import HUB
from builders.merge.merged_databases import Merge, open_file_member

ROWS = 3000
"""More than an answer has of them."""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[FieldWork]:
    with ExitStack() as opened:
        hub = opened.enter_context(open_file_member(tmp_path / "hub.db"))
        yield FieldWork(Merge(hub, []), tmp_path, random.Random(3))


def register(work: FieldWork, proxy: Proxy) -> FieldDevice:
    tablet, code = work.add_device(proxy.port)
    tablet.device.client.url = proxy.url(HUB)
    tablet.device.register(code)
    return tablet


def exchange(work: FieldWork, tablets: list[FieldDevice]) -> None:
    """Write everywhere, and have all devices synchronise; twice, as changes pass from one to the other."""
    work.write_at_hub([tablet.region for tablet in tablets])
    for tablet in tablets:
        work.write_at(tablet)
    for tablet in [*tablets, *tablets]:
        tablet.device.sync()
    work.require_nothing_lost_or_doubled(*tablets)


@pytest.mark.parametrize("name", PROXIES)
def test_devices_go_on_when_a_gateway_is_killed(
    work: FieldWork, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, files = work.merged.hub.url, tmp_path / "files"
    with (
        gateway_process(url, files) as one,
        gateway_process(url, files) as other,
        PROXIES[name](one.port, other.port, tmp_path / name) as proxy,
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.authority))
        tablets = [register(work, proxy) for _ in range(2)]
        for tablet in tablets:
            tablet.device.sync()
        # A download of several answers: they are those of one gateway.
        work.add_at_hub(tablets[0].region, ROWS)
        tablets[0].device.sync()
        exchange(work, tablets)
        one.kill()
        tablets.append(register(work, proxy))
        tablets[-1].device.sync()
        exchange(work, tablets)
        for tablet in tablets:
            tablet.device.logout()
            tablet.device.close()
