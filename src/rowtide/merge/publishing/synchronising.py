"""A synchronisation that follows schema changes first, if there are any."""

from __future__ import annotations

from collections.abc import Callable

from rowtide.merge.articles import ExchangeType, Progress
from rowtide.merge.errors.schema_changes import DefinitionsDiffer
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.table_parts import Omission
from rowtide.merge.publishing.exchange_requests import Recovered
from rowtide.merge.publishing.following import follow
from rowtide.merge.publishing.publications import finish_drops
from rowtide.merge.publishing.recovering import recover
from rowtide.merge.publishing.schema_changes import notice
from rowtide.merge.session.history import Summary
from rowtide.merge.session.pairing import Pairing, SchemaVersion, pair, require_known_schema, require_same_ends
from rowtide.merge.session.synchronisation import synchronise, upload

_MOST_CHANGES = 5
"""How often the schema may change while it is followed."""


def synchronise_following(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
) -> Summary:
    """Synchronise; a subscriber whose publisher's schema was changed uploads and follows first.

    Raises what `pair`, `synchronise`, `notice` and `follow` raise.
    """
    pairing = pair(hub, subscriber, publication, subscriber_name)
    before: list[Summary] = []
    omissions: list[Omission] = []
    for _ in range(_MOST_CHANGES):
        try:
            summary = synchronise(hub, subscriber, pairing, on_progress, exchange)
        except DefinitionsDiffer:
            pairing = _upload_earlier(hub, subscriber, pairing, on_progress, before, omissions)
        else:
            for earlier in before:
                summary.upload.add(earlier.upload)
            summary.omissions = omissions
            if pairing.leaving:
                finish_drops(hub, pairing.publication)
            return summary
    return synchronise(hub, subscriber, pairing, on_progress, exchange)


def _upload_earlier(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    on_progress: Progress,
    uploaded: list[Summary],
    omissions: list[Omission],
) -> Pairing:
    """Upload what the subscriber changed by its earlier definitions, let it follow, and return the new pairing."""
    names = pairing.publication.name, pairing.at_hub.subscriber
    notice(hub, pairing.publication)
    pairing = pair(hub, subscriber, *names)
    require_known_schema(hub, pairing)
    uploaded.append(upload(hub, subscriber, pairing, on_progress))
    hub.forget_tables()
    follow(hub, subscriber, pair(hub, subscriber, *names), on_omission=omissions.append)
    return pair(hub, subscriber, *names)


def upload_all(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_upload: Progress,
    on_recovered: Callable[[Recovered], None],
    *,
    absent_is_delete: bool = False,
) -> Summary:
    """Upload what a subscriber changed, tracked or not: see `recover`."""
    names = publication, subscriber_name
    pairing = pair(hub, subscriber, *names)
    notice(hub, pairing.publication)
    require_same_ends(hub, subscriber, pairing)
    for recovered in recover(hub, subscriber, pairing, absent_is_delete=absent_is_delete):
        on_recovered(recovered)
    return upload(hub, subscriber, pair(hub, subscriber, *names), on_upload)


def prepare_again(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_upload: Progress | None,
    on_recovered: Callable[[Recovered], None],
    *,
    absent_is_delete: bool,
) -> tuple[Summary | None, Pairing]:
    """Bring a subscriber to the publisher's schema before its tables are filled again.

    With `on_upload`, it uploads what it changed before, tracked or not: see `recover`. Return the result of that, and
    the pairing.
    """
    names = publication, subscriber_name
    summary = None
    if on_upload is None:
        notice(hub, pair(hub, subscriber, *names).publication)
    else:
        summary = upload_all(hub, subscriber, *names, on_upload, on_recovered, absent_is_delete=absent_is_delete)
    pairing = pair(hub, subscriber, *names)
    at_subscriber = pairing.at_subscriber
    if pairing.differing or SchemaVersion(at_subscriber.schema_version, at_subscriber.schema_guid) != pairing.schema:
        hub.forget_tables()
        follow(hub, subscriber, pairing)
        pairing = pair(hub, subscriber, *names)
    return summary, pairing
