"""Positions of followers: a named consumer's acknowledgement, or one that this process alone knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection, Engine

from rowtide.cdc.consumers.consumers import Consumer, find_consumer
from rowtide.cdc.consumers.consuming import acknowledge_from, find_starts, is_worth_noting
from rowtide.cdc.errors.consuming import ConsumerContended, NotOfConsumer
from rowtide.cdc.errors.querying import InstanceUnknown
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.published import ENABLED, Publication, RecordedInstance
from rowtide.cdc.queries.lsn_times import Bound, LsnTimes
from rowtide.core.lsn import CommitLsn


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
        self, lake: Lake, published: Publication, recorded: Mapping[str, RecordedInstance]
    ) -> Mapping[str, CommitLsn]:
        """Return the first LSN to be read of each instance that capture has met."""
        ...

    def advance(self, lsn: CommitLsn, time: datetime | None) -> None:
        """Move on to an LSN; everything committed by `time` is delivered."""
        ...

    def note_idle(self, time: datetime | None) -> None:
        """Take note of that nothing was published up to a time."""
        ...


class OwnPosition:
    """A position that nothing stores; it begins at `begin`, by default behind the last published LSN."""

    def __init__(self, instances: Sequence[str], begin: Bound | None) -> None:
        self._instances, self._begin = tuple(dict.fromkeys(instances)), begin
        self._first: CommitLsn | None = None
        self._has_begun = False
        self.after: CommitLsn | None = None

    def read_instances(self, _connection: Connection) -> Sequence[str]:
        """Return the instances."""
        return self._instances

    def find_starts(
        self, lake: Lake, published: Publication, recorded: Mapping[str, RecordedInstance]
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

    def _find_beginning(self, lake: Lake, published: Publication, names: Sequence[str]) -> CommitLsn | None:
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
        # The answer to an acknowledgement may have been lost, and the acknowledgement not.
        expected = (self.after, self._attempted)
        if self._known is not None and found.acknowledged_lsn not in expected:
            raise ConsumerContended(self._name, str(found.acknowledged_lsn))
        self._known = found
        return [instance.name for instance in found.instances if instance.is_enabled]

    def find_starts(
        self, _lake: Lake, _published: Publication, recorded: Mapping[str, RecordedInstance]
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
