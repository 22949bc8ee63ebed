"""Followers: they read newly published changes in the order of LSNs, from a position that they or a consumer keeps.

run_agent(follower.open, stop=stop, idle_s=0)

A position advances when its sink reports everything up to it as durable, so events are delivered at least once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from importlib.metadata import version
from itertools import chain
from typing import Protocol

import pyarrow as pa
from sqlalchemy import Connection, Engine

from rowtide.cdc.access import read_role_access
from rowtide.cdc.consumers.consumers import Consumer, find_consumer
from rowtide.cdc.consumers.consuming import acknowledge_from, find_starts, is_worth_noting
from rowtide.cdc.definitions import read_source
from rowtide.cdc.errors.jobs import ConsumerContended, NotOfConsumer
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.following.row_events import (
    NOTHING,
    EventFormat,
    Origin,
    ProducerInfo,
    TransactionRange,
    as_row_events,
    format_events,
    read_transactions,
)
from rowtide.cdc.following.sinks import Interrupted, Sink
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.ordering import ORDER, OrderedRows, merge
from rowtide.cdc.published import ENABLED, LakePublication, RecordedInstance, read_visible_publication
from rowtide.cdc.queries.lsn_times import Bound, LsnTimes
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.delta.errors import LakeReadFailed
from rowtide.storage.places import local_folder


class StreamPosition(Protocol):
    """Where the stream resumes: behind `after`; None before the first event."""

    @property
    def after(self) -> CommitLsn | None:
        """The LSN up to which everything is delivered."""
        ...

    def read_instances(self, connection: Connection) -> Sequence[str]:
        """Return the names of the instances to be followed, as the database has them now."""
        ...

    def find_starts(
        self, lake: Lake, published: LakePublication, recorded: Mapping[str, RecordedInstance]
    ) -> Mapping[str, CommitLsn]:
        """Return the first LSN to be read of each instance that capture has met."""
        ...

    def advance(self, lsn: CommitLsn, time: datetime | None) -> None:
        """Advance to an LSN; everything committed by `time` is delivered."""
        ...

    def note_idle(self, time: datetime | None) -> None:
        """Note that nothing was published up to a time."""
        ...


class OwnPosition:
    """A position that is not stored; it begins at `begin`, by default after the last published LSN."""

    def __init__(self, instances: Sequence[str], begin: Bound | None) -> None:
        self._instances, self._begin = tuple(dict.fromkeys(instances)), begin
        self._first: CommitLsn | None = None
        self._has_begun = False
        self.after: CommitLsn | None = None

    def read_instances(self, _connection: Connection) -> Sequence[str]:
        """Return the instances."""
        return self._instances

    def find_starts(
        self, lake: Lake, published: LakePublication, recorded: Mapping[str, RecordedInstance]
    ) -> Mapping[str, CommitLsn]:
        """Return the position in each instance; the low endpoint of one that was enabled later.

        A low endpoint that a cleanup or a gap moved is left to the readers to refuse. Raises `TimeOutOfRange`,
        `InstanceUnknown`.
        """
        known = {name: recorded[name] for name in self._instances if name in recorded}
        if not self._has_begun:
            self.after, self._has_begun = self._find_beginning(lake, published, list(known)), True
        for name, one in known.items():
            if one.state != ENABLED:
                raise InstanceUnknown(name)
        return {name: self._start_of(one) for name, one in known.items()}

    def advance(self, lsn: CommitLsn, _time: datetime | None) -> None:
        """Move on."""
        self.after = lsn

    def note_idle(self, _time: datetime | None) -> None:
        """Store nothing."""

    def _start_of(self, recorded: RecordedInstance) -> CommitLsn:
        if self.after is None:
            return recorded.lsn
        start = self.after.increment()
        return max(start, recorded.lsn) if recorded.note is None else start

    def _find_beginning(self, lake: Lake, published: LakePublication, names: Sequence[str]) -> CommitLsn | None:
        match self._begin:
            case None:
                return published.lsn
            case CommitLsn() as lsn:
                return lsn.decrement() if lsn.value else None
            case datetime() as time:
                found = [LsnTimes(lake.lake).find_window(name, time, None)[0] for name in names]
                lsns = [lsn for lsn in found if lsn is not None]
                return min(lsns).decrement() if lsns else None


class ConsumerPosition:
    """A named consumer's acknowledgement: it survives the process, and cleanup waits for it.

    Calls raise `ConsumerUnknown`, `ConsumerContended` if another process moves it, `AcknowledgementDenied`.
    """

    def __init__(self, engine: Engine, name: str, asked: Sequence[str]) -> None:
        self._engine, self._name, self._asked = engine, name, tuple(asked)
        self._known: Consumer | None = None
        self._attempted: CommitLsn | None = None

    @property
    def after(self) -> CommitLsn | None:
        """The acknowledged LSN."""
        return self._known.acknowledged_lsn if self._known is not None else None

    def read_instances(self, connection: Connection) -> Sequence[str]:
        """Return the consumer's instances that are enabled. Raises `NotOfConsumer` too."""
        found = find_consumer(connection, self._name)
        if self._asked and set(self._asked) != set(found.instance_names):
            raise NotOfConsumer(self._name, ", ".join(found.instance_names), ", ".join(self._asked))
        # An acknowledgement may have been stored although its reply was lost.
        expected = (self.after, self._attempted)
        # Two processes that follow with one consumer would each get a part of the events.
        if self._known is not None and found.acknowledged_lsn not in expected:
            raise ConsumerContended(self._name, str(found.acknowledged_lsn))
        self._known = found
        return [instance.name for instance in found.instances if instance.is_enabled]

    def find_starts(
        self, _lake: Lake, _published: LakePublication, recorded: Mapping[str, RecordedInstance]
    ) -> Mapping[str, CommitLsn]:
        """Return the next window's first LSNs. Raises `ConsumerPassed`, `ConsumedInstanceEnded`."""
        return find_starts(self._consumer, recorded)

    def advance(self, lsn: CommitLsn, time: datetime | None) -> None:
        """Acknowledge."""
        self._attempted = lsn
        reached = time or self._consumer.acknowledged_time
        acknowledge_from(self._engine, self._consumer, lsn, reached)
        self._known = replace(self._consumer, acknowledged_lsn=lsn, acknowledged_time=reached)

    def note_idle(self, time: datetime | None) -> None:
        """Record, once a minute, that the consumer is not behind."""
        if self.after is not None and is_worth_noting(self._consumer, time):
            self.advance(self.after, time)

    @property
    def _consumer(self) -> Consumer:
        assert self._known is not None, "the consumer is read before it is used"
        return self._known


_ACKNOWLEDGED_EVERY_S = 1.0
_OPENED_EVERY_S = 10.0
"""The interval at which definitions and rights are read again while nothing is published."""


@frozen
class PollPauses:
    """Pauses between looks while nothing is published: from `first_s`, growing by half to `longest_s`."""

    first_s: float
    longest_s: float


LOCAL, REMOTE = PollPauses(0.2, 1.0), PollPauses(1.0, 10.0)
"""Of lakes in a folder; and on an object store, where each look is a paid request."""


@frozen
class _OpenedLake:
    """A lake with what it publishes, and where reading resumes in each instance that capture has met.

    `end`: reading stops there, before a transaction whose changes are missing, else at the last published LSN.
    """

    lake: Lake
    source_id: str
    published: LakePublication
    starts: Mapping[str, CommitLsn]
    end: CommitLsn | None
    opened_at: float


class Follower:
    """An agent, each step of which looks for new publications and delivers them.

    Steps raise as windows of consumers do: `InstanceUnknown`, `ReadingDenied`, `LsnOutOfRange`, `RangeOverGap`, and
    what positions and sinks raise.
    """

    def __init__(
        self,
        url: str,
        position: StreamPosition,
        sink: Sink,
        form: EventFormat,
        stop: threading.Event,
        idle_timeout_s: float | None = None,
    ) -> None:
        parsed = parse_url(url)
        self._engine, self._name, self._database = open_engine(url), parsed.name, parsed.database or ""
        self._position, self._sink, self._form = position, sink, form
        self._stop, self._idle_timeout_s = stop, idle_timeout_s
        self._opened: _OpenedLake | None = None
        self._read_to: CommitLsn | None = None
        self._durable: CommitLsn | None = None
        self._ends: list[tuple[CommitLsn, datetime | None]] = []
        self._acknowledged_at = 0.0
        self._last_news = time.monotonic()
        self._pause_s = 0.0

    @contextmanager
    def open(self) -> Iterator[Follower]:
        """Open for a run of steps, from the position on; at the end, durable events are acknowledged."""
        self._read_to = None
        # Connects here, so that a wrong address is reported before the first step.
        self._opened = self._open()
        try:
            yield self
        finally:
            # In this order, because an acknowledgement means that the sink has everything up to it.
            self._note_durable(self._sink.close())
            self._acknowledge()

    def step(self) -> bool:
        """Deliver what is new, or pause; return whether something was published."""
        with suppress(Interrupted):
            opened = self._look()
            if opened is not None:
                with self._moves_retried(opened.lake.lake):
                    self._deliver(opened)
                self._last_news, self._pause_s = time.monotonic(), 0.0
                return True
            self._note_durable(self._sink.settle())
            self._acknowledge()
            self._pause()
        return False

    def _look(self) -> _OpenedLake | None:
        """Return the lake if something was published behind what was read."""
        opened = self._opened
        assert opened is not None, "the follower is opened before its steps"
        if time.monotonic() - opened.opened_at > _OPENED_EVERY_S:
            opened = self._opened = self._open()
            if opened.end is None or not self._is_new(opened.end):
                self._position.note_idle(opened.published.time)
        else:
            published = read_visible_publication(opened.lake.lake)
            # The database may have been switched to another lake, and the old one removed.
            if published is None or (published.lsn is not None and self._is_new(published.lsn)):
                opened = self._opened = self._open()
        return opened if opened.end is not None and self._is_new(opened.end) else None

    def _is_new(self, lsn: CommitLsn) -> bool:
        read_to = self._read_to or self._position.after
        return read_to is None or lsn > read_to

    @contextmanager
    def _moves_retried(self, lake: str) -> Iterator[None]:
        """Raise the retryable `LakeReadFailed` for an error in a lake that was switched, and may be removed."""
        try:
            yield
        except RowtideError as error:
            with translated(), self._engine.connect() as connection:
                if read_source(connection, self._name).lake == lake:
                    raise
            raise LakeReadFailed(lake, "its database has another lake now") from error

    def _open(self) -> _OpenedLake:
        with translated(), self._engine.connect() as connection:
            source, reader = read_source(connection, self._name), read_role_access(connection)
            names = self._position.read_instances(connection)
        lake = Lake(source.lake)
        published, recorded = lake.get_published_instances()
        for name in names:
            reader.require(name)
            if name not in reader.known and name not in recorded:
                raise InstanceUnknown(name)
        starts = self._position.find_starts(lake, published, recorded)
        if self._read_to is not None:
            starts = {name: max(start, self._read_to.increment()) for name, start in starts.items()}
        end = _find_end(published.lsn, starts, recorded)
        return _OpenedLake(lake, source.source_id, published, starts, end, time.monotonic())

    def _deliver(self, opened: _OpenedLake) -> None:
        """Deliver what is published, some transactions at a time."""
        assert opened.end is not None
        read_to = self._read_to or self._position.after
        low = read_to.increment() if read_to is not None else min(opened.starts.values(), default=opened.end)
        for part in read_transactions(opened.lake.lake, opened.published.cycle, low, opened.end):
            for events, whole_to in self._read(opened, part):
                # A batch without events only reports what is complete, so it is delivered after a stop too.
                if self._stop.is_set() and events.num_rows:
                    return
                for durable in self._sink.deliver(events, whole_to):
                    self._note_durable(durable, part)
                    self._acknowledge_at_times()
            is_last = part.high == opened.published.lsn
            self._ends.append((part.high, opened.published.time if is_last else part.find_end(part.high)))
            self._read_to = part.high
            self._acknowledge()

    def _read(self, opened: _OpenedLake, part: TransactionRange) -> Iterator[tuple[pa.RecordBatch, CommitLsn]]:
        """Yield the events of some transactions, with the LSN up to which these are complete."""
        sources = [self._open_source(opened, name, part) for name in sorted(opened.starts)]
        rows = merge(source for source in sources if source is not None)
        for events in rows:
            # More events of the last transaction may follow, so only what lies below it is complete.
            yield events, CommitLsn(events.column(ORDER[0])[-1].as_py()).decrement()
        yield NOTHING, part.high

    def _open_source(self, opened: _OpenedLake, name: str, part: TransactionRange) -> OrderedRows | None:
        """Return an instance's events; None if there are none."""
        start = max(opened.starts[name], part.low)
        if start > part.high:
            return None
        changes = opened.lake.get_all_changes(name, start, part.high, "all update old")
        origin = Origin(opened.source_id, self._database, changes.instance)
        making = ProducerInfo(version("rowtide"), time.time_ns() // 1_000_000)
        found = (
            format_events(self._form, origin, events, making)
            for events in as_row_events(changes.batches(), changes.instance, part)
        )
        first = next(found, None)
        if first is None:
            return None
        return OrderedRows(first.column(ORDER[0])[0].as_py(), part.high.value, lambda: chain([first], found))

    def _note_durable(self, lsn: CommitLsn | None, part: TransactionRange | None = None) -> None:
        if lsn is None or not self._is_ahead(lsn):
            return
        self._durable = lsn
        if part is not None and lsn < part.high:
            self._ends.append((lsn, part.find_end(lsn)))

    def _is_ahead(self, lsn: CommitLsn) -> bool:
        return self._position.after is None or lsn > self._position.after

    def _acknowledge_at_times(self) -> None:
        if time.monotonic() - self._acknowledged_at >= _ACKNOWLEDGED_EVERY_S:
            self._acknowledge()

    def _acknowledge(self) -> None:
        """Move the position on to what is durable."""
        durable = self._durable
        if durable is None or not self._is_ahead(durable):
            return
        passed = [end for lsn, end in self._ends if lsn <= durable and end is not None]
        self._position.advance(durable, max(passed, default=None))
        self._ends = [(lsn, end) for lsn, end in self._ends if lsn > durable]
        self._acknowledged_at = time.monotonic()

    def _pause(self) -> None:
        if self._idle_timeout_s is not None:
            left_s = self._last_news + self._idle_timeout_s - time.monotonic()
            if left_s <= 0:
                self._stop.set()
                return
        assert self._opened is not None
        pace = REMOTE if local_folder(self._opened.lake.lake) is None else LOCAL
        self._pause_s = min(max(self._pause_s * 1.5, pace.first_s), pace.longest_s)
        self._stop.wait(self._pause_s if self._idle_timeout_s is None else min(self._pause_s, left_s))


def _find_end(
    published: CommitLsn | None, starts: Mapping[str, CommitLsn], recorded: Mapping[str, RecordedInstance]
) -> CommitLsn | None:
    """Return the end up to which a stream is complete. A transaction whose changes are missing ends one stream, and
    begins the next.
    """
    missing = [
        missing.lsn
        for name, start in starts.items()
        for missing in recorded[name].missing
        if start < missing.lsn and (published is not None and missing.lsn <= published)
    ]
    return min(missing).decrement() if missing else published
