"""Who gets events, under which names, and as which lines: exact, escaped, without keys and values of rows."""

from __future__ import annotations

import json
import logging
import math
import pickle
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.events import Emitted, Event, Level, catalogue, listening
from rowtide.events.catalogue import (
    AgentFailed,
    AgentRetries,
    BatchDelivered,
    CopyAdvanced,
    CyclePublished,
    JobStarted,
    StoreSlow,
    TableJoined,
)
from rowtide.events.event import (
    Scope,
    emit,
    inheriting,
    process_scope,
    record_of,
    scope,
    use_log,
    write_json,
    write_message,
    write_text,
)
from rowtide.merge.errors.rows import RowsRefused
from rowtide.replication.errors.delivery import CommandRefused, SchemaChanged, SubscriptionsFailed

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


CANARY = "canary-4711"
TIME = datetime(2026, 11, 30, 23, 30, 0, 42, tzinfo=timezone(timedelta(hours=13)))
HOSTILE = "a\n2026-11-30T00:00:00Z error\x1b[2J\x9b31m\u202e\u2028\x7f\x00 \udc80é東"


def emitted(event: Event, database: str = "shop", job: str = "capture") -> Emitted:
    return Emitted(TIME, event, Scope(database, job))


def refused() -> CommandRefused:
    reason = f'duplicate key value violates unique constraint "accounts_note" Key (note)=({CANARY})'
    return CommandRefused(CommitLsn.parse("0/10"), 1, "public.accounts", CANARY, "insert", "23505", reason)


def test_json_begins_with_what_all_events_have() -> None:
    written = write_json(record_of(emitted(JobStarted())))

    assert list(json.loads(written)) == ["time", "level", "event", "database", "job"]
    assert written.startswith('{"time": "2026-11-30T10:30:00.000042Z", "level": "info", "event": "job_started"')


def test_numbers_are_exact_and_lsns_are_texts() -> None:
    event = BatchDelivered("postgresql://b/shop", Position(2**56 + 5), 2**63, 1, 0.1, None)
    read = json.loads(write_json(record_of(emitted(event))))

    assert (read["transactions"], read["seconds"], read["latency_ms"]) == (2**63, 0.1, None)
    assert read["lsn"] == str(Position(2**56 + 5))


@pytest.mark.parametrize(("number", "text"), [(math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN")])
def test_what_is_no_json_number_is_a_text(number: float, text: str) -> None:
    event = BatchDelivered("postgresql://b/shop", Position(1), 1, 1, number, None)

    assert json.loads(write_json(record_of(emitted(event))))["seconds"] == text


@pytest.mark.parametrize("write", [write_json, write_text, write_message])
def test_a_hostile_name_stays_in_its_line(write: object) -> None:
    assert callable(write)
    line = write(record_of(emitted(TableJoined(HOSTILE, HOSTILE), HOSTILE, HOSTILE)))

    assert line.isprintable()
    assert len(line.splitlines()) == 1
    assert "é東" in line


def test_json_gives_a_hostile_name_back() -> None:
    read = json.loads(write_json(record_of(emitted(TableJoined(HOSTILE, ""), HOSTILE))))

    assert (read["table"], read["database"]) == (HOSTILE, HOSTILE)


def test_text_quotes_what_could_be_taken_for_more() -> None:
    line = write_text(record_of(emitted(TableJoined("public.two words", 'a="b"'))))

    assert line == (
        "2026-11-30T10:30:00.000042Z info table_joined database=shop job=capture "
        'table="public.two words" rule="a=\\"b\\""'
    )


def test_text_leaves_out_what_is_empty() -> None:
    cycle = CyclePublished(7, Position(16), ("a", "b"), 0, 0, 0.5, False)  # noqa: FBT003
    line = write_text(record_of(emitted(cycle, "", "")))

    assert line.endswith(
        "info cycle_published cycle=7 lsn=0/10 instances=a,b transactions=0 rows=0 seconds=0.5 is_heartbeat=false"
    )


ERRORS = [
    refused(),
    RowsRefused("accounts", "23505", f'invalid input syntax for type integer: "{CANARY}"'),
    SubscriptionsFailed(2, f"shop to sqlite:///a.db: {refused()}"),
    SchemaChanged("accounts", "0/10", f'the subscriber refuses it: invalid input syntax: "{CANARY}"'),
    ValueError(CANARY),
]


@pytest.mark.parametrize("write", [write_json, write_text, write_message])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_no_error_brings_a_row_into_a_log(write: object, error: Exception) -> None:
    assert callable(write)
    assert CANARY in str(error)
    line = write(record_of(emitted(AgentFailed(error))))

    assert CANARY not in line
    assert type(error).__name__ in line or f"RT-{getattr(error, 'number', '')}" in line


def test_an_error_has_its_number_and_what_is_no_value() -> None:
    read = json.loads(write_json(record_of(emitted(AgentFailed(refused())))))

    assert read["number"] == 7114
    assert 'violates unique constraint "accounts_note"' in read["error"]


def test_what_is_said_of_a_copy_is_no_value() -> None:
    event = CopyAdvanced("public_accounts", 1, 2, 3, 4, 5, None, None, f"it ended: {CANARY}", is_finished=True)

    assert CANARY not in write_json(record_of(emitted(event)))


def test_passwords_are_masked() -> None:
    line = write_json(record_of(emitted(TableJoined("postgresql://me:secret@h/db", "a"), "b")))

    assert "secret" not in line


def test_an_event_passes_from_process_to_process() -> None:
    error: RowtideError = refused()
    sent = Emitted(datetime.now(UTC), AgentRetries(0.5, error), Scope("shop", "log reader"))
    heard = pickle.loads(pickle.dumps(sent))

    assert (heard.time, heard.scope, heard.event.pause_s) == (sent.time, sent.scope, 0.5)
    assert str(heard.event.error) == str(error)
