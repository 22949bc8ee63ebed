"""Synchronisations of devices at their hub: authorisation, moves between partitions, conflicts, and the remaining
batches of downloads.

Between two requests only the rest of a download is in memory. Any gateway can produce it again: it begins after the
last generation that the device confirmed. Parts of an upload are in files (`gateway.device_files`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from sqlalchemy import ColumnElement, cast, select

from rowtide.gateway.errors import MessageMalformed
from rowtide.gateway.requests import DeviceConflict, DeviceConflicts, MoreRequest
from rowtide.gateway.wire.envelopes import SPOKEN_TEXT, Envelope
from rowtide.merge.articles import Partition
from rowtide.merge.catalogue import get_publication, list_articles
from rowtide.merge.definitions import conflicts_info, partition_mappings, subscriptions
from rowtide.merge.devices.credentials import BEHIND_GATEWAY
from rowtide.merge.devices.registered import KnownDevice, bind_subscription, require_publication
from rowtide.merge.errors.devices import DeviceFileDiffers
from rowtide.merge.errors.subscribing import DownloadLost, MergeSubscriptionUnknown, UploadMalformed
from rowtide.merge.inspection.device_validation import ValidateAnswer, ValidateRequest, serve_validation
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.filters import bind_articles
from rowtide.merge.publishing.device_requests import serve_comparison, serve_device, serve_schema
from rowtide.merge.publishing.rows_at_hub import RowsRequest
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncRequest, size_of
from rowtide.merge.session.pairing import Pairing, require_met
from rowtide.merge.session.pending_changes import PendingAtHub, serve_pending
from rowtide.merge.session.served_requests import KeptParts, SessionAnswer, UploadedBatches, acknowledge, meet

ROWS_EACH = 20_000
"""The number of rows with which an answer is full; the device requests the rest."""
SIZE_EACH = 8 * 1024 * 1024
"""The characters of values with which an answer is full: a device has an answer in memory at once."""
_KEPT_S = 600.0
_MOST_KEPT = 500
"""Rests hold batches in memory; a device whose rest was discarded starts its download over."""


@dataclass(slots=True)
class _Rest:
    """The rest of a download; `batches` continues after the last answer."""

    served: SessionAnswer
    session: int
    generation: int
    until_s: float
    batches: Iterator[RowBatch]
    number: int
    lock: Lock = field(default_factory=Lock)

    def take(self, first: int) -> Sequence[RowBatch]:
        """Return batches from the given one on; a repeated request gets the same batches."""
        with self.lock:
            if first != self.number:
                self.batches, self.number = self.served.batches(first), first
            found = _fill(self.batches)
            self.number += len(found)
            return found


@dataclass(slots=True)
class Downloads:
    """The rest of each device's last download; lost with the process, or after some minutes."""

    _rests: dict[tuple[str, str], _Rest] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def keep(self, hub: str, device_id: str, rest: _Rest) -> None:
        """Store the rest of a download, replacing that of an earlier session."""
        now_s = time.monotonic()
        with self._lock:
            gone = [key for key, one in self._rests.items() if one.until_s < now_s or key == (hub, device_id)]
            if len(self._rests) - len(gone) >= _MOST_KEPT:
                gone.append(next(key for key in self._rests if key not in gone))
            closed = [self._rests.pop(key) for key in gone]
            self._rests[hub, device_id] = rest
        for one in closed:
            with one.lock:
                one.served.close()

    def find(self, hub: str, device_id: str) -> _Rest | None:
        """Return the rest of a device's download."""
        with self._lock:
            return self._rests.get((hub, device_id))

    def close(self) -> None:
        """Discard all, when the gateway ends."""
        with self._lock:
            rests = [*self._rests.values()]
            self._rests.clear()
        for one in rests:
            with one.lock:
                one.served.close()

    def forget(self, hub: str, device_id: str) -> None:
        """Discard a rest that the device has confirmed."""
        with self._lock:
            rest = self._rests.pop((hub, device_id), None)
        if rest is not None:
            with rest.lock:
                rest.served.close()


def answer_sync(
    hub: Node,
    hub_name: str,
    device: KnownDevice,
    given: Envelope,
    downloads: Downloads,
    kept: KeptParts,
) -> Envelope:
    """Apply an upload, and return its outcome with the first batches of the download.

    Raises what `serve_device` raises; `TokenOfAnother`, `DeviceFileDiffers`.
    """
    request: SyncRequest = given.message
    require_publication(device, request.state.publication)
    uploaded = UploadedBatches(given.batches, kept=kept)
    served = serve_device(hub, request, uploaded, partial(_admit, hub, device, request.state))
    served.purge_if_due()
    answer = served.answer
    if answer.download is None or answer.terms is None:
        served.close()
        return Envelope(answer)
    batches = served.batches()
    first = _fill(batches)
    is_last = len(first) >= answer.download.batches
    if is_last:
        served.close()
    else:
        until_s = time.monotonic() + _KEPT_S
        session, generation = answer.terms.session, answer.download.generation
        rest = _Rest(served, session, generation, until_s, batches, len(first))
        downloads.keep(hub_name, device.device_id, rest)
    return Envelope(answer, first, is_last=is_last)


def _fill(batches: Iterator[RowBatch]) -> Sequence[RowBatch]:
    """Return the next batches, until an answer is full."""
    found: list[RowBatch] = []
    rows = size = 0
    while rows < ROWS_EACH and size < SIZE_EACH and (batch := next(batches, None)) is not None:
        found.append(batch)
        rows += len(batch.changes)
        size += size_of(batch)
    return found


def answer_more(hub_name: str, device: KnownDevice, request: MoreRequest, downloads: Downloads) -> Sequence[RowBatch]:
    """Return further batches of a download. Raises `DownloadLost`, `MessageMalformed`."""
    if request.first < 0:
        raise MessageMalformed("message.first", "it is negative", SPOKEN_TEXT)
    rest = downloads.find(hub_name, device.device_id)
    if rest is None or (rest.session, rest.generation) != (request.session, request.generation):
        raise DownloadLost(device.name, request.generation)
    return rest.take(request.first)


def answer_acknowledgement(
    hub: Node, hub_name: str, device: KnownDevice, said: Acknowledgement, downloads: Downloads
) -> None:
    """Record a device's confirmation of a download. Raises `MergeSubscriptionUnknown`, `GenerationRefused`."""
    if device.subid is None:
        raise MergeSubscriptionUnknown(device.name, device.publication)
    acknowledge(hub, device.publication, device.subid, said)
    downloads.forget(hub_name, device.device_id)


def answer_schema(hub: Node, device: KnownDevice, state: DeviceState) -> SchemaStep:
    """Return the definitions that a device needs to follow the hub's schema. Raises what `serve_schema` raises, and
    `answer_sync`.
    """
    require_publication(device, state.publication)
    return serve_schema(hub, state, partial(_admit, hub, device, state))


def answer_validation(hub: Node, device: KnownDevice, request: ValidateRequest) -> ValidateAnswer:
    """Return the counts and checksums with which a device compares its rows. Raises what `serve_validation` raises, and
    `answer_sync`.
    """
    return serve_validation(hub, _meet(hub, device, request.state), request)


def answer_comparison(hub: Node, device: KnownDevice, request: RowsRequest) -> Envelope:
    """Return what the hub has of a device's rows. Raises what `serve_comparison` raises, and `answer_sync`."""
    require_publication(device, request.state.publication)
    return Envelope(*serve_comparison(hub, request, partial(_admit, hub, device, request.state)))


def answer_pending(hub: Node, device: KnownDevice, state: DeviceState) -> PendingAtHub:
    """Return the number of changes that the hub has for a device. Raises what `serve_pending` raises, and
    `answer_sync`.
    """
    return serve_pending(hub, _meet(hub, device, state), state)


def require_own_state(hub: Node, device: KnownDevice, state: DeviceState) -> None:
    """Raise unless a state is that of the device's file at its last synchronisation; see `require_met`, `_meet`."""
    require_met(state, _meet(hub, device, state))


def _meet(hub: Node, device: KnownDevice, state: DeviceState) -> Pairing:
    """Return both ends' records of a device's subscription; the device sends its definitions."""
    require_publication(device, state.publication)
    found = meet(hub, state)
    if not isinstance(found, Pairing):
        raise UploadMalformed(device.name, "it does not say its definitions")
    _admit(hub, device, state, found)
    return found


def _admit(hub: Node, device: KnownDevice, state: DeviceState, pairing: Pairing) -> None:
    """Assign a file's subscription to the device, if its partition is that of the device's token.

    From then on the subscription determines the partition. Knowing a subscription's ID is not enough: the device proves
    the state of its last synchronisation. Raises `DeviceFileDiffers`, `NodeRestored`, `GenerationRefused`.
    """
    at_hub = pairing.at_hub
    if device.subid == at_hub.subid:
        return
    if device.subid is not None or (at_hub.partition or Partition()) != device.partition:
        raise DeviceFileDiffers(device.name)
    require_met(state, pairing)
    bind_subscription(hub, device, at_hub.subid)


def list_own_conflicts(hub: Node, device: KnownDevice) -> DeviceConflicts:
    """Return the conflicts in which a device's change lost, as the hub keeps them, oldest first; of earlier files, too.

    The winning row is included only while the device has the row: of others it must not read anything.
    """
    c, pubid = conflicts_info.c, get_publication(hub.connection, device.publication).pubid
    of_device = subscriptions.c.subid == (device.subid or "")
    nickname = select(subscriptions.c.replnickname).where(of_device).scalar_subquery()
    # A file that was filled again, or replaced, has another nickname than the one that lost.
    is_own = (c.origin_datasource_id == nickname) | (c.origin_datasource == f"{BEHIND_GATEWAY}{device.name}")
    own = (c.pubid == pubid) & is_own
    is_there = _presence(hub, pubid, nickname).label("is_there")
    rows = hub.connection.execute(
        select(conflicts_info, is_there).where(own).order_by(c.MSrepl_create_time, c.conflict_id)
    )
    return DeviceConflicts(
        tuple(
            DeviceConflict(
                conflict_id=row.conflict_id,
                article=row.article,
                rowguid=row.rowguid,
                conflict_type=row.conflict_type,
                reason_code=row.reason_code,
                reason_text=row.reason_text,
                losing_row=row.losing_row,
                winning_row=row.winning_row if row.is_there else None,
                is_resolved=row.resolved_time is not None,
            )
            for row in rows
        )
    )


def _presence(hub: Node, pubid: str, nickname: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that a conflict's row is in the subscriber's partition, if the article is filtered."""
    filtered = bind_articles(list_articles(hub.connection, pubid), None)
    members = partition_mappings.c
    is_member = (
        (members.replnickname == nickname)
        & (members.tablenick == conflicts_info.c.tablenick)
        & (members.rowguid == cast(conflicts_info.c.rowguid, members.rowguid.type))
        & (members.generation >= 0)
        & ~members.is_leaving
    )
    has_row = select(members.rowguid).where(is_member).exists()
    return conflicts_info.c.tablenick.not_in([*filtered]) | has_row
