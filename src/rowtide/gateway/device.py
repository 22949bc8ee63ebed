"""A device that synchronises over HTTP: its half of a synchronisation, with a gateway as the other one."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rowtide.core.garbage import collecting_rarely
from rowtide.gateway.client import GatewayClient
from rowtide.gateway.requests import Acknowledged, More, MoreRequest
from rowtide.gateway.wire.envelopes import Envelope
from rowtide.merge.articles import ExchangeType, Progress
from rowtide.merge.catalogue import get_publication, list_articles
from rowtide.merge.errors.subscribing import MergeSubscriptionUnknown
from rowtide.merge.nodes.node import Node
from rowtide.merge.progress import list_subscriptions, read_purge
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.history import Summary, is_due, purge
from rowtide.merge.session.messages import (
    DownloadHeader,
    RowBatch,
    SyncAnswer,
    SyncRequest,
    UploadResult,
)
from rowtide.merge.session.spooling import Spool

_MOST_ROUNDS = 10
"""A hub that asks for rows again this often does not say what it wants."""


def synchronise_by_gateway(
    node: Node,
    publication: str,
    client: GatewayClient,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
) -> Summary:
    """Exchange all changes of a device with its hub, or those of one direction.

    Raises what a direct synchronisation raises, and what `GatewayClient.ask` does.
    """
    summary, began = Summary(publication), time.monotonic()
    with collecting_rarely():
        half, answer, batches = _upload(node, publication, client, exchange, summary, on_progress)
        if answer.download is not None:
            _download(half, answer, answer.download, batches, client, exchange, summary, on_progress)
            if half.is_overtaken:
                # Its programs would get no numbers: with those that it says now, the hub gives new ones.
                again, numbered, _ = _upload(node, publication, client, ExchangeType.UPLOAD, summary, on_progress)
                again.take_ranges(numbered.ranges)
    if is_due(read_purge(node.connection)):
        purge(node)
    summary.seconds = time.monotonic() - began
    return summary


def open_half(node: Node, publication: str) -> DeviceHalf:
    """Return the device's half, as the device's database says. Raises `MergeSubscriptionUnknown`."""
    found = get_publication(node.connection, publication)
    own = list_subscriptions(node.connection, found.pubid)
    if not own:
        raise MergeSubscriptionUnknown("this device", publication)
    return DeviceHalf(node, publication, own[0], list_articles(node.connection, found.pubid), own[0].nickname)


def _upload(
    node: Node,
    publication: str,
    client: GatewayClient,
    exchange: ExchangeType,
    summary: Summary,
    on_progress: Progress,
) -> tuple[DeviceHalf, SyncAnswer, Sequence[RowBatch]]:
    """Send what the device has, in as many requests as the hub needs; return the last answer, with its batches."""
    since: int | None = None
    wanted: Mapping[int, Sequence[str]] = {}
    tops: Mapping[int, Mapping[str, str]] | None = None
    for _ in range(_MOST_ROUNDS):
        half = open_half(node, publication)
        state = half.describe()
        half.require_ready()
        since = half.subscription.sent if since is None else since
        request = SyncRequest(state, exchange, numberings=half.number())
        upload: list[RowBatch] = []
        if exchange.uploads:
            with half.read(since, wanted) as (header, spool):
                upload = [RowBatch(nickname, changes) for nickname, changes in spool.batches()]
                request = replace(request, upload=replace(header, tops=tops))
        sent = client.ask("sync", Envelope(request, upload), SyncAnswer)
        answer: SyncAnswer = sent.message
        if answer.terms is None:
            raise MergeSubscriptionUnknown("this device", publication)
        half.begin(answer.terms)
        result = answer.result
        if not exchange.uploads or (result is not None and result.is_complete):
            rows = sum(len(batch.changes) for batch in upload)
            on_progress("upload", rows, rows)
            if result is not None:
                half.conclude_upload(result)
                summary.upload.articles.update(result.counts)
            half.take_ranges(answer.ranges)
            return half, answer, _rest(half, answer, sent, client)
        since = answer.terms.since
        wanted = _joined(answer.terms.wanted, {} if result is None else result.wanted)
        tops = tops if result is None or not result.questions else half.answer(result.questions)
    raise AssertionError("the hub asks again and again")


def _rest(half: DeviceHalf, answer: SyncAnswer, sent: Envelope, client: GatewayClient) -> Sequence[RowBatch]:
    """Return all batches of a download."""
    batches, is_last = list(sent.batches), sent.is_last
    while not is_last:
        assert answer.terms is not None
        assert answer.download is not None
        wanted = MoreRequest(half.subscription.subid, answer.terms.session, answer.download.generation, len(batches))
        more = client.ask("more", Envelope(wanted), More)
        batches += more.batches
        is_last = more.is_last
    return batches


def _download(
    half: DeviceHalf,
    answer: SyncAnswer,
    header: DownloadHeader,
    batches: Sequence[RowBatch],
    client: GatewayClient,
    exchange: ExchangeType,
    summary: Summary,
    on_progress: Progress,
) -> None:
    """Write what has come, and tell the hub."""
    terms = answer.terms
    assert terms is not None
    uploaded = answer.result or UploadResult(half.subscription.sent, has_refused=any(terms.wanted.values()))
    known = {article.nickname: article for article in half.known}
    with Spool((known[batch.article], batch.changes) for batch in batches) as spool:
        spool.complete()
        half.receive(
            terms,
            header,
            spool,
            uploaded.generation,
            summary.download,
            lambda done, all_: on_progress("download", done, all_),
        )
    said = half.confirm(terms, header, uploaded, summary.download, exchange)
    client.ask("acknowledge", Envelope(said), Acknowledged)


def _joined(one: Mapping[int, Sequence[str]], other: Mapping[int, Sequence[str]]) -> dict[int, list[str]]:
    return {nickname: [*one.get(nickname, ()), *other.get(nickname, ())] for nickname in {*one, *other}}
