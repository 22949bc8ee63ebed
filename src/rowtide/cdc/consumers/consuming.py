"""Consuming: a named consumer's next window over all its instances, acknowledged when the block ends without an error.

    with db.cdc.consume("warehouse") as window:
        for instance in window.instances:
            merge(window.net_changes(instance))

Each window begins after the last one that was acknowledged, without gap or overlap.

An instance that began later, or whose low endpoint was moved, begins in it with its own first LSN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, text

from rowtide.cdc.access import own_source, read_role_access
from rowtide.cdc.consumers import consumers
from rowtide.cdc.consumers.consumers import Consumer, ListedConsumer, find_consumer, list_lags
from rowtide.cdc.definitions import READER, read_source
from rowtide.cdc.errors import jobs as errors
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.functions import ChangeFunctions, session
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import ArrowChanges
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.requests import ConsumerChange, NewConsumer
from rowtide.cdc.spark_changes import Changes
from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn
from rowtide.core.options import takes
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def find_starts(consumer: Consumer, recorded: Mapping[str, RecordedInstance]) -> dict[str, CommitLsn]:
    """Return the first LSN of the next window, by the instances that capture has read.

    It is after the acknowledged LSN; for an instance that began later, its low endpoint; before the first
    acknowledgement, the low endpoint of each. Raises `ConsumerPassed`, `ConsumedInstanceEnded`.
    """
    starts = {}
    for consumed in consumer.instances:
        if not consumed.is_enabled:
            raise errors.ConsumedInstanceEnded(consumer.name, consumed.name)
        found = recorded.get(consumed.name)
        if found is not None and found.instance.member_id == consumed.member_id:
            starts[consumed.name] = _find_start(consumer, found)
    return starts


def _find_start(consumer: Consumer, recorded: RecordedInstance) -> CommitLsn:
    """Return an instance's first LSN; a higher low endpoint was moved there by a cleanup or a gap."""
    if consumer.acknowledged_lsn is None:
        return recorded.lsn
    start = consumer.acknowledged_lsn.increment()
    is_whole = recorded.state == ENABLED and (recorded.lsn <= start or recorded.note is None)
    if not is_whole:
        raise errors.ConsumerPassed(
            consumer=consumer.name,
            acknowledged=str(consumer.acknowledged_lsn),
            instance=recorded.instance.capture_instance,
            low=str(recorded.lsn),
            before=str(recorded.lsn.decrement()),
            reason=recorded.note or "capture has yet to resume after a gap",
        )
    return max(start, recorded.lsn)


_IDLE_NOTE = timedelta(minutes=1)
"""An empty window is recorded at most this often. It shows that the consumer is not behind, but is a write in the
source.
"""


@frozen
class Window:
    """A consumer's next window: (`after`, `to`] over all its instances.

    `after` is the last acknowledged LSN, None before the first acknowledgement; `to` is the last published LSN, None
    before that. `starts` has the first LSN by instance; an instance that capture has not read yet is not among them.
    """

    consumer: str
    after: CommitLsn | None
    to: CommitLsn | None
    starts: Mapping[str, CommitLsn]
    lake: Lake
    open_changes: Callable[[], Changes]
    """Opens the lake in Spark, for methods that return DataFrames."""

    @property
    def is_empty(self) -> bool:
        """Nothing was published since the last acknowledgement."""
        return self.to is None or (self.after is not None and self.to <= self.after)

    @property
    def instances(self) -> tuple[str, ...]:
        """The instances of the window, by name."""
        return tuple(sorted(self.starts))

    def all_changes(self, capture_instance: str, row_filter_option: str = "all") -> DataFrame:
        """Return every change of the window in an instance; see `Changes.get_all_changes`."""
        return self._ask(capture_instance, row_filter_option, net=False)

    def net_changes(self, capture_instance: str, row_filter_option: str = "all") -> DataFrame:
        """Return one change per key of the window in an instance; see `Changes.get_net_changes`."""
        return self._ask(capture_instance, row_filter_option, net=True)

    def table_changes(self, *capture_instances: str, row_filter_option: str = "all") -> DataFrame:
        """Return every change of the window in a table, over its instances, named oldest first."""
        share, changes = self._share(*capture_instances), self.open_changes()
        rows = changes.get_table_changes(capture_instances, share.start, share.end, row_filter_option)[0]
        return rows.limit(0) if share.is_empty else rows

    def stream_changes(
        self, capture_instance: str, row_filter_option: str = "all", *, net: bool = False
    ) -> ArrowChanges:
        """Return the rows of `all_changes`, or of `net_changes`, in their order as Arrow, without Spark."""
        share = self._share(capture_instance)
        ask = self.lake.get_net_changes if net else self.lake.get_all_changes
        rows = ask(capture_instance, share.start, share.end, row_filter_option)
        return rows.without_rows() if share.is_empty else rows

    def stream_table_changes(self, *capture_instances: str, row_filter_option: str = "all") -> ArrowChanges:
        """Return the rows of `table_changes` in their order as Arrow, without Spark."""
        share = self._share(*capture_instances)
        rows = self.lake.get_table_changes(capture_instances, share.start, share.end, row_filter_option)
        return rows.without_rows() if share.is_empty else rows

    def _share(self, *capture_instances: str) -> _Share:
        """Return the part of the window that is in some instances. Raises `InstanceUnknown`."""
        for name in capture_instances:
            if name not in self.starts:
                raise InstanceUnknown(name)
        start = min(self.starts[name] for name in capture_instances)
        is_empty = self.to is None or start > self.to
        return _Share(None, None, is_empty=True) if is_empty else _Share(start, self.to, is_empty=False)

    def _ask(self, capture_instance: str, row_filter_option: str, *, net: bool) -> DataFrame:
        share, changes = self._share(capture_instance), self.open_changes()
        ask = changes.get_net_changes if net else changes.get_all_changes
        rows = ask(capture_instance, share.start, share.end, row_filter_option)
        return rows.limit(0) if share.is_empty else rows


@frozen
class _Share:
    """The LSNs from `start` to `end`; without them only the columns are requested, for the whole validity interval."""

    start: CommitLsn | None
    end: CommitLsn | None
    is_empty: bool


class Consuming(ChangeFunctions):
    """Named consumers of one database. Calls that name one raise `ConsumerUnknown`."""

    def list_consumers(self) -> tuple[ListedConsumer, ...]:
        """Return all consumers, by name; without Spark."""
        from rowtide.log.store.location import open_own_manifest

        with translated(), self._engine.connect() as connection:
            manifest = open_own_manifest(read_source(connection, self._name, StoreFormat.require_readable))
            reader = manifest.state.readers.get(READER)
            published_as_of = reader.as_of if reader is not None else None
            return list_lags(connection, published_as_of)

    @takes(NewConsumer)
    def add_consumer(self, consumer: NewConsumer) -> None:
        """Create a consumer, which begins at the low endpoints.

        Raises `ConsumerExists`, `ConsumerInvalid`, `InstanceUnknown`, `NotOwner`.
        """
        with translated(), self._owning() as connection:
            consumers.add_consumer(connection, consumer)

    @takes(ConsumerChange)
    def change_consumer(self, change: ConsumerChange) -> None:
        """Change a consumer's instances or its limit; acknowledgements stay. Raises as `add_consumer`."""
        with translated(), self._owning() as connection:
            consumers.change_consumer(connection, change)

    def drop_consumer(self, name: str) -> None:
        """Remove a consumer: cleanup no longer waits for it. Raises `ConsumerOwned`, `NotOwner`."""
        with translated(), self._owning() as connection:
            consumers.drop_consumer(connection, name)

    @contextmanager
    def consume(self, name: str, *, spark: SparkSession | None = None) -> Iterator[Window]:
        """Open a consumer's next window, and acknowledge it at the end of the block, unless the block raises.

        Spark is used, and without `spark` started, only by the window's methods that return DataFrames.

        Raises `ConsumerPassed` if changes that it has not acknowledged were removed, `ConsumedInstanceEnded`,
        `ReadingDenied`; at the end `ConsumerContended`, `AcknowledgementDenied`.
        """
        with translated(), self._engine.connect() as connection:
            place = read_source(connection, self._name).lake
            known, reader = find_consumer(connection, name), read_role_access(connection)
        for instance in known.instances:
            if instance.is_enabled:
                reader.require(instance.name)
        # No connection stays open during the block, which may take hours.
        lake = Lake(place)
        published, recorded = lake.get_published_instances()
        starts = find_starts(known, recorded)
        open_changes = cache(lambda: Changes(session(spark, place), place))
        window = Window(name, known.acknowledged_lsn, published.lsn, starts, lake, open_changes)
        yield window
        if not window.is_empty:
            acknowledge_from(self._engine, known, window.to, published.time)
        elif is_worth_noting(known, published.time):
            acknowledge_from(self._engine, known, window.after, published.time)

    def acknowledge(self, name: str, lsn: CommitLsn) -> None:
        """Acknowledge up to an LSN explicitly. Raises `AcknowledgementRefused`, and as `consume` at its end."""
        with translated(), self._engine.connect() as connection:
            lake = read_source(connection, self._name).lake
            known = find_consumer(connection, name)
        high, last = PublishedLake(lake).get_max_lsn(), known.acknowledged_lsn
        if high is None or lsn > high:
            raise errors.AcknowledgementRefused(name, str(lsn), f"nothing is published above {high or 'it'}")
        if last is not None and lsn < last:
            raise errors.AcknowledgementRefused(name, str(lsn), f"it has acknowledged up to {last}")
        acknowledge_from(self._engine, known, lsn, LsnTimes(lake).find_time(lsn))

    @contextmanager
    def _owning(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            own_source(connection, self._name)
            yield connection


def acknowledge_from(engine: Engine, known: Consumer, lsn: CommitLsn | None, time: datetime | None) -> None:
    """Advance a consumer from its known position. Raises `ConsumerContended`, `AcknowledgementDenied`."""
    with translated(), engine.begin() as connection:
        # A role that reads through the monitor's view acknowledges in the table itself.
        connection.execution_options(schema_translate_map=None)
        # Only from the position at which the window began, because two processes with one name would skip each other's
        # windows.
        if consumers.acknowledge(connection, known, lsn, time):
            return
        found = find_consumer(connection, known.name)
        if found.acknowledged_lsn != known.acknowledged_lsn:
            raise errors.ConsumerContended(known.name, str(found.acknowledged_lsn))
        raise _denied(connection, known)


def is_worth_noting(known: Consumer, time: datetime | None) -> bool:
    """Return whether an empty window is to be recorded, up to a time."""
    since = known.acknowledged_time
    return time is not None and since is not None and time - since >= _IDLE_NOTE


def _denied(connection: Connection, known: Consumer) -> errors.AcknowledgementDenied:
    role = str(connection.execute(text("select current_user")).scalar_one())
    if known.role_name is None:
        return errors.AcknowledgementDenied(role, known.name, "Ask the owner: the consumer was made without a role")
    return errors.AcknowledgementDenied(role, known.name, f"Run `grant {quote(known.role_name)} to {quote(role)}`")
