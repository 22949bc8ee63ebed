"""Counters that never decrease: each poll adds what is new since the one before. Pure.

A database forgets: its tables of history are bounded, unlogged ones are empty after a crash, and a failover loses what
was written last. A counter keeps what it has counted.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from rowtide.core.values import frozen

Labels = tuple[tuple[str, str], ...]
"""Names of labels with their values, without the database."""
Series = tuple[str, Labels]

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets of histograms, in seconds."""


@frozen
class Total:
    """A count that the database keeps itself."""

    metric: str
    labels: Labels
    value: float


@frozen
class CountedEvent:
    """A recorded event; `id` increases from one to the next."""

    id: int
    labels: Labels
    amount: float = 1.0


@frozen
class Events:
    """The last events of a kind, oldest first; `stream` distinguishes kinds of one metric.

    Without any, the database has none; what could not be read is no observation. The amount of the last one may still
    grow.
    """

    metric: str
    stream: str
    events: Sequence[CountedEvent]


@frozen
class Durations:
    """As `Events`, each with a duration in seconds as its amount, for a histogram."""

    metric: str
    stream: str
    events: Sequence[CountedEvent]


@frozen
class Present:
    """All values that a label can have: series of others are of something that was dropped, or has another name."""

    label: str
    values: frozenset[str]


Observation = Total | Events | Durations | Present


@frozen
class Histogram:
    """The number of durations in each bucket (not cumulative), the last without a bound; and their sum."""

    counts: tuple[int, ...] = (0,) * (len(BUCKETS) + 1)
    sum: float = 0.0

    def add(self, duration_s: float) -> Histogram:
        """Return the histogram with one more duration; one below 0, of two clocks, counts as 0."""
        known = max(duration_s, 0.0)
        place = bisect_left(BUCKETS, known)
        counts = tuple(count + (number == place) for number, count in enumerate(self.counts))
        return Histogram(counts, self.sum + known)


@dataclass
class DatabaseCounters:
    """The counters of a database, of one server; mutable."""

    timeline: int = 0
    counters: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Histogram] = field(default_factory=dict)
    _totals: dict[Series, float] = field(default_factory=dict)
    """The last value of each `Total`."""
    _marks: dict[str, tuple[int, float]] = field(default_factory=dict)
    """The last event of each stream that was counted, with its amount."""
    _before_failover: set[Series] = field(default_factory=set)
    """The totals that were last found on an earlier timeline."""

    def take(self, observations: Iterable[Observation], *, timeline: int, is_standby: bool = False) -> None:
        """Add what is new. After a failover, a total that is lower has lost something; else it was begun again.

        A standby may be behind the server that the poll before has read, and be read in turns with it: what is lower
        there is not new.
        """
        if timeline != self.timeline and not is_standby:
            self.timeline = timeline
            self._before_failover.update(self._totals)
        for observation in observations:
            match observation:
                case Total():
                    self._take_total(observation, is_standby=is_standby)
                case Events(metric, stream, events):
                    for event, amount in self._find_new(f"{metric} {stream}", events, is_standby=is_standby):
                        self._add((metric, event.labels), amount)
                case Durations(metric, stream, events):
                    for event, amount in self._find_new(f"{metric} {stream}", events, is_standby=is_standby):
                        if amount != event.amount:
                            # Counted before, with its duration at that time: a histogram cannot take it back.
                            continue
                        known = self.histograms.get((metric, event.labels), Histogram())
                        self.histograms[metric, event.labels] = known.add(event.amount)
                case Present() if not is_standby:
                    self._forget_others(observation)
                case Present():
                    pass
                case _:
                    assert_never(observation)

    def _add(self, series: Series, amount: float) -> None:
        self.counters[series] = self.counters.get(series, 0.0) + amount

    def _forget_others(self, present: Present) -> None:
        for kept in (self.counters, self.histograms, self._totals):
            for series in [key for key in kept if dict(key[1]).get(present.label, "") not in {"", *present.values}]:
                del kept[series]
        self._before_failover.intersection_update(self._totals)

    def _take_total(self, total: Total, *, is_standby: bool) -> None:
        series = total.metric, total.labels
        last = self._totals.get(series, 0.0)
        if is_standby and total.value < last:
            return
        self._totals[series] = total.value
        has_failed_over = series in self._before_failover
        if not is_standby:
            self._before_failover.discard(series)
        if total.value >= last:
            self._add(series, total.value - last)
        elif not has_failed_over:
            self._add(series, total.value)

    def _find_new(
        self, stream: str, events: Sequence[CountedEvent], *, is_standby: bool
    ) -> Sequence[tuple[CountedEvent, float]]:
        """Return the events that were not counted yet, and of the last one that was, by how much it has grown."""
        last_id, last_amount = self._marks.get(stream, (-1, 0.0))
        if not events:
            # Numbers that a crash or a failover lost are assigned again.
            if not is_standby:
                self._marks.pop(stream, None)
            return ()
        newest = max(events, key=lambda event: event.id)
        if is_standby and (newest.id, newest.amount) < (last_id, last_amount):
            return ()
        self._marks[stream] = newest.id, newest.amount
        grown = [(event, event.amount - last_amount) for event in events if event.id == last_id]
        new = [(event, event.amount) for event in events if event.id > last_id]
        return [*((event, amount) for event, amount in grown if amount > 0), *new]

    def copy(self) -> DatabaseCounters:
        """Return a copy of the counters for other threads."""
        return DatabaseCounters(self.timeline, dict(self.counters), dict(self.histograms))

    def encode(self) -> str:
        """Return it as JSON."""
        return json.dumps(
            {
                "timeline": self.timeline,
                "counters": [[metric, labels, value] for (metric, labels), value in self.counters.items()],
                "histograms": [
                    [metric, labels, histogram.counts, histogram.sum]
                    for (metric, labels), histogram in self.histograms.items()
                ],
                "totals": [[metric, labels, value] for (metric, labels), value in self._totals.items()],
                "marks": self._marks,
                "before_failover": sorted(self._before_failover),
            }
        )

    @classmethod
    def decode(cls, text: str) -> DatabaseCounters:
        """Decode the output of `encode`. Raises `ValueError`, `KeyError`, `TypeError`."""
        found = json.loads(text)
        return cls(
            int(found["timeline"]),
            {(metric, _labels(labels)): float(value) for metric, labels, value in found["counters"]},
            {
                (metric, _labels(labels)): Histogram(tuple(counts), float(total))
                for metric, labels, counts, total in found["histograms"]
                if len(counts) == len(BUCKETS) + 1
            },
            {(metric, _labels(labels)): float(value) for metric, labels, value in found["totals"]},
            {stream: (int(last), float(amount)) for stream, (last, amount) in found["marks"].items()},
            # Earlier builds did not keep it.
            {(metric, _labels(labels)) for metric, labels in found.get("before_failover", ())},
        )


def _labels(found: Iterable[Sequence[str]]) -> Labels:
    return tuple((name, value) for name, value in found)
