"""What is pending for all subscribers of a publication, also for those that cannot be reached."""

from __future__ import annotations

from collections.abc import Callable

from rowtide.core.errors import RowtideError
from rowtide.merge.articles import DEFAULT_LIMITS
from rowtide.merge.catalogue import get_publication
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.progress import list_subscriptions
from rowtide.merge.session.pairing import pair
from rowtide.merge.session.pending import PendingChanges, list_downloads, list_pending

Unreachable = Callable[[str, RowtideError], None]
"""Called with a subscriber and the reason why only the hub was asked about it."""


def list_pending_of(
    hub_url: str, publication: str, subscriber: str, *, finds_conflicts: bool = False
) -> list[PendingChanges]:
    """Return what is pending for one subscriber, in both directions."""
    with open_node(hub_url) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
        pairing = pair(hub, node, publication, address(subscriber))
        return list_pending(hub, node, pairing, finds_conflicts=finds_conflicts)


def list_pending_of_all(
    hub_url: str, publication: str, *, finds_conflicts: bool, on_unreachable: Unreachable
) -> list[PendingChanges]:
    """Return what is pending for all subscribers; of those that cannot be asked, what the hub has for them."""
    with open_node(hub_url) as hub:
        pubid = get_publication(hub.connection, publication).pubid
        subscribers = [subscription.subscriber for subscription in list_subscriptions(hub.connection, pubid)]
        found: list[PendingChanges] = []
        for subscriber in subscribers:
            try:
                found += list_pending_of(hub_url, publication, subscriber, finds_conflicts=finds_conflicts)
            except RowtideError as error:
                on_unreachable(subscriber, error)
                found += list_downloads(hub, publication, subscriber)
        return found
