"""The hub's half of a synchronisation over HTTP: what requests bring, and what is answered.

Nothing is kept between two requests but the rest of a download, which any gateway can make again: rows are committed as
they come, and a download begins again at the generation that the device has confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Lock

from sqlalchemy import func, select

from rowtide.gateway.errors import DownloadGone, MessageMalformed
from rowtide.gateway.requests import Acknowledged, More, MoreRequest
from rowtide.gateway.wire.envelopes import SPOKEN_TEXT, Envelope
from rowtide.merge.articles import DEFAULT_LIMITS
from rowtide.merge.definitions import genhistory
from rowtide.merge.devices.registered import KnownDevice, bind_subscription, require_publication
from rowtide.merge.errors.devices import DeviceFileDiffers
from rowtide.merge.errors.nodes import GenerationRefused, SessionReplaced
from rowtide.merge.errors.subscribing import MergeSubscriptionUnknown
from rowtide.merge.nodes.node import Node
from rowtide.merge.session.history import Summary, recorded
from rowtide.merge.session.hub_half import HubHalf
from rowtide.merge.session.messages import (
    Acknowledgement,
    DeviceState,
    RowBatch,
    SyncAnswer,
    SyncRequest,
    UploadHeader,
    UploadResult,
)
from rowtide.merge.session.pairing import Pairing, read_hub, require_hub_ready
from rowtide.merge.session.spooling import Spool

BATCHES_EACH = 20
"""Batches of a download in an answer; the rest is asked for."""
_KEPT_S = 600.0
_MOST_KEPT = 200


@dataclass(slots=True)
class _Kept:
    """The rest of a download."""

    batches: Sequence[RowBatch]
    number: int
    until_s: float


@dataclass(slots=True)
class Downloads:
    """The rests of downloads that devices have begun, for some minutes; they are lost with the process."""

    _kept: dict[tuple[str, str, int, int], _Kept] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def keep(self, key: tuple[str, str, int, int], batches: Sequence[RowBatch], number: int, now_s: float) -> None:
        """Keep what is left; that of an earlier session goes."""
        with self._lock:
            self._forget(key, now_s)
            self._kept[key] = _Kept(batches, number, now_s + _KEPT_S)
            while len(self._kept) > _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))

    def take(self, key: tuple[str, str, int, int], number: int) -> tuple[Sequence[RowBatch], bool]:
        """Return batches from a number on, and whether they are the last. Raises `DownloadGone`."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or number < kept.number:
            raise DownloadGone(key[2])
        found = kept.batches[number - kept.number :][:BATCHES_EACH]
        return found, number - kept.number + len(found) >= len(kept.batches)

    def _forget(self, key: tuple[str, str, int, int], now_s: float) -> None:
        gone = [one for one, kept in self._kept.items() if one[:2] == key[:2] or kept.until_s < now_s]
        for one in gone:
            del self._kept[one]


def answer_sync(hub: Node, hub_name: str, device: KnownDevice, given: Envelope, downloads: Downloads) -> Envelope:
    """Take an upload, and return what the hub makes of it, with the first batches of the download.

    Raises what a direct synchronisation raises; `TokenOfAnother`, `DeviceFileDiffers`.
    """
    request: SyncRequest = given.message
    pairing = _pair(hub, device, request.state)
    if request.acknowledgement is not None and _is_awaited(pairing, request.acknowledgement):
        _acknowledge(hub, pairing, request.acknowledgement)
        pairing = _pair(hub, device, request.state)
    half = HubHalf(hub, pairing)
    require_hub_ready(hub, pairing, request.state)
    bind_subscription(hub, device, request.state.subid)
    began, clock = datetime.now(UTC), time.monotonic()
    since = half.since
    terms = half.begin(request.state, since)
    summary = Summary(pairing.at_hub.subscriber)
    with recorded(hub, pairing.at_hub.subid, summary, began, clock) as history:
        result: UploadResult | None = None
        if request.exchange.uploads:
            header = request.upload
            if header is None or header.since > terms.since or not _has_all(header, half.again):
                return Envelope(SyncAnswer(terms))
            receipt = half.receive(summary.upload)
            with _spool_of(half.pairing, given.batches) as spool:
                result = receipt.receive(header, spool, lambda _done, _all: None)
            if not result.is_complete:
                return Envelope(SyncAnswer(terms, result))
            receipt.conclude(result.generation)
        ranges = half.renew_ranges(request.numberings)
        if not request.exchange.downloads:
            half.conclude_upload(history.put)
            return Envelope(SyncAnswer(terms, result, ranges))
        with half.send(since, result) as (download, spool):
            batches = [RowBatch(nickname, changes) for nickname, changes in spool.batches()]
        with hub.transaction():
            history.put()
    half.purge_if_due()
    first, rest = batches[:BATCHES_EACH], batches[BATCHES_EACH:]
    if rest:
        key = (hub_name, request.state.subid, terms.session, download.generation)
        downloads.keep(key, rest, len(first), time.monotonic())
    return Envelope(SyncAnswer(terms, result, ranges, download), first, is_last=not rest)


def answer_more(hub_name: str, device: KnownDevice, request: MoreRequest, downloads: Downloads) -> Envelope:
    """Return further batches of a download. Raises `DownloadGone`."""
    if device.subid != request.subid:
        raise DownloadGone(request.session)
    key = (hub_name, request.subid, request.session, request.generation)
    found, is_last = downloads.take(key, request.number)
    return Envelope(More(request.number), found, is_last=is_last)


def answer_acknowledgement(hub: Node, device: KnownDevice, said: Acknowledgement) -> Envelope:
    """Store what a device says of a download; once more for a repeated request. Raises `SessionReplaced`."""
    if device.subid is None:
        raise MergeSubscriptionUnknown(device.name, device.publication)
    pairing = _read_pairing(hub, device, device.subid)
    if not _is_awaited(pairing, said):
        if said.mark == pairing.at_hub.state:
            return Envelope(Acknowledged())
        raise SessionReplaced(pairing.at_hub.subscriber)
    _acknowledge(hub, pairing, said)
    return Envelope(Acknowledged())


def _is_awaited(pairing: Pairing, said: Acknowledgement) -> bool:
    return said.mark == pairing.at_hub.next_state and said.session == pairing.at_hub.session


def _acknowledge(hub: Node, pairing: Pairing, said: Acknowledgement) -> None:
    of_hub = select(func.max(genhistory.c.generation)).where(genhistory.c.nickname == pairing.hub)
    last = hub.connection.execute(of_hub).scalar() or 0
    if not 0 <= said.received <= last:
        reason = f"it has generation {said.received}, and the publisher has begun {last}"
        raise GenerationRefused(pairing.at_hub.subscriber, reason)
    HubHalf(hub, pairing).acknowledge(said, lambda: None)


def _pair(hub: Node, device: KnownDevice, state: DeviceState) -> Pairing:
    """Return what a hub stores of a device, and what the device says of itself.

    Raises `TokenOfAnother`, `MergeSubscriptionUnknown`, `DeviceFileDiffers`.
    """
    require_publication(device, state.publication)
    if device.subid not in (None, state.subid):
        raise DeviceFileDiffers(device.name)
    pairing = _read_pairing(hub, device, state.subid)
    if pairing.at_hub.partition != (device.partition if pairing.filters else None):
        raise DeviceFileDiffers(device.name)
    at_hub = pairing.at_hub
    own = replace(
        at_hub,
        nickname=state.hub,
        sent=state.sent,
        received=state.received,
        state=state.state,
        next_state=None,
        session=state.session,
        settled=0,
        waiting=None,
        schema_version=state.schema_version,
        schema_guid=state.schema_guid,
    )
    return replace(pairing, at_subscriber=own, known=state.definitions or pairing.there)


def _read_pairing(hub: Node, device: KnownDevice, subid: str) -> Pairing:
    publication, known, published, nickname, schema, priority = read_hub(hub, device.publication, (subid,))
    if not known:
        raise MergeSubscriptionUnknown(device.name, device.publication)
    return Pairing(
        publication,
        tuple(article for article in published if not article.is_dropped),
        known[0],
        known[0],
        nickname,
        leaving=tuple(article for article in published if article.is_dropped),
        schema=schema,
        hub_priority=priority,
    )


def _has_all(header: UploadHeader, again: Mapping[int, Sequence[str]]) -> bool:
    """Whether an upload has the rows that the hub requests again."""
    return all(set(rowguids) <= set(header.requested.get(nickname, ())) for nickname, rowguids in again.items())


def _spool_of(pairing: Pairing, batches: Sequence[RowBatch]) -> Spool:
    """Return uploaded batches as what is transferred. Raises `MessageMalformed`."""
    known = {article.nickname: article for article in pairing.known}
    for place, batch in enumerate(batches):
        article = known.get(batch.article)
        if article is None:
            raise MessageMalformed(f"batches[{place}].article", "the device has no such article", SPOKEN_TEXT)
        width = len(article.columns)
        if any(change.row is not None and len(change.row) != width for change in batch.changes):
            raise MessageMalformed(f"batches[{place}].rows", f"a row has not {width} values", SPOKEN_TEXT)
    spool = Spool(((known[batch.article], batch.changes) for batch in batches), DEFAULT_LIMITS)
    spool.complete()
    return spool
