"""The first file of a device: made at the gateway, with its rows and metadata, and fetched as it is.

A device that has nothing needs all rows of its partition, tables, triggers and metadata. As a SQLite file they are one
download, which goes on where it was cut, and which needs nothing of the device but to store it. A file belongs to the
request that asked for it: repeated, at any gateway that shares the folder, it gets the same one.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from rowtide.core.errors import FileNotWritable
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.gateway.errors import DeviceHasFile, FileBeingMade, GatewayAddressUnknown
from rowtide.gateway.requests import DeviceFile, FileRequest
from rowtide.merge.definitions import subscriptions
from rowtide.merge.devices.credentials import BEHIND_GATEWAY
from rowtide.merge.devices.registered import KnownDevice, replace_subscription
from rowtide.merge.nodes.connecting import open_subscriber
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.requests import NewMergeSubscription
from rowtide.merge.publishing.subscriptions import add_subscription, drop_subscription

KEPT_S = 7 * 86_400.0
_NAME = re.compile(r"[0-9A-Z]{10}-[0-9a-f]{24}\.db\.gz")
_AFTER_S = 5.0


@dataclass(slots=True)
class DeviceFiles:
    """Files of devices in a folder, which all gateways of a hub may share."""

    folder: Path

    def make(self, hub: Node, device: KnownDevice, wanted: FileRequest, key: str) -> DeviceFile:
        """Return the file for a request, made now if the request is new.

        Raises `DeviceHasFile`, `FileBeingMade`, `FileNotWritable`, and what `add_subscription` raises.
        """
        self._forget_old()
        name = f"{device.device_id}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.db.gz"
        with self._alone(device.device_id):
            if (found := self._read(name)) is not None:
                return found
            former = _find_former(hub, device)
            if former is not None and former.was_used and not wanted.replaces:
                raise DeviceHasFile(device.name)
            if former is not None:
                drop_subscription(hub, None, device.publication, former.subscriber)
            try:
                return self._make(hub, device, name)
            except OSError as error:
                raise FileNotWritable(str(self.folder), error.strerror or str(error)) from error

    def find(self, device_id: str, name: str) -> Path:
        """Return the path of a device's own file. Raises `GatewayAddressUnknown`."""
        path = self.folder / name
        if _NAME.fullmatch(name) is None or not name.startswith(f"{device_id}-") or not path.is_file():
            raise GatewayAddressUnknown(f"files/{name[:80]}")
        return path

    def _make(self, hub: Node, device: KnownDevice, name: str) -> DeviceFile:
        plain = self.folder / name.removesuffix(".gz")
        for left in (plain, *(plain.with_name(plain.name + end) for end in ("-wal", "-shm", "-journal"))):
            left.unlink(missing_ok=True)
        with open_subscriber(f"sqlite:///{plain.absolute()}") as node:
            stored = f"{BEHIND_GATEWAY}{device.name}"
            made = add_subscription(
                hub, node, NewMergeSubscription(device.publication, stored, partition=device.partition)
            )
        packed = plain.with_name(f"{name}.part")
        with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=6) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        with open(packed, "rb") as file:
            found = DeviceFile(name, packed.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
        plain.unlink()
        (self.folder / f"{name}.json").write_text(json.dumps({"size": found.size, "sha256": found.sha256}))
        replace_subscription(hub, device, made.subid)
        # Last: what is there under its name is complete, and its subscription is the device's.
        failpoint("gateway_file.before")
        os.replace(packed, self.folder / name)
        failpoint("gateway_file.after")
        return found

    def _read(self, name: str) -> DeviceFile | None:
        if not (self.folder / name).is_file():
            return None
        said = json.loads((self.folder / f"{name}.json").read_text())
        return DeviceFile(name, said["size"], said["sha256"])

    def _forget_old(self) -> None:
        before = time.time() - KEPT_S
        for path in self.folder.glob("*.db*"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    @contextmanager
    def _alone(self, device_id: str) -> Iterator[None]:
        """Let no other request of a device make its file, here or at another gateway. Raises `FileBeingMade`.

        One whose connection was cut goes on, while the device asks again.
        """
        with open(self.folder / f"{device_id}.lock", "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FileBeingMade(_AFTER_S) from error
            yield


@frozen
class _Former:
    """The subscription that a device has; `was_used`: its file has synchronised, and may have changes."""

    subscriber: str
    was_used: bool


def _find_former(hub: Node, device: KnownDevice) -> _Former | None:
    """Return the device's subscription, or one that a gateway began for it and did not complete."""
    c = subscriptions.c
    is_own = (
        (c.subid == device.subid) if device.subid is not None else (c.subscriber_server == BEHIND_GATEWAY + device.name)
    )
    row = hub.connection.execute(select(c.subscriber_server, c.last_sync_date).where(is_own)).first()
    return None if row is None else _Former(row.subscriber_server, row.last_sync_date is not None)
