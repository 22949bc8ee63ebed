"""A synchronisation of a device that reaches its hub by requests, without the hub's database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from rowtide.core.garbage_collection import collecting_rarely
from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ExchangeType, Progress, Subscription
from rowtide.merge.catalogue import find_publication, list_articles
from rowtide.merge.errors.nodes import NodeRestored
from rowtide.merge.errors.publishing import MergedTableAltered
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.errors.subscribing import (
    DownloadLost,
    MergeSubscriptionUnknown,
    SchemaNotFollowed,
    TooLargeAtOnce,
    UploadLost,
    UploadNotAgreed,
)
from rowtide.merge.exchange_state import list_subscriptions, read_purge
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import UnsentColumn
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.history import Phase, Summary
from rowtide.merge.session.messages import (
    Acknowledgement,
    DeviceState,
    RefusedUpload,
    RowBatch,
    RowsByArticle,
    SessionTerms,
    SyncAnswer,
    SyncRequest,
    Transport,
    UploadHeader,
    UploadResult,
)
from rowtide.merge.session.pairing import HUB, fingerprint_of
from rowtide.merge.session.purge import is_due, purge
from rowtide.merge.session.receiver import Refused
from rowtide.merge.session.spool import Spool
from rowtide.merge.session.spool_transfer import OnTransferred
from rowtide.merge.session.upload_parts import ConfirmedRows, PartSize, divide, select
from rowtide.merge.versions.changes import RowChange

_MOST_REQUESTS = 8
"""Of one upload: for definitions, answers and rows that the hub wants."""
_MOST_UPLOADS = 3
"""Of one request, whose parts a gateway has lost."""
_MOST_DOWNLOADS = 5
"""Of a session whose download was lost, or which has to be followed by another one."""


Follow = Callable[[DeviceHalf, DeviceState], None]
"""Applies the schema of its hub at a device, which has uploaded everything."""


@frozen
class RequestedExchange:
    """What a device exchanges by requests.

    With `defers`, an acknowledgement that says nothing but that all has come is left to the next synchronisation.
    `confirmed` is a file for what the hub has confirmed of an upload in several requests: after an interruption the
    upload resumes there. `reinitializes` is as in `SyncRequest`.
    """

    exchange: ExchangeType = ExchangeType.BOTH
    defers: bool = True
    reinitializes: bool = False
    confirmed: Path | None = None


ALL_CHANGES = RequestedExchange()


def synchronise_over(
    transport: Transport,
    node: Node,
    publication: str,
    subscriber_name: str,
    on_progress: Progress = lambda _phase, _done, _all: None,
    wanted: RequestedExchange = ALL_CHANGES,
    follow: Follow | None = None,
) -> Summary:
    """Exchange all changes of a device and its hub, or those that are wanted.

    `follow` applies the hub's schema at the device.

    Raises what the hub raises; `SchemaNotFollowed` without `follow`; `NodeCopied`, `MergeSubscriptionUnknown`,
    `SessionReplaced`, `NodeBusy`.
    """
    device = find_device(node, publication, subscriber_name)
    summary, clock = Summary(subscriber_name), time.monotonic()
    session = _DeviceSession(
        transport,
        device,
        subscriber_name,
        summary,
        on_progress,
        wanted,
        follow,
    )
    with collecting_rarely():
        session.run()
    if is_due(read_purge(node.connection)):
        purge(node)
    summary.seconds = time.monotonic() - clock
    return summary


def find_device(node: Node, publication: str, subscriber_name: str) -> DeviceHalf:
    """Return a device as it stores its subscription. Raises `MergeSubscriptionUnknown`."""
    own = find_publication(node.connection, publication) if node.tables.is_prepared() else None
    subscription = None if own is None else _find_subscription(node, own.pubid, own.publisher)
    if own is None or subscription is None:
        raise MergeSubscriptionUnknown(subscriber_name, publication)
    return DeviceHalf(node, publication, subscription, list_articles(node.connection, own.pubid), own.publisher)


def _find_subscription(node: Node, pubid: str, publisher: int) -> Subscription | None:
    listed = list_subscriptions(node.connection, pubid)
    return next((one for one in listed if one.nickname == publisher), None)


class _Followed(Exception):
    """Ends a session of a device that has got the hub's schema."""


@dataclass(slots=True)
class _DeviceSession:
    transport: Transport
    device: DeviceHalf
    subscriber: str
    summary: Summary
    on_progress: Progress
    wanted: RequestedExchange
    follow: Follow | None

    def run(self) -> None:
        """Exchange, and again where the device has followed the hub's schema, or got keys above its ranges."""
        for left in reversed(range(_MOST_DOWNLOADS)):
            try:
                self._exchange()
            except DownloadLost:
                if not left:
                    raise
                continue
            except _Followed:
                if not left:
                    raise SchemaNotFollowed(self.subscriber, self.device.publication) from None
                self.device = find_device(self.device.node, self.device.publication, self.subscriber)
                continue
            if not self.wanted.exchange.downloads or not self.device.is_overtaken:
                return

    def _exchange(self) -> None:
        device = self.device
        answer, first = self._ask()
        assert answer.terms is not None
        device.take_ranges(answer.ranges)
        self._note_unsent(HUB, answer.unsent)
        uploaded = answer.result
        if uploaded is not None:
            self.sum_up(uploaded)
        header = answer.download
        if header is None:
            return
        uploaded = uploaded or UploadResult(device.subscription.sent, has_refused=any(answer.terms.wanted.values()))
        phase = Phase()
        parts = self._download(answer, first)
        with Spool(parts) as spool:
            tell = self.tell("download")
            device.receive(answer.terms, header, spool, uploaded.generation, phase, tell)
        said = device.confirm(answer.terms, header, uploaded, phase, self.wanted.exchange, may_defer=self.wanted.defers)
        self.summary.download.add(phase)
        self.summary.download.refused += phase.refused
        if not (self.wanted.defers and said.may_wait):
            self.transport.acknowledge(said)

    def _ask(self) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        """Return the answer to a request, which is repeated until the hub has all that it needs of the device."""
        device = self.device
        state, owed = self._describe(), device.owed
        awaited = device.list_awaited()
        given = _Given(device.subscription.sent, {nickname: list(rows) for nickname, rows in awaited.items()})
        for _ in range(_MOST_REQUESTS):
            try:
                answer, batches, header = self._request(state, given, owed)
            except NodeRestored:
                state = self._describe_again()
                continue
            if answer.definitions is not None:
                device.definitions, given.is_defined = answer.definitions, True
                continue
            assert answer.terms is not None
            owed, result = None, answer.result
            is_whole = result is not None and header is not None and result.generation == header.generation
            device.begin(answer.terms, result if is_whole else None)
            if header is None:
                if answer.must_follow:
                    given.uploads = True
                    continue
                return answer, batches
            if result is None:
                given.since = answer.terms.since
                given.request(answer.terms.wanted)
                continue
            if result.is_complete:
                if result.awaited != awaited:
                    device.keep_awaited(result)
                if answer.must_follow and not self.wanted.reinitializes:
                    self._follow(state)
                return answer, batches
            given.take(device, result)
            state = replace(state, session=device.subscription.session, sent=device.subscription.sent)
        raise UploadNotAgreed(self.subscriber, device.publication, _MOST_REQUESTS)

    def _describe(self) -> DeviceState:
        """Return the device's state. Raises `MergedTableAltered`: what is not whole cannot be read."""
        device = self.device
        state = device.describe()
        for article in device.known:
            if article.nickname in state.damages:
                raise MergedTableAltered(self.subscriber, article.qualified_name, state.damages[article.nickname])
        self._note_unsent(self.subscriber, device.require_ready())
        return state

    def _note_unsent(self, node: str, unsent: Mapping[int, Sequence[str]]) -> None:
        """Name in the summary the columns of a node that are not sent."""
        others = [column for column in self.summary.unsent if column.node != node]
        self.summary.unsent = others + [
            UnsentColumn(article.qualified_name, column, node)
            for article in self.device.known
            # An article with a list of columns leaves the others out by choice.
            if not (article.vertical_partition and node == HUB)
            for column in unsent.get(article.nickname, ())
        ]

    def _follow(self, state: DeviceState) -> None:
        """Follow the hub's schema, which ends the session. Raises `SchemaNotFollowed` where that is not possible."""
        if self.follow is None:
            raise SchemaNotFollowed(self.subscriber, self.device.publication)
        session = self.device.subscription.session
        self.follow(self.device, replace(state, session=session, definitions=self.device.known))
        raise _Followed

    def _describe_again(self) -> DeviceState:
        """Return the device's state if another synchronisation has ended since it was described."""
        device = self.device
        found = _find_subscription(device.node, device.subscription.pubid, device.hub)
        if found is None or found.state == device.subscription.state:
            raise NodeRestored(self.subscriber)
        device.subscription = found
        return self._describe()

    def _request(
        self, state: DeviceState, given: _Given, owed: Acknowledgement | None
    ) -> tuple[SyncAnswer, Sequence[RowBatch], UploadHeader | None]:
        device = self.device
        said = replace(
            state,
            proposed=device.propose(),
            session=device.subscription.session,
            definitions=device.known if given.is_defined else None,
            fingerprint=fingerprint_of(device.known),
        )
        request = SyncRequest(
            said,
            self.wanted.exchange,
            numberings=device.number(),
            acknowledgement=owed,
            reinitializes=self.wanted.reinitializes,
        )
        if not (self.wanted.exchange.uploads or given.uploads):
            answer, batches = self.transport.synchronise(request, lambda: iter(()))
            return answer, batches, None
        reading = device.read(given.since, given.requested, frees=True)
        with reading as (read, spool), self.transport.working(spool.read_ahead):
            request = replace(request, upload=replace(read, round=given.rounds, tops=given.tops))
            answer, batches = _DividedUpload(self, request, spool).send()
            self.tell("upload")(spool.changes, spool.changes)
        return answer, batches, request.upload

    def _download(self, answer: SyncAnswer, first: Sequence[RowBatch]) -> Iterator[tuple[Article, Sequence[RowChange]]]:
        """Yield the batches of a download, which are fetched as they are written."""
        terms, header = answer.terms, answer.download
        assert terms is not None
        assert header is not None
        articles = {article.nickname: article for article in self.device.known}
        done, batches = 0, first
        while done < header.batches:
            for batch in batches or self.transport.fetch(terms.session, header.generation, done):
                done += 1
                yield articles[batch.article], batch.changes
            batches = ()

    def sum_up(self, result: UploadResult) -> None:
        """Add the result of an upload to the summary."""
        phase = Phase(articles=dict(result.counts))
        articles = {article.nickname: article for article in self.device.at_hub}
        refusals = [
            (_refusal(articles[each.article], each), each) for each in result.refused if each.article in articles
        ]
        self.summary.upload.add(phase)
        self.summary.upload.refusals += [refused for refused, _ in refusals]
        self.summary.upload.refused += [refused for refused, each in refusals if each.is_wanted]

    def tell(self, phase: str) -> OnTransferred:
        return lambda done, all_: self.on_progress(phase, done, all_)


@dataclass(slots=True)
class _DividedUpload:
    """An upload that is sent in one request or several."""

    session: _DeviceSession
    request: SyncRequest
    spool: Spool
    deferred: dict[int, set[str]] = field(default_factory=dict)
    tried: int | None = None
    """The number of deferred rows when they were sent again."""
    done: int = 0

    def send(self) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        """Return the answer to the last part, or to the first one that the hub cannot take before it knows more."""
        own = self.session.device.subscription
        for left in reversed(range(_MOST_UPLOADS)):
            confirmed = ConfirmedRows.read(
                self.session.wanted.confirmed, own.subid, own.sent, self.request.state.proposed
            )
            try:
                return self._send_parts(confirmed)
            except UploadLost:
                confirmed.forget()
                if not left:
                    raise
        raise AssertionError("no upload was tried")

    def _send_parts(self, confirmed: ConfirmedRows) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        most = PartSize()
        unsent = confirmed.without(self._batches(), self.header.requested)
        parts = divide(unsent, most, self.spool.count_deletes)
        while True:
            part, has_more = next(parts)
            if not has_more and self._is_to_try_again(part, most):
                again = divide(select(self._batches(), self.deferred), most, has_more=True)
                parts = chain(again, [(part, False)])
                continue
            try:
                self._name_kept(confirmed)
                answer, batches = self._send(part) if has_more else self._send_last(part)
            except TooLargeAtOnce:
                if not most.halve(part):
                    raise
                parts = chain(divide(part, most, has_more=has_more), parts)
                continue
            if answer.terms is None or answer.result is None:
                return answer, batches
            if not has_more:
                if answer.result.is_complete:
                    confirmed.forget()
                return answer, batches
            self._take(answer.terms, answer.result, part, confirmed)

    @property
    def header(self) -> UploadHeader:
        """What comes with each part."""
        assert self.request.upload is not None
        return self.request.upload

    def _is_to_try_again(self, last: Sequence[RowBatch], most: PartSize) -> bool:
        """Whether what was deferred is sent in parts of its own, as it does not fit into the last one.

        What these rows needed has come since. Rows that need each other are left, and come with the last part.
        """
        number = sum(map(len, self.deferred.values()))
        if number == 0 or (self.tried is not None and number >= self.tried) or most.takes(self._with_deferred(last)):
            return False
        self.tried = number
        return True

    def _with_deferred(self, last: Sequence[RowBatch]) -> Sequence[RowBatch]:
        return [*select(self._batches(), self.deferred), *last] if self.deferred else last

    def _name_kept(self, confirmed: ConfirmedRows) -> None:
        if self.session.device.has_records:
            self.request = replace(self.request, upload=replace(self.header, kept=confirmed.kept))

    def _send(self, part: Sequence[RowBatch]) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        request = replace(self.request, upload=replace(self.header, has_more=True))
        return self.session.transport.synchronise(request, lambda: iter(part))

    def _send_last(self, part: Sequence[RowBatch]) -> tuple[SyncAnswer, Sequence[RowBatch]]:
        batches = self._with_deferred(part)
        return self.session.transport.synchronise(self.request, lambda: iter(batches))

    def _take(
        self, terms: SessionTerms, result: UploadResult, part: Sequence[RowBatch], confirmed: ConfirmedRows
    ) -> None:
        """Store that the hub has a part."""
        session = self.session
        session.device.begin(terms)
        confirmed.add(part, result.deferred, result.kept)
        for batch in part:
            self.deferred.get(batch.article, set()).difference_update(change.rowguid for change in batch.changes)
        for nickname, rowguids in result.deferred.items():
            self.deferred.setdefault(nickname, set()).update(rowguids)
        state = replace(self.request.state, session=terms.session)
        self.request = replace(self.request, state=state, acknowledgement=None)
        session.sum_up(result)
        self.done += sum(len(batch.changes) for batch in part)
        session.tell("upload")(self.done, self.spool.changes)

    def _batches(self) -> Iterator[RowBatch]:
        return (RowBatch(nickname, changes) for nickname, changes in self.spool.batches())


@dataclass(slots=True)
class _Given:
    """What the hub is given with an upload: all changes after `since`, and what it has asked for."""

    since: int
    requested: dict[int, list[str]] = field(default_factory=dict)
    rounds: int = 0
    tops: Mapping[int, Mapping[str, str]] | None = None
    is_defined: bool = False
    uploads: bool = False
    """Also in a synchronisation that only downloads: a device uploads before it follows."""

    def take(self, device: DeviceHalf, result: UploadResult) -> None:
        """Take what the hub asks for."""
        self.since = device.subscription.sent
        if result.questions:
            self.tops = device.answer(result.questions)
        if result.wanted:
            self.rounds += 1
        self.request(result.wanted)

    def request(self, wanted: RowsByArticle) -> None:
        """Send rows with the next request."""
        for nickname, rowguids in wanted.items():
            listed = self.requested.setdefault(nickname, [])
            listed += [each for each in rowguids if each not in listed]


def _refusal(article: Article, refused: RefusedUpload) -> Refused:
    # Its row and its version are the device's own: what is reported is the row's number, and the reason.
    change = RowChange(refused.rowguid, b"", b"", None, None)
    return Refused(article, change, Refusal(RowsRefused(article.name, refused.code, refused.reason), None))
