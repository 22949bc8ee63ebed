"""What a synchronisation would send, and what the hub does not have yet.

Nothing is written. Both ends are read as a synchronisation reads them. What would conflict or be refused is found by an
upload in a transaction of the hub that is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial

from sqlalchemy import select

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.catalogue import find_publication, get_publication, list_articles
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.definitions import conflicts_info
from rowtide.merge.exchange_state import list_retries, list_subscriptions
from rowtide.merge.nodes.node import Node, retry_busy
from rowtide.merge.nodes.rows import Place, Refusal
from rowtide.merge.nodes.sending import ChangesRequest, EnumeratedSending, Enumeration
from rowtide.merge.partitions.filters import bind_articles
from rowtide.merge.session.device_half import DeviceHalf, answer_questions, upload_request
from rowtide.merge.session.history import Phase
from rowtide.merge.session.hub.uploading import UploadReceipt
from rowtide.merge.session.messages import Counts, DeviceState, RowsByArticle, UploadHeader
from rowtide.merge.session.pairing import HUB, Pairing, require_hub_in_step, require_in_step, require_tables
from rowtide.merge.session.spool import Outgoing, Spool
from rowtide.merge.session.spool_transfer import known_rows
from rowtide.merge.session.synchronisation import upload_all
from rowtide.merge.versions.changes import RowChange


@frozen
class Rehearsed:
    """What an upload would come to: `counts` by the article's name, and the rows that would conflict or be refused.

    Those that conflict may be refused, too: the key is another row's, or the change is undone.
    """

    counts: Mapping[str, Counts]
    conflicts: Mapping[Place, ConflictType]
    refusals: Mapping[Place, Refusal]


def rehearse_upload(hub: Node, subscriber: Node, pairing: Pairing, preview: Enumeration) -> Rehearsed:
    """Upload what a preview of the subscriber has, and undo it; rows of the hub are locked meanwhile.

    Raises `NodeBusy`, `SessionReplaced`.
    """

    @contextmanager
    def reading(since: int, wanted: RowsByArticle, number: int) -> Iterator[tuple[UploadHeader, Spool]]:
        definitions = (*pairing.articles, *pairing.leaving)
        request = upload_request(pairing.known, definitions, since, pairing.hub, wanted, names_parents=number == 0)
        sending = EnumeratedSending(preview.naming_parents(request.parents), request)
        with Outgoing(sending, request).spool() as spool:
            spool.complete()
            yield UploadHeader(since, preview.generation, wanted, number, is_rest=number > 0), spool

    def rehearse() -> Rehearsed:
        phase, of_publication = Phase(), conflicts_info.c.pubid == pairing.publication.pubid
        again = list_retries(hub.connection, pairing.at_hub.nickname)
        with hub.trying():
            known = select(conflicts_info.c.conflict_id).where(of_publication)
            before = set(hub.connection.execute(known).scalars())
            receipt = UploadReceipt(hub, pairing, phase, again, list_retries(subscriber.connection, pairing.hub))
            answer = partial(answer_questions, subscriber, receipt.articles)
            upload_all(receipt, reading, answer, lambda _done, _all: None)
            conflicts = _read_conflicts(hub, pairing, before)
        refusals = {(each.article.nickname, each.change.rowguid): each.refusal for each in phase.refusals}
        return Rehearsed(phase.articles, conflicts, refusals)

    return retry_busy(rehearse)


def _read_conflicts(hub: Node, pairing: Pairing, before: set[str]) -> dict[Place, ConflictType]:
    """Return the rows of a publication's conflicts that were not there before."""
    c = conflicts_info.c
    listed = select(c.conflict_id, c.tablenick, c.rowguid, c.conflict_type).where(c.pubid == pairing.publication.pubid)
    return {
        (nickname, rowguid): ConflictType(conflict_type)
        for conflict_id, nickname, rowguid, conflict_type in hub.connection.execute(listed)
        if conflict_id not in before
    }


@frozen
class PendingRow:
    """A row that is to be sent; `conflict` is the kind of conflict that it would meet at the hub, if any.

    The kind's first word is what the subscriber did: update-update, update-delete, delete-update, insert-insert; that
    of a logical record that conflicts as a whole is record, and that of a row which the subscriber does not have is
    not-held. `refusal` is why the hub would refuse the row.
    """

    article: str
    rowguid: str
    is_delete: bool
    conflict: str | None = None
    refusal: str | None = None


@frozen
class PendingChanges:
    """What one end has to send of an article; `direction` is upload or download.

    `conflicts` and `refused` are the numbers that a synchronisation would count; None if they were not looked for, and
    of downloads: the hub decides.
    """

    publication: str
    subscriber: str
    direction: str
    article: str
    pending_deletes: int
    pending_ins_and_upd: int
    conflicts: int | None
    refused: int | None
    rows: tuple[PendingRow, ...] = field(repr=False)


def list_downloads(hub: Node, publication_name: str, subscriber: str | None = None) -> list[PendingChanges]:
    """Return what a hub has for its subscribers, or for one, by the hub's own data alone.

    Raises `MergePublicationUnknown`, `MergedTableAltered`.
    """
    publication = get_publication(hub.connection, publication_name)
    articles = [each for each in list_articles(hub.connection, publication.pubid) if not each.is_upload_only]
    require_tables(hub, HUB, articles)
    found: list[PendingChanges] = []
    with hub.changes.previewing() as preview:
        for subscription in list_subscriptions(hub.connection, publication.pubid):
            if subscriber in (None, subscription.subscriber):
                filters = bind_articles(articles, subscription.partition, realigns=publication.realigns)
                request = ChangesRequest(articles, subscription.sent, subscription.nickname, {}, filters)
                sent = _read(preview, request)
                found += _counted(publication.name, subscription.subscriber, "download", articles, sent)
    return found


def list_pending(
    hub: Node, subscriber: Node, pairing: Pairing, *, finds_conflicts: bool = False
) -> list[PendingChanges]:
    """Return what a synchronisation would send in each direction; uploads first.

    What the hub would make of uploaded conflicts is not counted as a download. With `finds_conflicts`, also raises
    `NodeBusy`. Raises `NodeCopied`, `NodeRestored`,
    `SubscriptionExpired`, `DefinitionsDiffer`.
    """
    require_in_step(hub, subscriber, pairing)
    names = pairing.publication.name, pairing.at_hub.subscriber
    there = read_pending(hub, pairing, list_retries(subscriber.connection, pairing.hub))
    with subscriber.changes.previewing() as theirs:
        rehearsed = rehearse_upload(hub, subscriber, pairing, theirs) if finds_conflicts else None
        uploads = ChangesRequest(pairing.articles, there.since, pairing.hub, there.again, {})
        up = list(_counted(*names, "upload", pairing.articles, _read(theirs, uploads), rehearsed))
    return [*up, *_downloads(*names, pairing.articles, there)]


@frozen
class PendingDownload:
    """Rows of an article that a hub has for a device, by rowguid."""

    article: int
    rows: Sequence[str] = ()
    deletes: Sequence[str] = ()


@frozen
class PendingAtHub:
    """What a hub has for a device; the last of the device's generations that it has, and the rows that it requests."""

    since: int
    again: RowsByArticle
    downloads: Sequence[PendingDownload]


def serve_pending(hub: Node, pairing: Pairing, state: DeviceState) -> PendingAtHub:
    """Return what a hub has for a device that asks. Raises as `list_pending`."""
    require_hub_in_step(hub, pairing, state.nickname)
    return read_pending(hub, pairing, known_rows(state.refused))


def read_pending(hub: Node, pairing: Pairing, refused: RowsByArticle) -> PendingAtHub:
    """Return what a hub has for a device, which has refused some of the hub's rows."""
    here, there = pairing.at_hub, pairing.at_subscriber
    # A device that has the mark of the last session has all of it, and owes the acknowledgement.
    down = there.received if there.state == here.next_state else min(here.sent, there.received)
    request = ChangesRequest(pairing.going_down, down, pairing.at_hub.nickname, refused, pairing.filters)
    rows: dict[int, list[str]] = {}
    deletes: dict[int, list[str]] = {}
    with hub.changes.previewing() as ours:
        for article, changes in _read(ours, request):
            for change in changes:
                (deletes if change.row is None else rows).setdefault(article.nickname, []).append(change.rowguid)
    downloads = [
        PendingDownload(article.nickname, rows.get(article.nickname, ()), deletes.get(article.nickname, ()))
        for article in pairing.going_down
        if article.nickname in rows or article.nickname in deletes
    ]
    return PendingAtHub(min(there.sent, here.received), list_retries(hub.connection, here.nickname), downloads)


def list_pending_of_device(
    device: DeviceHalf, subscriber_name: str, ask: Callable[[DeviceState], PendingAtHub]
) -> list[PendingChanges]:
    """Return what a synchronisation by requests would send in each direction; see `list_pending`."""
    state = replace(device.describe(examines=False), definitions=device.known)
    require_tables(device.node, subscriber_name, device.known)
    names = device.publication, subscriber_name
    there = ask(state)
    uploads = ChangesRequest(device.known, there.since, device.hub, known_rows(there.again), {})
    with device.node.changes.previewing() as ours:
        up = list(_counted(*names, "upload", device.known, _read(ours, uploads)))
    return [*up, *_downloads(*names, device.known, there)]


def _downloads(
    publication: str, subscriber: str, articles: Sequence[Article], there: PendingAtHub
) -> Iterator[PendingChanges]:
    names = {article.nickname: article.name for article in articles}
    for each in there.downloads:
        name = names[each.article]
        listed = [PendingRow(name, rowguid, is_delete=False) for rowguid in each.rows]
        listed += [PendingRow(name, rowguid, is_delete=True) for rowguid in each.deletes]
        counts = len(each.deletes), len(each.rows)
        yield PendingChanges(publication, subscriber, "download", name, *counts, None, None, tuple(listed))


Batches = Iterator[tuple[Article, Sequence[RowChange]]]
"""Changes of articles."""


def _read(sender: Enumeration, request: ChangesRequest) -> Batches:
    articles = {article.nickname: article for article in request.articles}
    with Outgoing(EnumeratedSending(sender, request), request).spool() as spool:
        for nickname, changes in spool.batches():
            yield articles[nickname], changes


def _counted(
    publication: str,
    subscriber: str,
    direction: str,
    articles: Sequence[Article],
    batches: Batches,
    rehearsed: Rehearsed | None = None,
) -> Iterator[PendingChanges]:
    """Yield the articles that have changes."""
    rows: dict[str, list[PendingRow]] = {article.name: [] for article in articles}
    for article, changes in batches:
        rows[article.name] += [_pending_row(article, change, rehearsed) for change in changes]
    for name, listed in rows.items():
        if listed:
            deletes = sum(row.is_delete for row in listed)
            counts = None if rehearsed is None else rehearsed.counts.get(name, Counts())
            yield PendingChanges(
                publication,
                subscriber,
                direction,
                name,
                deletes,
                len(listed) - deletes,
                None if counts is None else counts.conflicts,
                None if counts is None else counts.refused,
                tuple(listed),
            )


def _pending_row(article: Article, change: RowChange, rehearsed: Rehearsed | None) -> PendingRow:
    place, is_delete = (article.nickname, change.rowguid), change.row is None
    if rehearsed is None:
        return PendingRow(article.name, change.rowguid, is_delete)
    refusal, conflict_type = rehearsed.refusals.get(place), rehearsed.conflicts.get(place)
    if refusal is not None and refusal.holder is not None:
        return PendingRow(article.name, change.rowguid, is_delete, "insert-insert")
    if refusal is not None:
        return PendingRow(
            article.name, change.rowguid, is_delete, refusal=f"{refusal.error.code}: {refusal.error.reason}"
        )
    kind = None if conflict_type is None else _kind_of(conflict_type, is_delete=is_delete)
    return PendingRow(article.name, change.rowguid, is_delete, kind)


def _kind_of(conflict_type: ConflictType, *, is_delete: bool) -> str:
    if conflict_type in _OF_RECORDS:
        return "record"
    if conflict_type is ConflictType.UPLOAD_INSERT_FAILED:
        # In records it is not among the refusals.
        return "insert-insert"
    if conflict_type is ConflictType.UPLOAD_ROW_NOT_HELD:
        return "not-held"
    if conflict_type in (ConflictType.UPDATE_CONFLICT, ConflictType.COLUMN_UPDATE_CONFLICT):
        return "update-update"
    return "delete-update" if is_delete else "update-delete"


_OF_RECORDS = (
    ConflictType.RECORD_DELETE_WINS_CONFLICT,
    ConflictType.RECORD_UPDATE_CONFLICT,
    ConflictType.RECORD_UPDATE_WINS_CONFLICT,
)


_OTHER = "another table was altered"


@frozen
class Unsent:
    """Rows of an article that a subscriber has changed or deleted, and that the hub does not have as they are there.

    `refused` counts those that the hub has refused. The other counts are None if a table was altered so that nothing is
    known; `reason` says how.
    """

    article: str
    changes: int | None
    deletes: int | None
    refused: int
    reason: str | None = None

    @property
    def is_any(self) -> bool:
        """Whether anything is, or may be, missing at the hub."""
        return self.reason is not None or bool(self.changes or self.deletes or self.refused)

    def __str__(self) -> str:
        if self.reason is not None:
            return f"unknown changes of {self.article} ({self.reason})"
        counts = {"changed": self.changes, "deleted": self.deletes, "refused by the publisher": self.refused}
        return f"{self.article}: " + ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def list_unsent(hub: Node, subscriber: Node, publication_name: str) -> Sequence[Unsent]:
    """Return what a subscriber has never uploaded, for each article that has any; nothing if it has no subscription."""
    if not subscriber.tables.is_prepared():
        return ()
    publication = find_publication(subscriber.connection, publication_name)
    if publication is None:
        return ()
    own = list_subscriptions(subscriber.connection, publication.pubid)
    at_subscriber = next((one for one in own if one.nickname == publication.publisher), None)
    if at_subscriber is None:
        return ()
    known = list_subscriptions(hub.connection, publication.pubid)
    at_hub = next((one for one in known if one.subid == at_subscriber.subid), None)
    since = at_subscriber.sent if at_hub is None else min(at_subscriber.sent, at_hub.received)
    refused = {} if at_hub is None else list_retries(hub.connection, at_hub.nickname)
    articles = list_articles(subscriber.connection, publication.pubid)
    damages = {article.name: subscriber.tables.find_damage(article) for article in articles}
    if any(damages.values()):
        # The log cannot be applied to a table that was rebuilt.
        return [
            Unsent(each.name, None, None, len(refused.get(each.nickname, ())), damages[each.name] or _OTHER)
            for each in articles
        ]
    with subscriber.changes.enumerating() as enumeration:
        found = [
            _count(
                enumeration,
                article,
                since,
                publication.publisher,
                set(refused.get(article.nickname, ())),
            )
            for article in articles
        ]
    return [each for each in found if each.is_any]


def _count(enumeration: Enumeration, article: Article, since: int, hub: int, refused: set[str]) -> Unsent:
    changed, deleted = (
        {change.rowguid for batch in batches for change in batch}
        for batches in (enumeration.upserts(article, since, hub), enumeration.deletes(article, since, hub))
    )
    # A device's deletes of upload-only rows are its own.
    missing = set() if article.is_upload_only else deleted - refused
    return Unsent(article.name, len(changed - refused), len(missing), len(refused))
