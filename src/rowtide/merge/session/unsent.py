"""What a subscriber has changed and the hub has not got."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.catalogue import find_publication, list_articles
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import Enumeration
from rowtide.merge.progress import list_retries, list_subscriptions

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
    with subscriber.enumerating() as enumeration:
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
