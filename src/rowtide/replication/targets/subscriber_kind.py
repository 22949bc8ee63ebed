"""What a kind of subscriber database offers.

What an agent that was killed left prepared at a subscriber, and what became of it. What a subscriber receives when it
subscribes. Sequences of published columns, as the publisher and a subscriber have them. Conflicts as `replication
conflicts` lists them. The interface of a subscriber to repairs, one implementation per database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from datetime import datetime
from typing import Protocol

from rowtide.copying.chunks import Chunk
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.conflicts import ConflictWinner, SettledRow
from rowtide.replication.distribution.delivery import Delivery
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.snapshot.objects import Need, Script
from rowtide.replication.snapshot.target import SnapshotStatus, SnapshotTarget, TableDetails
from rowtide.replication.subscription_settings import Constraints, IfExists, SubscriptionSettings
from rowtide.replication.targets.compared_rows import Row, SubscribedRows


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


COLUMN_SEQUENCE = """
select coalesce(pg_get_serial_sequence({table}, {column}), (
    select quote_ident(n.nspname) || '.' || quote_ident(s.relname)
    from pg_attribute a
    join pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum
    join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid
    join pg_class s on d.refclassid = 'pg_class'::regclass and s.oid = d.refobjid and s.relkind = 'S'
    join pg_namespace n on n.oid = s.relnamespace
    where a.attrelid = to_regclass({table}) and a.attname = {column} and a.attgenerated = ''
    order by s.oid limit 1))
where to_regclass({table}) is not null
"""
"""SQL of the sequence that numbers a column: its own, or the one in its default. Parameters are to be filled in."""


@frozen
class KeptConflict:
    """A conflict at a subscriber: rows as JSON objects of texts, null for none.

    `present_rows` are those that the change met, `present_times` when and where each was written last, where that is
    known. `winner` is what a person chose, None if nobody did: a stopped one is settled, too, once the change was
    delivered after all.
    """

    conflict_id: str
    logged_at: datetime
    publication: str
    subscriber: str
    article: str
    kind: str
    resolution: str
    operation: str
    xact_seqno: str
    command_id: int
    old_row: str | None
    new_row: str | None
    present_rows: str
    commit_time: datetime | None
    present_times: str
    state: str
    winner: str | None
    settled_by: str | None
    settled_at: datetime | None


@frozen
class ListedConflicts:
    """The conflicts of a subscription, newest first, and a mark that differs once one was kept, deleted or settled."""

    mark: tuple[int, ...] = ()
    conflicts: tuple[KeptConflict, ...] = ()


@frozen
class ConflictDecision:
    """What a person decides about a conflict that a subscriber keeps; with `is_preview` nothing is written.

    `over_later_changes`: rows that have changed since are replaced. `again`: an earlier decision is changed.
    """

    conflict_id: int
    winner: ConflictWinner
    decided_by: str | None = None
    over_later_changes: bool = False
    again: bool = False
    is_preview: bool = False


@frozen
class ConflictOutcome:
    """What a decision about a conflict writes at the subscriber, as the subscriber's own change.

    `changed_since` are the rows that are not as the conflict left them: what the decision would replace. `sent_to` are
    the databases that the subscriber delivers the table to. `waits`: delivery, which the conflict has stopped, makes or
    skips the change when it continues. `is_settled`: the same was decided before.
    """

    conflict_id: str
    subscriber: str
    table: str
    winner: ConflictWinner
    rows: tuple[SettledRow, ...]
    changed_since: tuple[SettledRow, ...] = ()
    sent_to: tuple[str, ...] = ()
    waits: bool = False
    is_settled: bool = False


@frozen
class RowCorrection:
    """What makes a row equal to the published one: `row` has all its values, of which an update sets `columns`."""

    article: Article
    operation: Operation
    key: Row
    row: Row
    columns: tuple[str, ...] = ()


@frozen
class RepairRecord:
    """What a repair did to a row, as JSON; `repair_id` and `ordinal` are its identity."""

    repair_id: str
    ordinal: int
    record: str


class RepairTransaction(Protocol):
    """A transaction at a subscriber that repairs rows at the position that it has; delivery waits for its end.

    It is a batch under the epoch of the subscription's agent, who continues after it: neither epoch nor position
    change.
    """

    @property
    def subscribed(self) -> SubscribedRows:
        """The subscriber's rows, which nobody else writes once they are read."""

    def try_change(self, change: RowCorrection) -> str | None:
        """Make a change; return why the subscriber refuses it, and then it is undone."""

    def try_together(self, changes: Sequence[RowCorrection]) -> Mapping[RowCorrection, str]:
        """Make changes that need each other, all or none; return why the subscriber refuses some.

        Deferrable constraints are checked at their end. Rows that are updated first give up the unique values that
        they lose, for others of them.
        """

    def commit(self, records: Sequence[RepairRecord]) -> None:
        """Commit the changes, with what they were."""


class RepairOutbox(Protocol):
    """What repairs did at a subscriber and the publisher does not have yet."""

    def read(self) -> Sequence[RepairRecord]:
        """Return the records, in the order of their identities."""

    def forget(self, records: Sequence[RepairRecord]) -> None:
        """Delete records that the publisher has. Idempotent."""


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
    recover: Callable[[str], Sequence[RecoveredTransaction]]
    """Commit or roll back the transactions that agents left prepared; return them."""
    make_scripted: Callable[[str, Sequence[Script]], None]
    """Create views and functions, or bring them up to date."""

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
    is_used: Callable[[str, Article], bool]
    """Return whether an article's table cannot be dropped, because something else uses it, as views do."""
    detach: Callable[[str, str, Sequence[Article]], None]
    """Remove what delivery needs of articles that left a subscription; their rows stay."""

    open_rows: Callable[[Subscription, Sequence[Article]], AbstractContextManager[SubscribedRows]]
    """Read the subscriber in one snapshot, to compare its rows."""
    open_repair: Callable[[Subscription, Sequence[Article]], AbstractContextManager[RepairTransaction]]
    """Begin a repair, which is rolled back unless it is committed."""
    open_outbox: Callable[[Subscription], AbstractContextManager[RepairOutbox]]
    """Open what repairs have recorded at the subscriber."""
    list_conflicts: Callable[[Subscription, ListedConflicts | None], ListedConflicts]
    """Return the conflicts that the subscriber has kept: those that are known if their mark is as it was."""
    settle_conflict: Callable[[Subscription, Sequence[Article], ConflictDecision], ConflictOutcome]
    """Decide about a conflict, in one transaction with what that writes."""
    move_sequences: Callable[[str, Sequence[PublishedSequence]], Sequence[SyncedSequence]]
    """Move sequences to where the publisher's are, none of them back; return those that were moved."""
