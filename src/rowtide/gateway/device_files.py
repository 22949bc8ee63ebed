"""Files of devices at the gateway: each device's first file, and parts of uploads until the last one arrives.

A device that has nothing needs all rows of its partition, tables, triggers and metadata. As a SQLite file they are one
download, which can be resumed, and which the device only has to store. A file belongs to its request: a repeated
request gets the same file from any gateway that shares the folder.

Parts of an upload of logical records are kept here until all have come. A part is named by a digest of itself and of
those before it: a gateway that does not have these says so, and a repeated part takes the place of what followed them.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import json
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import select

from rowtide.core.errors import FileNotWritable
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.gateway.errors import DeviceHasFile, FileBeingMade, GatewayAddressUnknown
from rowtide.gateway.requests import DeviceFile, FileRequest
from rowtide.gateway.wire.row_batches import decode_batch, encode_batch
from rowtide.merge.catalogue import renew_nickname
from rowtide.merge.definitions import subscriptions
from rowtide.merge.devices.credentials import BEHIND_GATEWAY
from rowtide.merge.devices.registered import KnownDevice, replace_subscription
from rowtide.merge.errors.rows import LogicalRecordsTooLarge
from rowtide.merge.errors.subscribing import UploadLost
from rowtide.merge.nodes.connecting import open_subscriber
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.requests import NewMergeSubscription
from rowtide.merge.publishing.subscriptions import add_subscription, drop_subscription
from rowtide.merge.session.messages import DeviceState, RowBatch

KEPT_S = 7 * 86_400.0
_NAME = re.compile(r"[0-9A-Z]{10}-[0-9a-f]{24}\.db\.gz")
_AFTER_S = 5.0
"""Retry-After while a file is made, which takes seconds to minutes."""


@dataclass(slots=True)
class DeviceFiles:
    """The files of devices, in a folder that all gateways of a hub may share."""

    folder: Path

    def make(
        self,
        hub: Node,
        device: KnownDevice,
        wanted: FileRequest,
        key: str,
        require_met: Callable[[DeviceState], None] = lambda _state: None,
    ) -> DeviceFile:
        """Return the file for a request, made now if the request is new.

        `require_met` raises an error unless the state that a device gives is that of its last synchronisation. Raises
        `DeviceHasFile`, `FileBeingMade`, `FileNotWritable`, and what `require_met` and `add_subscription` raise.
        """
        self._forget_old()
        name = f"{device.device_id}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.db.gz"
        with self._alone(device.device_id):
            if (found := self._read(name)) is not None:
                return found
            former = _find_former(hub, device)
            if former is not None and former.was_used and not wanted.replaces:
                raise DeviceHasFile(device.name)
            number = None if wanted.state is None else self._keep_number(name, wanted.state, require_met)
            if former is not None:
                drop_subscription(hub, None, device.publication, former.subscriber)
            try:
                return self._make(hub, device, name, number)
            except OSError as error:
                raise FileNotWritable(str(self.folder), error.strerror or str(error)) from error

    def _keep_number(self, name: str, state: DeviceState, require_met: Callable[[DeviceState], None]) -> int:
        """Return the nickname that a device's node keeps.

        It is stored before the subscription that has it is dropped, for repeated requests.
        """
        noted = self.folder / f"{name}.number"
        if not noted.exists():
            require_met(state)
            written = noted.with_name(f"{noted.name}.part")
            written.write_text(str(state.nickname))
            os.replace(written, noted)
        return int(noted.read_text())

    def find(self, device_id: str, name: str) -> Path:
        """Return the path of a device's own file. Raises `GatewayAddressUnknown`."""
        path = self.folder / name
        is_own = _NAME.fullmatch(name) is not None and name.startswith(f"{device_id}-")
        if not is_own or path.is_symlink() or not path.is_file():
            raise GatewayAddressUnknown(f"files/{name[:80]}")
        return path

    def discard(self, device_id: str) -> None:
        """Remove the files of a device that has moved to another partition."""
        for path in self.folder.glob(f"{device_id}-*.db.gz*"):
            path.unlink(missing_ok=True)

    def keep_parts(self, hub_name: str, device: KnownDevice) -> KeptUpload:
        """Return the store for parts of a device's upload."""
        of_hub = hashlib.sha256(hub_name.encode()).hexdigest()[:8]
        return KeptUpload(self.folder / f"{device.device_id}-{of_hub}.parts", device.name, device.publication)

    def _make(self, hub: Node, device: KnownDevice, name: str, number: int | None) -> DeviceFile:
        plain = self.folder / name.removesuffix(".gz")
        # Left by a gateway that ended while it made a file for this device; the lock shows that no other one is making
        # it.
        for end in (".db", ".db-wal", ".db-shm", ".db-journal", ".db.gz.part"):
            for left in self.folder.glob(f"{device.device_id}-*{end}"):
                left.unlink(missing_ok=True)
        with open_subscriber(f"sqlite:///{plain.absolute()}") as node:
            if number is not None:
                node.tables.prepare()
                with node.transaction():
                    renew_nickname(node.connection, number)
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
        # Renamed last: a file with its final name is complete, and its subscription is the device's.
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
        for path in chain(self.folder.glob("*.db*"), self.folder.glob("*.parts")):
            with suppress(FileNotFoundError):  # another gateway has removed it meanwhile
                if path.lstat().st_mtime < before:
                    path.unlink()

    @contextmanager
    def _alone(self, device_id: str) -> Iterator[None]:
        """Exclude other requests that make this device's file, here or at another gateway.

        Raises `FileBeingMade`. A request whose connection was lost continues while the device retries.
        """
        path = self.folder / f"{device_id}.lock"
        with open(path, "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FileBeingMade(_AFTER_S) from error
            # A lock on a file that was removed meanwhile does not exclude processes that create the next one.
            if not path.exists() or not os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                raise FileBeingMade(_AFTER_S)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)


_LENGTHS = struct.Struct(">QQ")
_NAME_BYTES = 16
MOST_KEPT_BYTES = 1 << 29
"""Of the parts of an upload, unpacked: the request that comes last has all of them in memory."""


@dataclass(slots=True)
class KeptUpload:
    """See `KeptParts`. The file has of each part its name, its lengths, and its batches as JSON, compressed."""

    path: Path
    device: str
    publication: str

    def add(self, before: str, batches: Sequence[RowBatch]) -> str:
        unpacked = json.dumps([encode_batch(one) for one in batches]).encode()
        packed = gzip.compress(unpacked, 6, mtime=0)
        name = hashlib.sha256(before.encode() + packed).digest()[:_NAME_BYTES]
        try:
            with self._opened() as file:
                end, size = self._find_end(file, before)
                if size + len(unpacked) > MOST_KEPT_BYTES:
                    raise LogicalRecordsTooLarge(self.device, self.publication, f"{MOST_KEPT_BYTES:,} bytes")
                file.truncate(end)
                file.seek(end)
                file.write(name + _LENGTHS.pack(len(packed), len(unpacked)) + packed)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileNotWritable(str(self.path), error.strerror or str(error)) from error
        return name.hex()

    def take(self, name: str) -> Sequence[RowBatch]:
        if not name:
            self.path.unlink(missing_ok=True)
            return ()
        with self._opened() as file:
            end, _ = self._find_end(file, name)
            found: list[RowBatch] = []
            file.seek(0)
            while file.tell() < end:
                length = self._read_head(file)[1]
                listed = json.loads(gzip.decompress(file.read(length)))
                found += [decode_batch(one, f"batches[{at}]") for at, one in enumerate(listed)]
            return found

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        """Open the file exclusively: a device may have two requests in progress, at two gateways."""
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _find_end(self, file: BinaryIO, name: str) -> tuple[int, int]:
        """Return the offset after a part, given by name, and how large the parts up to there are unpacked.

        Without a name, both are 0. Raises `UploadLost`.
        """
        end = size = 0
        while name:
            own, length, unpacked = self._read_head(file)
            end, size = file.tell() + length, size + unpacked
            if own.hex() == name:
                break
            file.seek(end)
        return end, size

    def _read_head(self, file: BinaryIO) -> tuple[bytes, int, int]:
        head = file.read(_NAME_BYTES + _LENGTHS.size)
        if len(head) < _NAME_BYTES + _LENGTHS.size:
            raise UploadLost(self.device)
        length, unpacked = _LENGTHS.unpack(head[_NAME_BYTES:])
        return head[:_NAME_BYTES], length, unpacked


@frozen
class _Former:
    """The subscription that a device has; `was_used`: its file has synchronised, and may have changes."""

    subscriber: str
    was_used: bool


def _find_former(hub: Node, device: KnownDevice) -> _Former | None:
    """Return the device's subscription, or an incomplete one that a gateway began for it."""
    c = subscriptions.c
    is_own = (
        (c.subid == device.subid) if device.subid is not None else (c.subscriber_server == BEHIND_GATEWAY + device.name)
    )
    row = hub.connection.execute(select(c.subscriber_server, c.last_sync_date).where(is_own)).first()
    return None if row is None else _Former(row.subscriber_server, row.last_sync_date is not None)
