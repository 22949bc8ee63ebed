"""What happens to devices in the field, at each kind of hub: repeated requests, two sessions, odd files and values."""

from __future__ import annotations

import fcntl
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from builders.commands.command_lines import rowtide
from builders.gateway.field_work import FieldDevice, FieldWork
from builders.gateway.gateway_processes import gateway_process
from builders.gateway.served_hubs import Gateway, serving_hub
from builders.merge.merged_databases import PUBLICATION, FileMember, Merge
from fixtures.merged import KINDS
from rowtide.gateway.client import GatewayClient
from rowtide.gateway.device import Device
from rowtide.gateway.device_files import DeviceFiles
from rowtide.gateway.errors import DeviceHasFile, FileBeingMade
from rowtide.gateway.limits import GatewayLimits
from rowtide.merge.definitions import subscriptions
from rowtide.merge.errors.devices import DeviceRevoked
from rowtide.merge.errors.nodes import NodeRestored, SessionReplaced
from rowtide.merge.errors.subscribing import MergeSubscriptionUnknown, SubscriptionExpired
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.session import purge


@pytest.fixture
def work(merged: Merge, tmp_path: Path) -> FieldWork:
    return FieldWork(merged, tmp_path, random.Random(5))


@pytest.fixture
def gateway(work: FieldWork) -> Iterator[Gateway]:
    with serving_hub(work.merged, limits=GatewayLimits(requests_per_minute=10_000)) as served:
        yield served


@pytest.fixture
def tablet(work: FieldWork, gateway: Gateway) -> Iterator[FieldDevice]:
    """A device that has its file."""
    made, code = work.add_device(gateway.address.port)
    made.device.register(code)
    work.write_at_hub([made.region])
    made.device.sync()
    yield made
    made.device.close()


def test_requests_that_a_proxy_repeats_have_one_effect(
    work: FieldWork, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange = GatewayClient.exchange

    def repeated(client: GatewayClient, step: str, body: bytes, key: str) -> bytes:
        exchange(client, step, body, key)
        return exchange(client, step, body, key)

    made, code = work.add_device(gateway.address.port)
    with monkeypatch.context() as patched, made.device as device:
        patched.setattr(GatewayClient, "exchange", repeated)
        device.register(code)
        for _ in range(2):
            work.write_at_hub([made.region, "elsewhere"])
            device.sync()
            work.write_at(made)
        device.sync()
        device.sync()
    work.require_nothing_lost_or_doubled(made)


def test_of_two_sessions_of_a_device_the_later_wins(
    work: FieldWork, tablet: FieldDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, other = GatewayClient.exchange, Device(tablet.device.path, tablet.device.client.url)

    def overtaken(client: GatewayClient, step: str, body: bytes, key: str) -> bytes:
        answer = exchange(client, step, body, key)
        if client is tablet.device.client and step == "sync":
            other.sync()
        return answer

    work.write_at(tablet)
    work.write_at_hub([tablet.region])
    with monkeypatch.context() as patched, other:
        patched.setattr(GatewayClient, "exchange", overtaken)
        with pytest.raises(SessionReplaced):
            tablet.device.sync()
    tablet.device.sync()
    work.require_nothing_lost_or_doubled(tablet)


def test_an_empty_file_is_as_none(work: FieldWork, gateway: Gateway) -> None:
    made, code = work.add_device(gateway.address.port)
    work.write_at_hub([made.region])
    with made.device as device:
        device.register(code)
        # As a program leaves it that opens its database before it is there.
        with closing(sqlite3.connect(device.path)):
            device.path.touch()
        device.sync()
        device.sync()
        work.require_nothing_lost_or_doubled(made)
        device.path.write_bytes(b"")
        with pytest.raises(DeviceHasFile, match="since its last synchronisation is gone"):
            device.sync()
        device.sync(replace=True)
        device.sync()
    work.require_nothing_lost_or_doubled(made)


@pytest.mark.parametrize("merged", [pytest.param(KINDS["files"], id="files")], indirect=True)
def test_a_hub_that_was_restored_takes_no_acknowledgement(
    work: FieldWork, gateway: Gateway, tablet: FieldDevice, tmp_path: Path
) -> None:
    hub = work.merged.hub
    assert isinstance(hub, FileMember)
    tablet.device.sync()
    backup = tmp_path / "backup.db"
    hub.execute(f"vacuum into '{backup}'")
    for _ in range(2):
        work.write_at_hub([tablet.region])
        tablet.device.sync()
    with closing(sqlite3.connect(backup)) as source:
        source.backup(hub.program)
    with pytest.raises(NodeRestored, match="restored from a backup"):
        tablet.device.sync()


def test_a_device_that_never_comes_back_expires(work: FieldWork, tablet: FieldDevice) -> None:
    (status,) = [one for one in work.merged.merge.status() if one.subscriber is not None]
    assert status.last_sync is not None
    assert status.expires == status.last_sync + timedelta(days=14)
    long_ago = datetime.now(UTC) - timedelta(days=15)
    with open_node(work.merged.hub.url) as hub, hub.transaction():
        hub.connection.execute(update(subscriptions).values(last_sync_date=long_ago, last_upload_date=long_ago))
    with pytest.raises(SubscriptionExpired):
        tablet.device.sync()


def test_texts_that_a_server_cannot_have_block_nothing(work: FieldWork, tablet: FieldDevice) -> None:
    tablet.run(
        f"insert into item (id, region, name) values (900, '{tablet.region}', cast(x'61ff62' as text))",
        f"insert into item (id, region, name) values (901, '{tablet.region}', 'a' || char(0) || 'b')",
        f"insert into item (id, region, name) values (902, '{tablet.region}', 'good')",
    )
    summary = tablet.device.sync()
    there = {key for (key,) in work.merged.hub.execute("select id from item where id >= 900")}
    is_file = isinstance(work.merged.hub, FileMember)
    # A text that is not UTF-8 has no text in a message; one with NUL is no text of a server.
    assert there == ({901, 902} if is_file else {902})
    assert len(summary.upload.refused) == (1 if is_file else 2)
    odd = "select hex(name) from item where id in (900, 901) order by id"
    assert tablet.run(odd) == [("61FF62",), ("610062",)]
    if is_file:
        assert work.merged.hub.execute(odd) == [("610062",)]


def test_one_gateway_at_a_time_makes_a_devices_file(tmp_path: Path) -> None:
    one, other = DeviceFiles(tmp_path), DeviceFiles(tmp_path)
    with one._alone("A" * 10), other._alone("B" * 10), pytest.raises(FileBeingMade), other._alone("A" * 10):
        pass
    with other._alone("A" * 10):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_removed_meanwhile_excludes_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, flock = DeviceFiles(tmp_path), fcntl.flock

    def too_late(lock: Any, how: int) -> None:
        (tmp_path / f"{'A' * 10}.lock").unlink()
        flock(lock, how)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", too_late)
        with pytest.raises(FileBeingMade), files._alone("A" * 10):
            pass
    with files._alone("A" * 10):
        pass


class OtherClock(datetime):
    """A clock that is years off."""

    years = 0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + timedelta(days=365 * cls.years)


@pytest.mark.parametrize("years", [-40, 40])
def test_a_clock_that_is_wrong_by_years_loses_nothing(
    work: FieldWork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    monkeypatch.setattr(OtherClock, "years", years)
    # The hub is in another process, whose clock is right.
    with gateway_process(work.merged.hub.url, tmp_path / "files") as gateway:
        made, code = work.add_device(gateway.port)
        with monkeypatch.context() as patched, made.device:
            patched.setattr(purge, "datetime", OtherClock)
            made.device.register(code)
            for key in range(10_001, 10_004):
                work.write_at_hub([made.region])
                made.device.sync()
                work.write_at(made)
                # As the file's default would have made it then.
                number, name = int(OtherClock.now(UTC).timestamp() * 1000) & (2**48 - 1), "by a wrong clock"
                rowguid = f"{number >> 16:08x}-{number & 65535:04x}-7000-8000-{key:012x}"
                made.run(f"insert into item values ({key}, '{made.region}', '{name}', '{rowguid}')")
                work.expected[key] = made.region, name
                # Changed at both ends: what the hub has wins, whatever time it is.
                contested = next(at for at, (region, _) in work.expected.items() if region == made.region)
                made.run(f"update item set name = 'of the device' where id = {contested}")
                work.merged.hub.execute(f"update item set name = 'of the hub' where id = {contested}")
                work.expected[contested] = made.region, "of the hub"
                made.device.sync()
            made.device.sync()
            work.require_nothing_lost_or_doubled(made)
            assert len(work.merged.merge.list_conflicts(PUBLICATION)) == 3


def test_an_operator_accepts_what_a_revoked_device_has(work: FieldWork, tablet: FieldDevice) -> None:
    merge = work.merged.merge
    work.write_at(tablet)
    merge.revoke_device("tablet-0")
    with pytest.raises(DeviceRevoked):
        tablet.device.sync()
    work.write_at(tablet)
    tablet.device.register(merge.rotate_token("tablet-0"))
    tablet.device.sync()
    work.require_nothing_lost_or_doubled(tablet)


def test_an_operator_discards_what_a_revoked_device_has(work: FieldWork, tablet: FieldDevice) -> None:
    merge = work.merged.merge
    work.write_at_hub([tablet.region])
    merge.revoke_device("tablet-0")
    tablet.run("update item set name = 'discarded'", "update stock set qty = 0")
    dropping = ("drop-subscription", PUBLICATION, "--subscriber", "device:tablet-0", "--db", work.merged.hub.url)
    assert rowtide("merge", *dropping, "--yes").code == 0
    tablet.device.register(merge.rotate_token("tablet-0"))
    with pytest.raises(MergeSubscriptionUnknown):
        tablet.device.sync()
    tablet.device.path.unlink()
    tablet.device.sync(replace=True)
    tablet.device.sync()
    work.require_nothing_lost_or_doubled(tablet)
