"""Counters never go backwards, whatever a database forgets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rowtide.monitor.counters import (
    BUCKETS,
    CountedEvent,
    DatabaseCounters,
    Durations,
    Events,
    Histogram,
    Present,
    Total,
)

ROWS = ("rows_total", ())
DURATION = "cycle_seconds"
ERRORS = ("errors_total", (("number", "7001"),))


def total(value: float) -> Total:
    return Total(*ROWS, value)


def errors(*ids: int) -> Events:
    return Events(ERRORS[0], "", [CountedEvent(id, ERRORS[1]) for id in ids])  # noqa: A001


def duration(*ids: int) -> Durations:
    return Durations(DURATION, "", [CountedEvent(id, ()) for id in ids])  # noqa: A001


def after(*found: Total | Events, timelines: Sequence[int] = ()) -> DatabaseCounters:
    """Return the counters after polls that have found these, by default on one timeline."""
    counted = DatabaseCounters(timeline=1)
    for number, one in enumerate(found):
        counted.take([one], timeline=timelines[number] if timelines else 1)
    return counted


def test_a_total_begins_with_what_is_recorded() -> None:
    assert after(total(5), total(7)).counters == {ROWS: 7}


def test_a_total_that_begins_again_is_added() -> None:
    assert after(total(5), total(2), total(3)).counters == {ROWS: 8}


def test_a_failover_that_loses_rows_adds_nothing() -> None:
    assert after(total(5), total(4), total(6), timelines=(1, 2, 2)).counters == {ROWS: 7}


def test_an_event_is_counted_once_while_it_is_listed() -> None:
    assert after(errors(1, 2), errors(1, 2, 3), errors(3)).counters == {ERRORS: 3}


def test_numbers_that_a_failover_gives_again_are_counted() -> None:
    counted = after(errors(7, 8), errors(7), errors(7, 8), timelines=(1, 2, 2))
    assert counted.counters == {ERRORS: 3}


@pytest.mark.parametrize("timelines", [(1, 1, 1), (1, 2, 2)])
def test_numbers_are_given_again_where_none_is_left(timelines: Sequence[int]) -> None:
    assert after(errors(1, 2), errors(), errors(1), timelines=timelines).counters == {ERRORS: 3}


def test_a_standby_without_events_counts_nothing_twice() -> None:
    counted = after(errors(1, 2))
    counted.take([errors()], timeline=1, is_standby=True)
    counted.take([errors(1, 2)], timeline=1)
    assert counted.counters == {ERRORS: 2}


def test_a_total_that_comes_back_after_a_failover_adds_nothing() -> None:
    counted = after(total(5))
    counted.take([], timeline=2)
    counted = DatabaseCounters.decode(counted.encode())
    counted.take([total(4)], timeline=2)
    assert counted.counters == {ROWS: 5}
    counted.take([total(1)], timeline=2)
    assert counted.counters == {ROWS: 6}


def test_a_standby_that_is_behind_counts_nothing_twice() -> None:
    counted = after(total(5))
    counted.take([errors(7, 8), duration(7, 8)], timeline=1)
    for timeline, is_standby in ((1, True), (3, True), (1, False)):
        found = (total(4), errors(7), duration(7)) if is_standby else (total(5), errors(7, 8), duration(7, 8))
        counted.take(found, timeline=timeline, is_standby=is_standby)
    assert counted.counters == {ROWS: 5, ERRORS: 2}
    assert counted.histograms[DURATION, ()].sum == 2.0
    counted.take([total(6), errors(9)], timeline=1, is_standby=True)
    counted.take([total(6), errors(9)], timeline=1)
    assert counted.counters == {ROWS: 6, ERRORS: 3}


def test_a_promoted_standby_counts_from_where_it_is() -> None:
    counted = after(total(5))
    counted.take([total(3)], timeline=1, is_standby=True)
    for value in (4, 6):
        counted.take([total(value)], timeline=2)
    assert counted.counters == {ROWS: 7}


def test_series_of_another_name_are_forgotten() -> None:
    def delivered(subscriber: str, commands: float) -> Total:
        return Total("commands_total", (("publication", "shop"), ("subscriber", subscriber)), commands)

    counted = after(delivered("old", 7), total(5))
    counted.take([delivered("new", 3), Present("subscriber", frozenset({"new"}))], timeline=1)
    new = ("commands_total", (("publication", "shop"), ("subscriber", "new")))
    assert counted.counters == {ROWS: 5, new: 3}
    counted.take([Present("subscriber", frozenset())], timeline=1, is_standby=True)
    assert counted.counters == {ROWS: 5, new: 3}
    counted.take([delivered("old", 2), Present("subscriber", frozenset({"old", "new"}))], timeline=1)
    assert sorted(counted.counters.values()) == [2, 3, 5]


def test_the_last_event_may_grow() -> None:
    counted = DatabaseCounters()
    for amount in (1.0, 3.0, 3.0):
        counted.take([Events("starts_total", "capture", [CountedEvent(4, (), amount)])], timeline=0)
    assert counted.counters == {("starts_total", ()): 3}


@pytest.mark.parametrize(
    ("duration_s", "place"), [(-1.0, 0), (0.05, 0), (0.06, 1), (600.0, len(BUCKETS) - 1), (601.0, len(BUCKETS))]
)
def test_a_duration_is_in_one_bucket(duration_s: float, place: int) -> None:
    added = Histogram().add(duration_s)
    assert [number for number, count in enumerate(added.counts) if count] == [place]
    assert added.sum == max(duration_s, 0.0)


def test_a_duration_is_observed_once() -> None:
    counted = DatabaseCounters()
    for duration in (1.0, 2.0):
        counted.take([Durations("cycle_seconds", "", [CountedEvent(1, (), duration)])], timeline=0)
    assert counted.histograms[("cycle_seconds", ())].sum == 1.0


def test_what_is_stored_is_read_again() -> None:
    counted = after(total(5), errors(1, 2))
    counted.take([Durations("cycle_seconds", "", [CountedEvent(1, (("phase", "Done"),), 0.5)])], timeline=1)
    read = DatabaseCounters.decode(counted.encode())
    assert read == counted
    read.take([total(6), errors(2, 3)], timeline=1)
    assert read.counters == {ROWS: 6, ERRORS: 3}
