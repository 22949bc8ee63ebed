"""Synchronisations of devices at their hub: who may ask for which, and the rest of downloads.

Nothing is kept between two requests but the rest of a download, which any gateway can make again: it begins after the
last generation that the device has confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from rowtide.gateway.requests import MoreRequest
from rowtide.gateway.wire.envelopes import Envelope
from rowtide.merge.articles import DEFAULT_LIMITS, DeviceLimits, Partition
from rowtide.merge.devices.registered import KnownDevice, bind_subscription, require_publication
from rowtide.merge.errors.devices import DeviceFileDiffers
from rowtide.merge.errors.subscribing import DownloadLost, MergeSubscriptionUnknown, UploadMalformed
from rowtide.merge.inspection.validating import ValidateAnswer, ValidateRequest, serve_validation
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.device_requests import serve_device, serve_schema
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncRequest
from rowtide.merge.session.pairing import Pairing, require_met
from rowtide.merge.session.pending import PendingAtHub, serve_pending
from rowtide.merge.session.serving import SessionAnswer, acknowledge, meet

ROWS_EACH = 20_000
"""Rows of a download with which an answer is full; the rest is asked for."""
_KEPT_S = 600.0
_MOST_KEPT = 500


@dataclass(slots=True)
class _Rest:
    """What is left of a download; `batches` goes on where the last answer ended."""

    served: SessionAnswer
    session: int
    generation: int
    until_s: float
    batches: Iterator[RowBatch]
    number: int
    lock: Lock = field(default_factory=Lock)

    def take(self, first: int) -> Sequence[RowBatch]:
        """Return batches from one on; a repeated request gets the same ones."""
        with self.lock:
            if first != self.number:
                self.batches, self.number = self.served.batches(first), first
            found = _fill(self.batches)
            self.number += len(found)
            return found


@dataclass(slots=True)
class Downloads:
    """The rests of downloads, of each device the last; they are lost with the process, or after some minutes."""

    _rests: dict[tuple[str, str], _Rest] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def keep(self, hub: str, device_id: str, rest: _Rest) -> None:
        """Keep what is left, in place of what an earlier session has left."""
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
        """Return what is left of a device's download."""
        with self._lock:
            return self._rests.get((hub, device_id))

    def close(self) -> None:
        """Remove all: the gateway ends."""
        with self._lock:
            rests = [*self._rests.values()]
            self._rests.clear()
        for one in rests:
            with one.lock:
                one.served.close()

    def forget(self, hub: str, device_id: str) -> None:
        """Remove what is left: the device has it."""
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
    limits: DeviceLimits = DEFAULT_LIMITS,
) -> Envelope:
    """Take an upload, and return what the hub makes of it, with the first batches of the download.

    Raises what `serve_device` raises; `TokenOfAnother`, `DeviceFileDiffers`.
    """
    request: SyncRequest = given.message
    require_publication(device, request.state.publication)
    served = serve_device(hub, request, given.batches, limits, partial(_admit, hub, device, request.state))
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
    rows = 0
    while rows < ROWS_EACH and (batch := next(batches, None)) is not None:
        found.append(batch)
        rows += len(batch.changes)
    return found


def answer_more(hub_name: str, device: KnownDevice, request: MoreRequest, downloads: Downloads) -> Sequence[RowBatch]:
    """Return further batches of a download. Raises `DownloadLost`."""
    rest = downloads.find(hub_name, device.device_id)
    if rest is None or (rest.session, rest.generation) != (request.session, request.generation):
        raise DownloadLost(device.name, request.generation)
    return rest.take(request.first)


def answer_acknowledgement(
    hub: Node, hub_name: str, device: KnownDevice, said: Acknowledgement, downloads: Downloads
) -> None:
    """Store what a device says of a download. Raises `MergeSubscriptionUnknown`, `GenerationRefused`."""
    if device.subid is None:
        raise MergeSubscriptionUnknown(device.name, device.publication)
    acknowledge(hub, device.publication, device.subid, said)
    downloads.forget(hub_name, device.device_id)


def answer_schema(hub: Node, device: KnownDevice, state: DeviceState) -> SchemaStep:
    """Return what a device needs to follow the hub's schema. Raises what `serve_schema` raises, and `answer_sync`."""
    require_publication(device, state.publication)
    return serve_schema(hub, state, partial(_admit, hub, device, state))


def answer_validation(hub: Node, device: KnownDevice, request: ValidateRequest) -> ValidateAnswer:
    """Return what a device compares its rows with. Raises what `serve_validation` raises, and `answer_sync`."""
    return serve_validation(hub, _meet(hub, device, request.state), request)


def answer_pending(hub: Node, device: KnownDevice, state: DeviceState) -> PendingAtHub:
    """Return what the hub has for a device. Raises what `serve_pending` raises, and `answer_sync`."""
    return serve_pending(hub, _meet(hub, device, state), state)


def _meet(hub: Node, device: KnownDevice, state: DeviceState) -> Pairing:
    """Return what both ends say of a device's subscription; the device gives its definitions."""
    require_publication(device, state.publication)
    found = meet(hub, state)
    if not isinstance(found, Pairing):
        raise UploadMalformed(device.name, "it does not say its definitions")
    _admit(hub, device, state, found)
    return found


def _admit(hub: Node, device: KnownDevice, state: DeviceState, pairing: Pairing) -> None:
    """Take a file's subscription for the device's, if it is of the partition of the device's token.

    From then on the subscription says what the partition is. A device that only knows a subscription's ID, and not the
    mark of its last synchronisation, does not get it. Raises `DeviceFileDiffers`, `NodeRestored`, `GenerationRefused`.
    """
    at_hub = pairing.at_hub
    if device.subid == at_hub.subid:
        return
    if device.subid is not None or (at_hub.partition or Partition()) != device.partition:
        raise DeviceFileDiffers(device.name)
    require_met(state, pairing)
    bind_subscription(hub, device, at_hub.subid)
