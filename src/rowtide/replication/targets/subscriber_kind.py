"""What a kind of subscriber database offers: the interface, with what its functions take and return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Protocol

from rowtide.copying.chunks import Chunk
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.conflict_decisions import ConflictDecision, ConflictOutcome, ListedConflicts
from rowtide.replication.distribution.delivery_interface import Delivery
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.snapshot.objects import Need, Script
from rowtide.replication.snapshot.table_details import TableDetails
from rowtide.replication.snapshot.target import SnapshotStatus, SnapshotTarget
from rowtide.replication.subscription_settings import Constraints, IfExists, SubscriptionSettings
from rowtide.replication.targets.compared_rows import RepairOutbox, RepairTransaction, SubscribedRows


@frozen
class Delivered:
    """What a subscription delivers: tables, as `schema.table`, to the subscriber of a URL."""

    subscriber: str
    tables: frozenset[str]
    forwards: bool = True
    """Whether it also delivers what the publisher itself has received."""
    conflicts: str | None = None
    """What is done about conflicts; None: not decided."""


@frozen
class Originators:
    """Where a subscription's changes come from: the publisher, and all databases whose changes it delivers.

    `tables` are those that it delivers to, as `schema.table`. `onward` are the subscriptions, by subscriber's URL and
    guid, that forward what it delivers.
    """

    publisher: str
    databases: frozenset[str]
    tables: frozenset[str]
    onward: tuple[tuple[str, str], ...] = ()


@frozen
class ReceivedOrigins:
    """What a subscription delivers to a database: changes that `databases` have made, to tables, from `publisher`.

    All None: the database does not record it.
    """

    publisher: str | None
    databases: frozenset[str] | None
    tables: frozenset[str] | None

    def find_origins(self, table: str) -> frozenset[str]:
        """Return the databases whose changes of a table arrive; none if that is not known."""
        return self.databases or frozenset() if self.tables is not None and table in self.tables else frozenset()


UNKNOWN_ORIGINS = ReceivedOrigins(None, None, None)


@frozen
class DatabaseIdentity:
    """A database, and the subscriptions recorded in it.

    `database` is the same by every name of the database, and unique; None if it does not exist yet. `receives`: the
    subscriptions of which it, or the database it was copied from, is the subscriber; `delivers`: those of which it is
    the publisher; both by guid.
    """

    database: str | None
    receives: Mapping[str, ReceivedOrigins] = field(default_factory=dict)
    delivers: Mapping[str, Delivered] = field(default_factory=dict)


@frozen
class RecoveredTransaction:
    """A prepared transaction, by its name at the subscriber (PostgreSQL: gid); `outcome` is what was done with it."""

    name: str
    outcome: str


@frozen
class NewSnapshot:
    """Tables to be created and copied; `details` are each article's, `scripts` those of schema-only articles."""

    if_exists: IfExists
    details: tuple[TableDetails, ...]
    chunks: tuple[Chunk, ...]
    scripts: tuple[Script, ...] = ()


@frozen
class NewSubscription:
    """A subscription whose changes start at `position` of the publisher's log.

    `has_procedures`: the user created them; delivery that looks for conflicts has none. `needs` is what the columns'
    types need. `snapshot` None: the subscriber already has the tables and their rows. `beside` are the articles of the
    subscription that it joins, None if none; `replaced` is what the subscriber has of the article that joins, whose
    table may have another name there, and `altered` is what is applied to it if it is kept, emptied.
    """

    guid: str
    publication: str
    publisher_system: str
    position: Position
    articles: tuple[Article, ...]
    originators: Originators
    has_procedures: bool = False
    settings: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    constraints: Constraints | None = None
    snapshot: NewSnapshot | None = None
    needs: tuple[Need, ...] = ()
    beside: tuple[Article, ...] | None = None
    replaced: Article | None = None
    altered: tuple[Followed, ...] = ()

    @property
    def renamed(self) -> tuple[tuple[str, str], Article] | None:
        """The schema and name that the joining article's table has at the subscriber, if it has others by now."""
        if self.replaced is None:
            return None
        (article,) = self.articles
        before = (self.replaced.schema, self.replaced.table)
        return None if before == (article.schema, article.table) else (before, article)


@frozen
class PublishedSequence:
    """The sequence of a published column: its last value, whether it has given it out, and its step."""

    schema: str
    table: str
    column: str
    last_value: int
    is_called: bool
    increment: int


@frozen
class SyncedSequence:
    """A subscriber's sequence that was moved: what it would have given next, and what it gives now."""

    subscriber: str
    table: str
    column: str
    before: int
    now: int


class Forget(Protocol):
    """Removes a subscription's objects; with `is_added_again`, what another to the same tables needs to know stays."""

    def __call__(self, url: str, guid: str, articles: Iterable[Article], *, is_added_again: bool) -> None: ...


class OpenedSubscriber(SnapshotTarget, Protocol):
    """A subscriber as its agent opens it, which is copied to as long as there is something to copy."""

    def deliver(self, subscription: Subscription, articles: Sequence[Article]) -> Delivery:
        """Return delivery in place of this, once nothing has to be copied; it closes what this holds.

        Raises as `open_delivery`.
        """


@frozen(kw_only=True)
class ServerSubscribers:
    """What subscribers offer that are servers: others write to their tables, and they keep prepared transactions."""

    recover: Callable[[str], Sequence[RecoveredTransaction]]
    """Commit or roll back the transactions that agents left prepared; return them."""
    make_scripted: Callable[[str, Sequence[Script]], None]
    """Create views and functions, or bring them up to date."""
    list_conflicts: Callable[[Subscription, ListedConflicts | None], ListedConflicts]
    """Return the conflicts that the subscriber has kept: those that are known if their mark is as it was."""
    settle_conflict: Callable[[Subscription, Sequence[Article], ConflictDecision], ConflictOutcome]
    """Decide about a conflict, in one transaction with what that writes."""
    move_sequences: Callable[[str, Sequence[PublishedSequence]], Sequence[SyncedSequence]]
    """Move sequences to where the publisher's are, none of them back; return those that were moved."""
    is_used: Callable[[str, Article], bool]
    """Return whether an article's table cannot be dropped, because something else uses it, as views do."""


@frozen(kw_only=True)
class SubscriberKind:
    """What a kind of subscriber offers; subscribers are identified by URL, subscriptions by guid."""

    address: Callable[[str], str]
    """Return the URL as it is stored, valid wherever it is used. Raises `PasswordGiven`, `SubscriberWithoutFile`."""
    identify: Callable[[str], DatabaseIdentity]
    """Return the identity of the database that a URL leads to."""

    prepare: Callable[[str, NewSubscription], Sequence[str]]
    """Create delivery's objects and, for a snapshot, tables; return the unique constraints that these lack."""
    creations: Callable[[Iterable[Article]], Sequence[str]]
    """Return the statements that prepare a subscriber for articles."""
    forget: Forget
    server: ServerSubscribers | None
    """None of files: one connection at a time writes a batch, which is one transaction. They have tables alone, number
    new rows behind those that they have, drop tables under their views, and nobody else's changes are looked for.
    """

    open_snapshot: Callable[[Subscription], OpenedSubscriber]
    """Connect, and take over from any earlier agent, to copy what has to be copied."""
    open_delivery: Callable[[Subscription, Sequence[Article]], Delivery]
    """Connect, and take over from any earlier agent, to deliver."""
    require_streams: Callable[[str, str, int], None]
    """Require that a subscription can be delivered in this number of streams, and record that."""

    find_status: Callable[[str, str], SnapshotStatus | None]
    """Return how far the copy of a subscription is; None if the subscriber does not know the subscription."""
    has_joined: Callable[[str, str], bool]
    """Return whether the article of a joining subscription became one of the subscription that it joins."""
    detach: Callable[[str, str, Sequence[Article]], None]
    """Remove what delivery needs of articles that left a subscription; their rows stay."""

    open_rows: Callable[[Subscription, Sequence[Article]], AbstractContextManager[SubscribedRows]]
    """Read the subscriber in one snapshot, to compare its rows."""
    open_repair: Callable[[Subscription, Sequence[Article]], AbstractContextManager[RepairTransaction]]
    """Begin a repair, which is rolled back unless it is committed."""
    open_outbox: Callable[[Subscription], AbstractContextManager[RepairOutbox]]
    """Open what repairs have recorded at the subscriber."""
