"""Synchronise a device by requests, schema changes included: what it does, and what its hub answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from rowtide.merge.articles import (
    Article,
    Progress,
    Publication,
    Subscription,
)
from rowtide.merge.catalogue import (
    get_publication,
    list_articles,
    list_publications,
    read_nickname,
    read_purged,
    renew_nickname,
    set_publisher,
)
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.errors.subscribing import PublicationsShared, SchemaNotFollowed
from rowtide.merge.exchange_state import list_subscriptions, put_subscription, remove_retries_of, remove_subscription
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.table_definitions import Omission
from rowtide.merge.publishing.exchange_requests import Recovered
from rowtide.merge.publishing.partition_moves import follow_filters
from rowtide.merge.publishing.publications import finish_drops
from rowtide.merge.publishing.recovery import Rebuilt, recover
from rowtide.merge.publishing.rows_at_hub import RowsAnswer, RowsRequest, SentRows, serve_rows
from rowtide.merge.publishing.schema_changes import notice
from rowtide.merge.publishing.schema_following import follow_sent, restore_rowguids
from rowtide.merge.publishing.schema_steps import SchemaStep, describe_schema, reading_schema
from rowtide.merge.publishing.snapshots import FileSnapshot, SnapshotProgress, copying, refill
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.history import Summary
from rowtide.merge.session.identity_ranges import forget_ranges, read_numberings, take_ranges
from rowtide.merge.session.messages import DeviceState, GivenRanges, RowBatch, SyncRequest, Transport
from rowtide.merge.session.over_transport import ALL_CHANGES, RequestedExchange, find_device, synchronise_over
from rowtide.merge.session.pairing import Pairing, require_tracked
from rowtide.merge.session.served_requests import SessionAnswer, UploadedBatches, meet, serve, serve_upload

Admit = Callable[[Pairing], None]
"""Raises an error for a subscription that does not belong to the requesting device."""


class DeviceTransport(Transport, Protocol):
    """Carries the messages of a device to its hub, and schema changes to the device."""

    def follow(self, state: DeviceState) -> SchemaStep:
        """Return what a device with earlier definitions than the hub needs, once it has uploaded everything."""

    def compare(self, request: RowsRequest) -> tuple[RowsAnswer, Sequence[RowBatch]]:
        """Return what the hub has of rows of a device whose tables a program has rebuilt."""


def synchronise_device(
    transport: DeviceTransport,
    node: Node,
    publication: str,
    subscriber_name: str,
    on_progress: Progress = lambda _phase, _done, _all: None,
    wanted: RequestedExchange = ALL_CHANGES,
) -> Summary:
    """Synchronise a device; one whose publisher's schema was changed uploads and follows first.

    Raises what `synchronise_over` and `follow_sent` raise.
    """
    omissions: list[Omission] = []

    def follow(device: DeviceHalf, state: DeviceState) -> None:
        if not wanted.reinitializes:
            require_tracked(node, subscriber_name, device.known)
        follow_sent(device, transport.follow(state), on_omission=omissions.append)

    summary = synchronise_over(transport, node, publication, subscriber_name, on_progress, wanted, follow)
    summary.omissions = omissions
    return summary


def recover_device(
    transport: DeviceTransport,
    node: Node,
    publication: str,
    subscriber_name: str,
    *,
    absent_is_delete: bool = False,
) -> Sequence[Recovered]:
    """Log what was changed in a device's tables while it was not tracked, and track them again; see `recover`.

    Raises what `recover` raises, and `NodeCopied`.
    """
    device = find_device(node, publication, subscriber_name)
    rebuilt = Rebuilt(node, subscriber_name, device.known, device.subscription.sent)
    hub = SentRows(device.describe_for_question(), transport.compare)
    return recover(rebuilt, hub, absent_is_delete=absent_is_delete)


def follow_hub(transport: DeviceTransport, node: Node, publication: str, subscriber_name: str) -> None:
    """Apply the hub's schema to a device, whether it has uploaded or not. Raises what `follow_sent` raises."""
    device = find_device(node, publication, subscriber_name)
    restore_rowguids(node, device.known)
    follow_sent(device, transport.follow(device.describe_for_question()))


def fill_again(
    node: Node,
    publication: str,
    subscriber_name: str,
    fetching: Callable[[], AbstractContextManager[Node]],
    *,
    is_uploaded: bool,
    on_progress: SnapshotProgress = lambda _article, _rows: None,
) -> None:
    """Fill a device's tables again from a file that its hub makes for it; that file's subscription becomes its own.

    If its changes were uploaded before, programs wait while the file is fetched, and later changes are not lost:
    `NodeBusy` is raised. The device gets the file's nickname, since it may be a copy or restored. With other
    publications it keeps its own nickname, and the file gets that.

    Raises `MergeSubscriptionUnknown`, `PublicationsShared`, `SchemaNotFollowed`, `NodeBusy`, `CopiedRowRefused`.
    """
    device = find_device(node, publication, subscriber_name)
    with ExitStack() as held:
        if is_uploaded:
            held.enter_context(copying(node))
            if node.rebuilt.is_logged():
                raise NodeBusy(subscriber_name, "rows were changed after the upload")
        made = held.enter_context(fetching())
        if not is_uploaded:
            held.enter_context(copying(node))
        # The hubs of other publications know the node by its number.
        is_same = read_nickname(made.connection) == read_nickname(node.connection)
        if len(list_publications(node.connection)) > 1 and not is_same:
            raise PublicationsShared(subscriber_name, publication)
        publication_there = get_publication(made.connection, publication)
        articles = list_articles(made.connection, publication_there.pubid)
        if {each.nickname: each for each in articles} != {each.nickname: each for each in device.known}:
            raise SchemaNotFollowed(subscriber_name, publication)
        (subscription,) = list_subscriptions(made.connection, publication_there.pubid)
        _take_rows(device, made, publication_there, articles, on_progress)
        _take_subscription(device, read_nickname(made.connection), publication_there, subscription)
        numbered = read_numberings(made, subscription, articles)
    ranges = {nickname: GivenRanges(each.owned, each.given) for nickname, each in numbered.items()}
    take_ranges(node, subscription, articles, ranges)


def _take_rows(
    device: DeviceHalf, made: Node, publication: Publication, articles: Sequence[Article], on_progress: SnapshotProgress
) -> None:
    included = {each.nickname: read_purged(made.connection, each.nickname) for each in articles}
    with made.changes.enumerating() as enumeration:
        snapshot = FileSnapshot(enumeration, articles, {}, included_there=included)
        refill(device.node, publication.pubid, publication.publisher, snapshot, on_progress)


def _take_subscription(device: DeviceHalf, nickname: int, publication: Publication, subscription: Subscription) -> None:
    """Store a file's subscription and nickname, in the caller's transaction."""
    connection, own = device.node.connection, [article.nickname for article in device.known]
    for source in (device.hub, read_nickname(connection)):
        remove_retries_of(connection, source, own)
    renew_nickname(connection, nickname)
    set_publisher(connection, publication.pubid, publication.publisher)
    remove_subscription(connection, device.subscription.subid)
    forget_ranges(connection, device.subscription.subid)
    put_subscription(connection, subscription)


def serve_device(
    hub: Node,
    request: SyncRequest,
    uploaded: UploadedBatches,
    admit: Admit = lambda _pairing: None,
) -> SessionAnswer:
    """Return the answer to a device's request; one that has earlier definitions uploads by these.

    Raises what `serve` and `serve_upload` raise, and `notice`.
    """
    if request.reinitializes:
        return serve_upload(hub, request, uploaded, admit)
    try:
        served = serve(hub, request, uploaded, admit)
    except SchemaNotFollowed:
        notice(hub, get_publication(hub.connection, request.state.publication))
        hub.forget_tables()
        return serve_upload(hub, request, uploaded, admit)
    if served.half is not None and served.half.pairing.leaving:
        finish_drops(hub, served.half.pairing.publication)
    return served


def serve_schema(hub: Node, state: DeviceState, admit: Admit = lambda _pairing: None) -> SchemaStep:
    """Return what a device needs to follow the hub's schema. Idempotent.

    Raises `SchemaNotFollowed` for a device that has the hub's definitions; what `meet` raises; `NodeBusy`.
    """
    found = _meet_known(hub, state)
    admit(found)
    follow_filters(hub, found)
    with reading_schema(hub, _meet_known(hub, state)) as schema:
        return describe_schema(schema)


def serve_comparison(
    hub: Node, request: RowsRequest, admit: Admit = lambda _pairing: None
) -> tuple[RowsAnswer, Sequence[RowBatch]]:
    """Return what a hub has of a device's rows; a change of its own schema is noticed first.

    Raises `SchemaNotFollowed` for a device that does not say its definitions, and what `meet`, `serve_rows` and
    `notice` raise.
    """
    found = _meet_known(hub, request.state)
    admit(found)
    notice(hub, found.publication)
    hub.forget_tables()
    return serve_rows(hub, _meet_known(hub, request.state), request)


def _meet_known(hub: Node, state: DeviceState) -> Pairing:
    found = meet(hub, state)
    if not isinstance(found, Pairing):
        raise SchemaNotFollowed(state.subid, state.publication)
    return found
