"""Work at a hub and at devices behind gateways that shows what is lost or doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builders.gateway.served_hubs import HUB, run_at
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.gateway.device import Device

ITEM = "create table item (id integer primary key, region varchar(10), name varchar(40))"
STOCK = "create table stock (id integer primary key, qty integer)"
FIRST_QTY = 1000


@dataclass
class FieldDevice:
    """A device, and the region that it has."""

    device: Device
    region: str

    def run(self, *statements: str) -> list[Any]:
        """Run statements as a program of the device; return the rows of the last."""
        return run_at(self.device.path, *statements)

    def turn_to(self, port: int) -> None:
        """Reach the gateway at another port of this machine from now on."""
        self.device.client.close()
        self.device.client.url, self.device.client._parts = url_of(port), None


def url_of(port: int) -> str:
    """Return the address of the hub behind a port of this machine."""
    return f"http://127.0.0.1:{port}/{HUB}"


@dataclass
class FieldWork:
    """Rows that each node alone changes, a row that all add to, and rows that the hub moves between regions.

    `expected` are the hub's rows by their keys; `qty` is what was added.
    """

    merged: Merge
    folder: Path
    random: random.Random
    devices: list[FieldDevice] = field(default_factory=list)
    expected: dict[int, tuple[str, str]] = field(default_factory=dict)
    qty: int = FIRST_QTY
    _last: int = 0

    def __post_init__(self) -> None:
        merged = self.merged
        merged.hub.execute(ITEM, STOCK, f"insert into stock values (1, {FIRST_QTY})")
        merged.merge.add_publication(PUBLICATION)
        merged.merge.add_article(PUBLICATION, "item", where="region = host_name()")
        merged.merge.add_article(PUBLICATION, "stock", resolver="additive:qty")

    def add_device(self, port: int) -> tuple[FieldDevice, str]:
        """Return a new device that reaches a gateway, and its code."""
        number = len(self.devices)
        device = Device(self.folder / f"field_{number}.db", url_of(port))
        # A gateway asks for seconds, which are for devices that it has too many of.
        device.client.pause = lambda seconds: time.sleep(min(seconds, 0.1))
        self.devices.append(FieldDevice(device, f"r{number}"))
        code = self.merged.merge.add_device(f"tablet-{number}", publication=PUBLICATION, host_name=f"r{number}")
        return self.devices[-1], code

    def write_at_hub(self, regions: Iterable[str]) -> None:
        """Insert, change, move and delete rows of the hub, and add to the sum."""
        regions = list(regions)
        keys = [self._insert(self.merged.hub.execute, region) for region in regions for _ in range(2)]
        moved, gone = self.random.choice(keys), self.random.choice(keys)
        region = self.random.choice(regions)
        self.merged.hub.execute(f"update item set region = '{region}' where id = {moved}")
        self.expected[moved] = region, self.expected[moved][1]
        if self.random.random() < 0.5:
            self.merged.hub.execute(f"delete from item where id = {gone}")
            del self.expected[gone]
        self._add(self.merged.hub.execute)

    def write_at(self, device: FieldDevice) -> None:
        """Insert, change and delete rows of a device, and add to the sum."""
        keys = [self._insert(device.run, device.region) for _ in range(3)]
        name = f"by {device.region} {keys[0]}"
        device.run(f"update item set name = '{name}' where id = {keys[0]}", f"delete from item where id = {keys[1]}")
        self.expected[keys[0]] = device.region, name
        del self.expected[keys[1]]
        self._add(device.run)

    def add_at_hub(self, region: str, rows: int) -> None:
        """Insert many rows of a region at the hub."""
        first, self._last = self._last + 1, self._last + rows
        added = {key: (region, f"row {key}") for key in range(first, self._last + 1)}
        values = ", ".join(f"({key}, '{region}', '{name}')" for key, (_, name) in added.items())
        self.merged.hub.execute(f"insert into item (id, region, name) values {values}")
        self.expected |= added

    def _insert(self, run: Any, region: str) -> int:
        self._last += 1
        name = f"row {self._last}"
        run(f"insert into item (id, region, name) values ({self._last}, '{region}', '{name}')")
        self.expected[self._last] = region, name
        return self._last

    def _add(self, run: Any) -> None:
        added = self.random.randint(1, 9)
        run(f"update stock set qty = qty + {added} where id = 1")
        self.qty += added

    def require_nothing_lost_or_doubled(self, *devices: FieldDevice) -> None:
        """Hub and devices, which have come to rest, have what was written."""
        rows = self.merged.hub.execute("select id, region, name from item")
        assert {key: (region, name) for key, region, name in rows} == self.expected
        assert self.merged.hub.execute("select id, qty from stock") == [(1, self.qty)]
        for device in devices:
            rows = device.run("select id, region, name from item")
            own = {key: found for key, found in self.expected.items() if found[0] == device.region}
            assert {key: (region, name) for key, region, name in rows} == own
            assert device.run("select id, qty from stock") == [(1, self.qty)]
