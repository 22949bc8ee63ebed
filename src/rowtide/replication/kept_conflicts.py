"""Decide about conflicts that subscribers keep, and list them of all subscribers, reachable or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    Identity,
    MetaData,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    text,
)

from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import has_table
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import SCHEMA
from rowtide.replication.articles.articles import Article
from rowtide.replication.conflicts import ConflictDecision, ConflictOutcome, KeptConflict, ListedConflicts
from rowtide.replication.distributor import history, publication_records, subscription_records
from rowtide.replication.distributor.definitions import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import ConflictsUnknown, DeliveryConflictUnknown
from rowtide.replication.errors.subscribing import SubscriptionUnknown
from rowtide.replication.targets.kinds import kind_of


@frozen
class UnreadSubscriber:
    """A subscriber whose conflicts could not be read, and are not known since it was last delivered to.

    `since` None: nothing was delivered to it in the last 48 hours.
    """

    publication: str
    subscriber: str
    since: datetime | None
    reason: str


@frozen
class KeptConflicts:
    """The conflicts of subscribers, newest first for each subscription, and the subscribers that could not be read.

    `listed` are those of each subscription, by its guid.
    """

    listed: Mapping[str, ListedConflicts]
    unread: tuple[UnreadSubscriber, ...]

    @property
    def conflicts(self) -> tuple[KeptConflict, ...]:
        """The conflicts of all of them."""
        return tuple(conflict for one in self.listed.values() for conflict in one.conflicts)


NO_CONFLICTS = KeptConflicts({}, ())


def read_conflicts(
    engine: Engine, url: str, publication: str | None, subscriber: str | None, known: KeptConflicts = NO_CONFLICTS
) -> KeptConflicts:
    """Return the conflicts of all subscriptions, or of a publication's or a subscriber's.

    Of subscribers where nothing changed since `known` was read, no row is read again. Raises `PublicationUnknown`,
    `SubscriptionUnknown`.
    """
    with translated(), engine.connect() as connection:
        chosen = _choose(engine, url, publication, subscriber)
        reached = history.list_last_reached(connection)
    # Without a transaction at the publisher: a subscriber may not answer for long.
    listed: dict[str, ListedConflicts] = {}
    unread: list[UnreadSubscriber] = []
    for one in chosen:
        try:
            listed[one.guid] = kind_of(one.subscriber).list_conflicts(one, known.listed.get(one.guid))
        except RowtideError as error:
            since = reached.get(one.agent_id)
            unread.append(UnreadSubscriber(one.publication, redact(one.subscriber), since, str(error)))
    return KeptConflicts(listed, tuple(unread))


def require_read(unread: Sequence[UnreadSubscriber]) -> None:
    """Raise `ConflictsUnknown` if a subscriber could not be read."""
    if unread:
        raise ConflictsUnknown("; ".join(map(_describe_unread, unread)))


def _describe_unread(one: UnreadSubscriber) -> str:
    since = "" if one.since is None else f" since {one.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{one.subscriber} of {one.publication}{since} ({one.reason})"


def resolve(
    engine: Engine, url: str, publication: str | None, subscriber: str, decision: ConflictDecision
) -> ConflictOutcome:
    """Decide about a conflict that a subscriber keeps.

    Raises `PublicationUnknown`, `SubscriptionUnknown`, and as `SubscriberKind.settle_conflict`.
    """
    unknown: DeliveryConflictUnknown | None = None
    for one in _choose(engine, url, publication, subscriber):
        try:
            return kind_of(one.subscriber).settle_conflict(one, _list_articles(engine, one), decision)
        except DeliveryConflictUnknown as error:
            unknown = error
    assert unknown is not None
    raise unknown


def _choose(engine: Engine, url: str, publication: str | None, subscriber: str | None) -> Sequence[Subscription]:
    """Return subscriptions. Raises `PublicationUnknown`, `SubscriptionUnknown`."""
    wanted = None if subscriber is None else kind_of(subscriber).address(subscriber)
    with translated(), engine.connect() as connection:
        read_source(connection, url, StoreFormat.require_readable)
        if publication is not None:
            publication_records.get_publication(connection, publication)
        known = subscription_records.list_subscriptions(connection, publication)
    chosen = [found for found in known if wanted in (None, found.subscriber)]
    if wanted is not None and not chosen:
        raise SubscriptionUnknown(publication or "any", wanted)
    return chosen


def _list_articles(engine: Engine, subscription: Subscription) -> Sequence[Article]:
    with translated(), engine.connect() as connection:
        return subscription_records.list_subscribed(connection, subscription.agent_id)


# Comments on conflicts of delivery, which the publisher keeps: a subscriber may not be reached. The table is made
# with the first comment.

RETENTION_DAYS = 14
"""As long as subscribers keep conflicts: what is older is of none."""

comments = Table(
    "conflict_comments",
    MetaData(schema=SCHEMA),
    Column("comment_id", BigInteger, Identity(), primary_key=True),
    Column(
        "conflict_id", Text, nullable=False, index=True, comment="of the publication, subscriber and conflict there"
    ),
    Column("commented_at", DateTime(timezone=True), nullable=False, server_default=func.clock_timestamp()),
    Column("commented_by", Text, nullable=False),
    Column("comment", Text, nullable=False),
)
_ALONE = text("select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('rowtide conflict comments', 0))")


@frozen
class ConflictComment:
    """What somebody wrote about a conflict."""

    conflict_id: str
    commented_at: datetime
    commented_by: str
    comment: str


def add_comment(connection: Connection, conflict_ids: Sequence[str], comment: str, commented_by: str) -> None:
    """Record a comment on conflicts, in the caller's transaction; comments older than any conflict go."""
    connection.execute(_ALONE)
    comments.create(connection, checkfirst=True)
    age = func.make_interval(0, 0, 0, RETENTION_DAYS)
    connection.execute(delete(comments).where(comments.c.commented_at < func.now() - age))
    values = {"commented_by": commented_by, "comment": comment}
    connection.execute(insert(comments), [{"conflict_id": one, **values} for one in conflict_ids])


def list_comments(connection: Connection) -> Mapping[str, Sequence[ConflictComment]]:
    """Return the comments on each conflict that has any, oldest first."""
    found: dict[str, list[ConflictComment]] = {}
    if not has_table(connection, SCHEMA, comments.name):
        return found
    c = comments.c
    columns = (c.conflict_id, c.commented_at, c.commented_by, c.comment)
    for row in connection.execute(select(*columns).order_by(c.comment_id)):
        found.setdefault(row.conflict_id, []).append(ConflictComment(*row))
    return found
