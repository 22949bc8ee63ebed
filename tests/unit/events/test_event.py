"""Who gets events, and under which names."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from rowtide.events import Emitted, Event, Level, catalogue, listening
from rowtide.events.catalogue import JobStarted, StoreSlow, TableJoined
from rowtide.events.event import Scope, emit, inheriting, process_scope, scope, use_log

ALL = [one for one in vars(catalogue).values() if isinstance(one, type) and issubclass(one, Event) and one is not Event]
"""Not `__subclasses__`: classes with slots are made twice, and the first ones go when garbage is collected."""


@pytest.fixture
def heard() -> Iterator[list[Emitted]]:
    found: list[Emitted] = []
    with listening(found.append):
        yield found


def test_a_scope_names_database_and_job(heard: list[Emitted]) -> None:
    with scope("shop", "capture"):
        emit(JobStarted())
        with scope(job="upkeep"):
            emit(JobStarted())
    emit(JobStarted())

    assert [one.scope for one in heard] == [Scope("shop", "capture"), Scope("shop", "upkeep"), Scope()]


def test_a_thread_emits_as_the_one_that_started_it(heard: list[Emitted]) -> None:
    with scope("shop", "capture"):
        threads = [
            threading.Thread(target=inheriting(emit, job="snapshots"), args=(JobStarted(),)),
            threading.Thread(target=inheriting(emit), args=(JobStarted(),)),
        ]
    with process_scope("other", "agent"):
        threads.append(threading.Thread(target=emit, args=(JobStarted(),)))
        for thread in threads:
            thread.start()
            thread.join()

    assert [(one.scope.database, one.scope.job) for one in heard] == [
        ("shop", "snapshots"),
        ("shop", "capture"),
        ("other", "agent"),
    ]


def test_a_function_that_inherits_may_run_in_many_threads(heard: list[Emitted]) -> None:
    with scope("shop"):
        run = inheriting(emit, job="copies")
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        run(JobStarted())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [one.scope for one in heard] == [Scope("shop", "copies")] * 4


def test_without_a_log_events_go_to_pythons(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), scope("shop", "capture"):
        emit(TableJoined("public.orders", "all"))
        emit(StoreSlow("s3://bucket"))

    (record,) = caplog.records
    assert (record.name, record.levelno) == ("rowtide.events", logging.INFO)
    assert record.message == "table_joined database=shop job=capture table=public.orders rule=all"


def test_a_log_takes_the_place_of_pythons(caplog: pytest.LogCaptureFixture) -> None:
    found: list[Emitted] = []
    before = use_log(found.append)
    with caplog.at_level(logging.DEBUG):
        emit(JobStarted())
    use_log(before)

    assert (len(found), caplog.records) == (1, [])


def test_levels_are_those_of_pythons_logging() -> None:
    numbers = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR]

    assert [level.severity for level in Level] == numbers


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.__name__)
def test_each_event_is_declared_in_full(event: type[Event]) -> None:
    assert isinstance(event.level, Level)
    assert event.name.replace("_", "").isalpha()
    assert (event.__doc__ or "").endswith(".")


def test_no_two_events_have_one_name() -> None:
    names = [event.name for event in ALL]

    assert len(names) == len({*names}) > 40
