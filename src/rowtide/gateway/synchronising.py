"""Synchronisations of devices at their hub: who may ask for which, moves of partitions, conflicts, rests of downloads.

Nothing is kept between two requests but the rest of a download, which any gateway can make again: it begins after the
last generation that the device has confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from threading import Lock

from sqlalchemy import ColumnElement, cast, select

from rowtide.gateway.errors import DeviceMoved, MessageMalformed
from rowtide.gateway.jwt_identity import Claims, must_move
from rowtide.gateway.requests import DeviceConflict, DeviceConflicts, MoreRequest
from rowtide.gateway.wire.envelopes import SPOKEN_TEXT, Envelope
from rowtide.merge.articles import ExchangeType, Partition
from rowtide.merge.catalogue import get_publication, list_articles
from rowtide.merge.definitions import conflicts_info, partition_groups, partition_mappings, subscriptions
from rowtide.merge.devices.registered import KnownDevice, bind_subscription, note_claims, require_publication
from rowtide.merge.errors.devices import DeviceFileDiffers
from rowtide.merge.errors.subscribing import DownloadLost, MergeSubscriptionUnknown, UploadMalformed
from rowtide.merge.inspection.validating import ValidateAnswer, ValidateRequest, serve_validation
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.filters import bind_articles, require_values
from rowtide.merge.publishing.device_requests import serve_comparison, serve_device, serve_schema
from rowtide.merge.publishing.following import move
from rowtide.merge.publishing.rows_at_hub import RowsRequest
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, RowBatch, SyncRequest
from rowtide.merge.session.pairing import Pairing, read_hub, require_met
from rowtide.merge.session.pending import PendingAtHub, serve_pending
from rowtide.merge.session.serving import KeptParts, SessionAnswer, UploadedBatches, acknowledge, meet

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
    kept: KeptParts,
) -> Envelope:
    """Take an upload, and return what the hub makes of it, with the first batches of the download.

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
    rows = 0
    while rows < ROWS_EACH and (batch := next(batches, None)) is not None:
        found.append(batch)
        rows += len(batch.changes)
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


def answer_comparison(hub: Node, device: KnownDevice, request: RowsRequest) -> Envelope:
    """Return what the hub has of a device's rows. Raises what `serve_comparison` raises, and `answer_sync`."""
    require_publication(device, request.state.publication)
    return Envelope(*serve_comparison(hub, request, partial(_admit, hub, device, request.state)))


def answer_pending(hub: Node, device: KnownDevice, state: DeviceState) -> PendingAtHub:
    """Return what the hub has for a device. Raises what `serve_pending` raises, and `answer_sync`."""
    return serve_pending(hub, _meet(hub, device, state), state)


def require_own_state(hub: Node, device: KnownDevice, state: DeviceState) -> None:
    """Raise unless a state is that of the device's file at its last synchronisation; see `require_met`, `_meet`."""
    require_met(state, _meet(hub, device, state))


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


def list_own_conflicts(hub: Node, device: KnownDevice) -> DeviceConflicts:
    """Return the conflicts in which a device's change lost, as its hub keeps them, oldest first.

    The row that won is given while the device has it: of a row that it has no more, or never had, it reads nothing.
    """
    c, pubid = conflicts_info.c, get_publication(hub.connection, device.publication).pubid
    of_device = subscriptions.c.subid == (device.subid or "")
    nickname = select(subscriptions.c.replnickname).where(of_device).scalar_subquery()
    own = (c.pubid == pubid) & (c.origin_datasource_id == nickname)
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
    """Return the condition of conflicts whose rows a subscriber has: by the membership, if the article is filtered."""
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


# Partitions of devices whose users sign in by JSON Web Tokens: changed claims move a device. The device's own token
# uploads what was changed, by whomever, in the partition that was recorded then; what is downloaded follows the
# claims of the user who asks. So a tablet that is handed on neither stops nor loses anything.


def partition_of(hub: Node, subid: str) -> Partition | None:
    """Return the partition of a subscription; None if there is no such subscription."""
    functions = (partition_groups.c.HOST_NAME_FN, partition_groups.c.SUSER_NAME_FN)
    joined = subscriptions.outerjoin(partition_groups, partition_groups.c.partition_id == subscriptions.c.partition_id)
    row = hub.connection.execute(select(*functions).select_from(joined).where(subscriptions.c.subid == subid)).first()
    return None if row is None else Partition(*row)


def claimed(hub: Node, device: KnownDevice, claims: Claims) -> Claims:
    """Return claims with those values alone that filters use. Raises `PartitionValueMissing`, `PartitionValueUnfit`."""
    publication = get_publication(hub.connection, device.publication)
    articles = list_articles(hub.connection, publication.pubid)
    return replace(claims, partition=require_values(publication, articles, claims.partition))


def is_to_move(hub: Node, device: KnownDevice, claims: Claims) -> bool:
    """Return whether a device is to be moved before it downloads. Raises `ClaimsOlder`."""
    recorded = None if device.subid is None else partition_of(hub, device.subid)
    return recorded is not None and must_move(device, claims, recorded)


def without_download(request: SyncRequest) -> SyncRequest:
    """Return a request as one that uploads alone."""
    return replace(request, exchange=ExchangeType.UPLOAD)


def move_device(hub: Node, device: KnownDevice, claims: Claims) -> DeviceMoved:
    """Move a device that has uploaded; return what it is told, so that it asks again. Raises `SessionReplaced`."""
    assert device.subid is not None
    found = read_hub(hub, device.publication, [device.subid])
    move(hub, found.pair(found.subscriptions[0], found.subscriptions[0], ()), claims.partition)
    note_claims(hub, device, claims.issued)
    return DeviceMoved(device.name)


def as_claimed(hub: Node, device: KnownDevice, claims: Claims, issued: datetime) -> KnownDevice:
    """Return a device that begins in the partition of its user."""
    note_claims(hub, device, issued)
    return replace(device, partition=claims.partition)
