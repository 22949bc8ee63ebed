"""One synchronisation of a subscriber with its hub: upload, then download (SQL Server: the Merge Agent).

Both halves of it are in this process. Each end stores how far it has sent and received. If the two differ, something
was lost in transit, and the exchange continues from the lower one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

from rowtide.core.garbage_collection import collecting_rarely
from rowtide.core.values import frozen
from rowtide.merge.articles import ExchangeType, Progress
from rowtide.merge.errors.subscribing import UploadNotComparable
from rowtide.merge.exchange_state import read_purge
from rowtide.merge.nodes.node import Node
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.history import History, Phase, Summary, recorded
from rowtide.merge.session.hub.uploading import UploadReceipt
from rowtide.merge.session.hub_half import HubHalf
from rowtide.merge.session.messages import RowsByArticle, SessionTerms, TopsQuestion, UploadHeader, UploadResult
from rowtide.merge.session.pairing import (
    Pairing,
    require_hub_ready,
    require_met,
    require_original,
    unsent_columns,
)
from rowtide.merge.session.purge import is_due, purge
from rowtide.merge.session.spool import Spool
from rowtide.merge.session.spool_transfer import OnTransferred


def synchronise(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
    *,
    repeat_from: int | None = None,
) -> Summary:
    """Exchange all changes between two nodes, or those of one direction.

    With `repeat_from`, all that the hub has changed after one of its generations is downloaded and written again.

    Raises `NodeCopied`, `NodeRestored`, `SubscriptionExpired`, `SchemaAhead`, `DefinitionsDiffer`,
    `MergedTableAltered`, `StoredFilterRefused`, `SessionReplaced`, `NodeBusy`.
    """
    at_hub, device = _part(hub, subscriber, pairing)
    state = device.describe()
    unsent_there = require_hub_ready(hub, pairing, state)
    unsent = unsent_columns(pairing, unsent_there, device.require_ready())
    began, clock = datetime.now(UTC), time.monotonic()
    since = at_hub.since if repeat_from is None else min(at_hub.since, repeat_from)
    terms = at_hub.begin(state, since)
    device.begin(terms)
    summary = Summary(pairing.at_hub.subscriber, unsent=unsent)
    history_of = recorded(hub, pairing.at_hub.subid, summary, began, clock)
    with history_of as history, collecting_rarely():
        uploaded: UploadResult | None = None
        if exchange.uploads:
            uploaded = _upload(at_hub, device, summary.upload, on_progress)
        device.take_ranges(at_hub.renew_ranges(device.number()))
        if exchange.downloads:
            session = _Session(at_hub, device, terms, since, exchange, repeats=repeat_from is not None)
            _download(session, uploaded, summary.download, _counting(on_progress, "download"), history)
        else:
            at_hub.conclude_upload(history.put)
    at_hub.purge_if_due()
    if is_due(read_purge(subscriber.connection)):
        purge(subscriber)
    return summary


def upload(
    hub: Node, subscriber: Node, pairing: Pairing, on_progress: Progress = lambda _phase, _done, _all: None
) -> Summary:
    """Upload the subscriber's changes before its tables are copied again, even if the subscription has expired.

    Raises `NodeCopied`, `NodeRestored`, `SessionReplaced`, `NodeBusy`; `UploadNotComparable` if the hub has purged the
    metadata needed to compare them.
    """
    at_hub, device = _part(hub, subscriber, pairing)
    require_original(hub)
    state = device.describe(examines=False)
    require_met(state, pairing)
    subscriber_name = pairing.at_hub.subscriber
    if pairing.at_hub.settled < read_purge(hub.connection).generation:
        raise UploadNotComparable(subscriber_name, "the publisher has purged metadata that it had not got")
    began, clock = datetime.now(UTC), time.monotonic()
    device.begin(at_hub.begin(state, at_hub.since))
    summary = Summary(subscriber_name)
    history_of = recorded(hub, pairing.at_hub.subid, summary, began, clock)
    with history_of as history, collecting_rarely():
        _upload(at_hub, device, summary.upload, on_progress)
        with hub.transaction():
            history.put()
    return summary


def _part(hub: Node, subscriber: Node, pairing: Pairing) -> tuple[HubHalf, DeviceHalf]:
    """Return the two halves, each with its node."""
    device = DeviceHalf(
        subscriber,
        pairing.publication.name,
        pairing.at_subscriber,
        pairing.known,
        pairing.hub,
        definitions=(*pairing.articles, *pairing.leaving),
    )
    return HubHalf(hub, pairing), device


def _upload(at_hub: HubHalf, device: DeviceHalf, phase: Phase, on_progress: Progress) -> UploadResult:
    """Upload the subscriber's changes; they are read on while the hub is waited for."""
    receipt = at_hub.receive(phase)

    @contextmanager
    def reading(since: int, wanted: RowsByArticle, number: int) -> Iterator[tuple[UploadHeader, Spool]]:
        with device.read(since, wanted, number) as (header, spool), at_hub.node.working(spool.read_ahead):
            yield header, spool

    result = upload_all(receipt, reading, device.answer, _counting(on_progress, "upload"))
    receipt.conclude(result.generation)
    device.conclude_upload(result)
    return result


Reading = Callable[[int, RowsByArticle, int], AbstractContextManager[tuple[UploadHeader, Spool]]]
"""What reads a device's changes after a generation, or in a later round rows that the hub wants; see `DeviceHalf`."""
Answering = Callable[[Sequence[TopsQuestion]], Mapping[int, Mapping[str, str]]]
"""What answers the hub's questions; see `DeviceHalf`."""


def upload_all(receipt: UploadReceipt, reading: Reading, answer: Answering, tell: OnTransferred) -> UploadResult:
    """Pass what a device has to the hub, in as many rounds as it takes."""
    number = 0
    with reading(receipt.since, receipt.again, number) as (header, spool):
        result = receipt.receive(header, spool, tell)
        if result.questions:
            result = receipt.receive(replace(header, tops=answer(result.questions)), spool, tell)
    while result.wanted:
        number += 1
        with reading(header.generation, result.wanted, number) as (header, spool):
            result = receipt.receive(header, spool, tell)
    return result


@frozen
class _Session:
    """A session that both halves have begun; the hub sends what it has changed after generation `since`."""

    at_hub: HubHalf
    device: DeviceHalf
    terms: SessionTerms
    since: int
    exchange: ExchangeType
    repeats: bool


def _download(
    session: _Session, uploaded: UploadResult | None, phase: Phase, tell: OnTransferred, history: History
) -> None:
    """Download the hub's changes, and leave the session's mark at both ends."""
    at_hub, device, terms = session.at_hub, session.device, session.terms
    with at_hub.send(session.since, uploaded, repeats=session.repeats) as (header, spool):
        sent = uploaded or UploadResult(device.subscription.sent, has_refused=bool(at_hub.again))
        device.receive(terms, header, spool, sent.generation, phase, tell)
    if device.is_overtaken:
        device.take_ranges(at_hub.renew_ranges(device.number()))
    at_hub.acknowledge(device.confirm(terms, header, sent, phase, session.exchange), history.put)


def _counting(on_progress: Progress, phase: str) -> OnTransferred:
    return lambda done, all_: on_progress(phase, done, all_)
