"""What a hub does with the requests of a device that has no connection to its database.

Nothing is kept between two requests but the spool of a download, which can be made again: it begins after the last
generation that the device has confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Protocol

from rowtide.core.garbage_collection import collecting_rarely
from rowtide.core.values import frozen
from rowtide.merge.articles import DEFAULT_LIMITS, Article, DeviceLimits, ExchangeType, SubscriberType
from rowtide.merge.conflicts.records import REFUSALS
from rowtide.merge.errors.nodes import GenerationRefused
from rowtide.merge.errors.publishing import DefinitionsDiffer
from rowtide.merge.errors.subscribing import (
    MergeSubscriptionUnknown,
    SchemaNotFollowed,
    UploadMalformed,
    UploadNotComparable,
)
from rowtide.merge.exchange_state import read_purge, set_exchanged
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.logical_records import find_record_types
from rowtide.merge.session.history import History, Summary, recorded
from rowtide.merge.session.hub.lineage_checks import SELECT_GENERATIONS, read_generations
from rowtide.merge.session.hub_half import HubHalf
from rowtide.merge.session.identity_ranges import require_given
from rowtide.merge.session.messages import (
    Acknowledgement,
    DeviceState,
    RefusedDownload,
    RowBatch,
    RowsByArticle,
    SessionTerms,
    SyncAnswer,
    SyncRequest,
    UploadHeader,
    UploadResult,
)
from rowtide.merge.session.pairing import (
    Pairing,
    fingerprint_of,
    is_proposed,
    read_hub,
    require_hub_ready,
    require_known_schema,
    require_met,
    require_original,
)
from rowtide.merge.session.spool import Spool
from rowtide.merge.session.spool_transfer import in_session, known_rows
from rowtide.merge.session.upload_parts import join_parts
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.checked_metadata import are_rowguids

_NO_ROWS: RowsByArticle = {}


@dataclass(slots=True)
class SessionAnswer:
    """An answer, with the download that belongs to it; it is closed once the device has all of it."""

    answer: SyncAnswer
    half: HubHalf | None = None
    _spool: Spool | None = None
    _held: ExitStack = field(default_factory=ExitStack)

    def batches(self, first: int = 0) -> Iterator[RowBatch]:
        """Yield the batches of the download, from one on."""
        found = () if self._spool is None else self._spool.batches()
        return (RowBatch(nickname, changes) for nickname, changes in islice(found, first, None))

    def purge_if_due(self) -> None:
        """Remove metadata that none needs, once a day; the device does not wait for it."""
        if self.half is not None:
            self.half.purge_if_due()

    def close(self) -> None:
        """Remove the download's file."""
        self._held.close()


class KeptParts(Protocol):
    """Keeps the parts of a device's upload that cannot be written before the last one has come."""

    def add(self, before: str, batches: Sequence[RowBatch]) -> str:
        """Keep a part that follows those of a name, in place of others that followed them; return the name of all.

        Raises `UploadLost`.
        """

    def take(self, name: str) -> Sequence[RowBatch]:
        """Return the parts of a name, which stay; without a name, forget all. Raises `UploadLost`."""


@frozen
class UploadedBatches:
    """The batches of an upload, which may still come, what is taken of them, and what keeps parts of records."""

    batches: Iterable[RowBatch]
    limits: DeviceLimits = DEFAULT_LIMITS
    kept: KeptParts | None = None


def serve(
    hub: Node,
    request: SyncRequest,
    uploaded: UploadedBatches,
    admit: Callable[[Pairing], None] = lambda _pairing: None,
) -> SessionAnswer:
    """Return the answer to a device's request; its batches are written as they come, up to some limits.

    `admit` raises an error for a subscription that is not the device's, before anything is written. Raises
    `UploadMalformed`, `MergePublicationUnknown`, `MergeSubscriptionUnknown`, `SchemaNotFollowed`, `SessionReplaced`,
    `NodeBusy`, and what `require_hub_ready` raises.
    """
    found = meet(hub, request.state)
    if not isinstance(found, Pairing):
        return SessionAnswer(SyncAnswer(None, definitions=found))
    admit(found)
    half = HubHalf(hub, found)
    if request.acknowledgement is not None and _is_owed(half.pairing, request.acknowledgement):
        _acknowledge(half, request.acknowledgement)
    try:
        unsent = require_hub_ready(hub, half.pairing, request.state)
    except DefinitionsDiffer as error:
        raise SchemaNotFollowed(found.at_hub.subscriber, found.publication.name) from error
    began, clock = datetime.now(UTC), time.monotonic()
    terms = half.begin(replace(request.state, refused=_checked(request.state.refused)), half.since)
    summary = Summary(found.at_hub.subscriber)
    recording = recorded(hub, found.at_hub.subid, summary, began, clock, continues=_continues(found, request))
    with recording as history, collecting_rarely():
        served = _exchange(half, terms, request, uploaded, summary, history)
        return replace(served, answer=replace(served.answer, unsent=unsent))


def serve_upload(
    hub: Node,
    request: SyncRequest,
    uploaded: UploadedBatches,
    admit: Callable[[Pairing], None] = lambda _pairing: None,
) -> SessionAnswer:
    """Take the upload of a device that has earlier definitions than the hub, and let it follow then; see `serve`.

    Raises `UploadMalformed`, `NodeCopied`, `NodeRestored`, `SchemaAhead`, `UploadNotComparable`, `SessionReplaced`,
    `NodeBusy`.
    """
    found = meet(hub, request.state)
    if not isinstance(found, Pairing):
        return SessionAnswer(SyncAnswer(None, definitions=found))
    admit(found)
    require_original(hub)
    require_met(request.state, found)
    require_known_schema(hub, found)
    if found.at_hub.settled < read_purge(hub.connection).generation:
        reason = "the publisher has purged metadata that it had not got"
        raise UploadNotComparable(found.at_hub.subscriber, reason)
    half, summary = HubHalf(hub, found), Summary(found.at_hub.subscriber)
    began, clock = datetime.now(UTC), time.monotonic()
    terms = half.begin(replace(request.state, refused=_checked(request.state.refused)), half.since)
    if request.upload is None or request.upload.since > terms.since:
        return SessionAnswer(SyncAnswer(terms, must_follow=True))
    recording = recorded(hub, found.at_hub.subid, summary, began, clock, continues=_continues(found, request))
    with recording as history, collecting_rarely():
        result = _receive(half, request.upload, uploaded, summary)
        with hub.transaction():
            if request.upload.has_more:
                history.put_part()
            else:
                history.put()
    return SessionAnswer(SyncAnswer(terms, result, must_follow=True))


def _continues(pairing: Pairing, request: SyncRequest) -> bool:
    """Whether the hub knows the session that a device proposes: it was begun, with parts of the upload or repeated."""
    return bool(request.state.proposed) and pairing.at_hub.next_state == request.state.proposed


def _exchange(
    half: HubHalf,
    terms: SessionTerms,
    request: SyncRequest,
    uploaded: UploadedBatches,
    summary: Summary,
    history: History,
) -> SessionAnswer:
    result: UploadResult | None = None
    if request.upload is not None:
        if request.upload.since > terms.since:
            # The hub has less of the device than that believes, as after a restore: taken now, this upload would leave
            # a gap that no later one fills.
            return SessionAnswer(SyncAnswer(terms))
        result = _receive(half, request.upload, uploaded, summary)
        if request.upload.has_more:
            with in_session(half.node, half.pairing.at_hub):
                history.put_part()
        if request.upload.has_more or not result.is_complete:
            return SessionAnswer(SyncAnswer(terms, result))
    pairing = half.pairing
    require_given(half.node, pairing.publication, pairing.articles, pairing.at_hub.subscriber, request.numberings)
    ranges = half.renew_ranges(request.numberings)
    if not request.exchange.downloads:
        half.conclude_upload(history.put)
        return SessionAnswer(SyncAnswer(terms, result, ranges))
    with ExitStack() as held:
        header, spool = held.enter_context(half.send(half.since, result))
        names = {article.nickname: article.name for article in half.pairing.articles}
        summary.download.articles.update((names[nickname], counts) for nickname, counts in spool.counts.items())
        connection, subid = half.node.connection, half.pairing.at_hub.subid
        with in_session(half.node, half.pairing.at_hub):
            if result is not None:
                set_exchanged(connection, subid, ExchangeType.UPLOAD)
            history.put()
        return SessionAnswer(SyncAnswer(terms, result, ranges, header), half, spool, held.pop_all())


def _receive(half: HubHalf, header: UploadHeader, uploaded: UploadedBatches, summary: Summary) -> UploadResult:
    """Write an upload; rows that the hub requests again and that have not come are wanted of the device."""
    receipt = half.receive(summary.upload)
    has_records = bool(find_record_types(receipt.articles))
    if has_records and header.has_more:
        # Whose rows they are, and which deletes belong to them, is known once all have come.
        return UploadResult(half.pairing.at_hub.received, kept=_keep(half.pairing, header, uploaded))
    batches = _with_kept(half.pairing, header, uploaded) if has_records else uploaded.batches
    with Spool(_parts(half.pairing, batches), uploaded.limits) as spool:
        if header.has_more:
            return receipt.receive_part(header, spool)
        if has_records:
            # Logical records are put together.
            spool.complete()
        result = receipt.receive(header, spool, lambda _done, _all: None)
        if not result.is_complete:
            return result
        receipt.conclude(result.generation)
    missing = {
        nickname: [each for each in rowguids if each not in header.requested.get(nickname, ())]
        for nickname, rowguids in half.again.items()
    }
    return replace(result, wanted={nickname: rowguids for nickname, rowguids in missing.items() if rowguids})


def _keep(pairing: Pairing, header: UploadHeader, uploaded: UploadedBatches) -> str:
    if uploaded.kept is None:
        raise UploadMalformed(pairing.at_hub.subscriber, "an upload with logical records is divided")
    return uploaded.kept.add(header.kept, list(uploaded.batches))


def _with_kept(pairing: Pairing, header: UploadHeader, uploaded: UploadedBatches) -> Iterable[RowBatch]:
    """Return the batches of the last part with those that are kept. Raises `UploadLost`."""
    if uploaded.kept is None:
        return uploaded.batches
    earlier = uploaded.kept.take(header.kept)
    if not earlier:
        return uploaded.batches
    order = {article.nickname: article.processing_order for article in pairing.articles}
    return join_parts([*earlier, *uploaded.batches], order)


def _parts(pairing: Pairing, batches: Iterable[RowBatch]) -> Iterator[tuple[Article, Sequence[RowChange]]]:
    """Yield an upload's batches with the device's definitions. Raises `UploadMalformed`."""
    known = {mapping.sender.nickname: mapping.sender for mapping in pairing.mappings.values()}
    is_server = pairing.at_hub.subscriber_type is SubscriberType.SERVER
    for batch in batches:
        article = known.get(batch.article)
        if article is None:
            raise UploadMalformed(pairing.at_hub.subscriber, f"the publication has no article {batch.article}")
        width = len(article.columns)
        if any(change.row is not None and len(change.row) != width for change in batch.changes):
            raise UploadMalformed(pairing.at_hub.subscriber, f"a row of {article.name} has not {width} values")
        if len({change.row is None for change in batch.changes}) != 1 or not are_rowguids(
            [change.rowguid for change in batch.changes]
        ):
            reason = f"a batch of {article.name} is empty, has rows beside tombstones, or a rowguid that is none"
            raise UploadMalformed(pairing.at_hub.subscriber, reason)
        yield article, batch.changes if is_server else [_unweighted(change) for change in batch.changes]


def _unweighted(change: RowChange) -> RowChange:
    """Return a change without a weight of its own: a client's changes have that of its subscription."""
    return change if change.priority is None else change._replace(priority=None)


def acknowledge(hub: Node, publication: str, subid: str, said: Acknowledgement) -> None:
    """Store what a device has of a download; one that was stored, or that another session has replaced, is ignored.

    Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`, `GenerationRefused`, `SessionReplaced`, `NodeBusy`.
    """
    found = read_hub(hub, publication, [subid])
    at_hub = next((one for one in found.subscriptions if one.subid == subid), None)
    if at_hub is None:
        raise MergeSubscriptionUnknown(subid, publication)
    half = HubHalf(hub, found.pair(at_hub, at_hub, ()))
    if _is_owed(half.pairing, said):
        _acknowledge(half, said)


def _is_owed(pairing: Pairing, said: Acknowledgement) -> bool:
    """Whether the hub waits for an acknowledgement: that of its last session, unless it has come already."""
    return said.session == pairing.at_hub.session and said.mark == pairing.at_hub.next_state


def _acknowledge(half: HubHalf, said: Acknowledgement) -> None:
    last = read_generations(half.node.read_together(SELECT_GENERATIONS)[0]).get(half.pairing.hub, 0)
    if said.received > last:
        reason = f"it has received generation {said.received} of the publisher, which is at {last}"
        raise GenerationRefused(half.pairing.at_hub.subscriber, reason)
    moves = {
        nickname: replace(
            each, gone=_rowguids(each.gone), returned=_rowguids(each.returned), stayed=_rowguids(each.stayed)
        )
        for nickname, each in said.moves.items()
    }
    refused = [each for each in said.refused if are_rowguids([each.rowguid])]
    _require_shape(half.pairing, refused)
    checked = replace(said, moves=moves, refused=refused, accepted=_checked(said.accepted))
    # It may come long after the upload, whose date is stored with the answer.
    half.acknowledge(checked, dated=ExchangeType.DOWNLOAD)


def _require_shape(pairing: Pairing, refused: Sequence[RefusedDownload]) -> None:
    """Raise `UploadMalformed` if rows that a device has refused are not of their articles."""
    articles = {article.nickname: article for article in pairing.articles}
    for each in refused:
        article = articles.get(each.article)
        if article is None:
            continue
        if each.conflict_type not in REFUSALS:
            reason = f"a row of {article.name} that it has refused has the type {each.conflict_type}, not 6, 8 or 10"
            raise UploadMalformed(pairing.at_hub.subscriber, reason)
        names = {column.name for column in article.columns}
        rows = [row for row in (each.losing_row, each.winning_row) if row is not None]
        if any(len(row) != len(article.columns) for row in rows) or not names.issuperset(each.losing_columns or ()):
            reason = f"a row of {article.name} that it has refused has other columns"
            raise UploadMalformed(pairing.at_hub.subscriber, reason)


def _rowguids(listed: Iterable[str]) -> list[str]:
    return [each for each in listed if are_rowguids([each])]


def _checked(listed: RowsByArticle) -> RowsByArticle:
    return known_rows(listed) if listed else _NO_ROWS


def meet(hub: Node, state: DeviceState) -> Pairing | tuple[Article, ...]:
    """Return what both ends say of a subscription, or the hub's definitions if those of the device are needed."""
    if not state.subid.isascii():
        # Half of a character, which JSON can escape, is no text that a database can be asked for.
        raise MergeSubscriptionUnknown(ascii(state.subid), state.publication)
    found = read_hub(hub, state.publication, [state.subid])
    at_hub = next((one for one in found.subscriptions if one.subid == state.subid), None)
    if at_hub is None:
        raise MergeSubscriptionUnknown(state.subid, state.publication)
    if state.proposed and (not is_proposed(state.proposed) or state.proposed == state.state):
        raise UploadMalformed(at_hub.subscriber, "what it proposes for the session is no mark, or its last one")
    there = tuple(article.at_subscriber(at_hub.subscriber_type) for article in found.published)
    known = state.definitions
    if known is None:
        if fingerprint_of(there) != state.fingerprint:
            return (*found.published, *found.leaving)
        known = there
    at_subscriber = replace(
        at_hub,
        nickname=state.hub,
        state=state.state,
        next_state=state.proposed or None,
        session=state.session,
        sent=state.sent,
        received=state.received,
        schema_version=state.schema_version,
        schema_guid=state.schema_guid,
    )
    return found.pair(at_hub, at_subscriber, known)
