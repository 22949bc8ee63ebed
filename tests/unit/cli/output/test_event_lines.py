"""Events as lines for people, and which of them a command shows."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest

from rowtide.agents.log_reader_process import LogReaderEnded
from rowtide.cli.output.event_lines import describe_progress
from rowtide.cli.output.rows import notes
from rowtide.cli.output.watching import watching
from rowtide.core.lsn import Position
from rowtide.events import Event, Level, LogOptions
from rowtide.events.catalogue import (
    AgentRetries,
    BatchDelivered,
    CyclePublished,
    JobStarted,
    StoreSlow,
    SubscriptionStopped,
    UpkeepFailed,
)
from rowtide.events.event import emit, scope

DB = "postgresql://localhost/shop"
ERROR = LogReaderEnded(3)


def cycle(number: int, *instances: str) -> CyclePublished:
    return CyclePublished(number, Position(number), instances, 1, 1, 0.25, is_heartbeat=not instances)


def test_cycles_of_an_interval_are_one_line() -> None:
    assert describe_progress([cycle(1, "a"), cycle(2, "b"), cycle(3)]) == [
        "cycles 1 to 3: a, b published up to LSN 0/3 in 0.8 s"
    ]
    assert describe_progress([cycle(4)]) == ["cycle 4: heartbeat published up to LSN 0/4 in 0.2 s"]


def test_batches_are_added_up_for_each_subscriber() -> None:
    batches = [BatchDelivered(name, Position(9), 1, 500, 0.5, None) for name in ("sqlite:///a", "sqlite:///b")]

    assert describe_progress([*batches, batches[0]]) == [
        "1,000 commands of 2 transactions delivered to sqlite:///a up to LSN 0/9 in 1.0 s",
        "500 commands of 1 transactions delivered to sqlite:///b up to LSN 0/9 in 0.5 s",
    ]


def emit_some() -> None:
    with scope(job="capture"):
        emit(JobStarted())
    emit(AgentRetries(0.5, ERROR))
    emit(UpkeepFailed("vacuum", "/lake/t", ERROR))
    emit(StoreSlow("s3://bucket"))
    emit(SubscriptionStopped("shop", "sqlite:///a", ERROR))


STARTED, RETRIES = "capture: started", f"{ERROR} Next try in 0.5 s."
STOPPED = f"shop to sqlite:///a: {ERROR} It has stopped."


def shown_by(capsys: pytest.CaptureFixture[str], level: Level | None, told: Level) -> list[str]:
    with notes.telling(told, is_debugging=False), watching("Beginning ...", LogOptions(level=level), DB, "agent"):
        emit_some()
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("level", "told", "shown"),
    [
        (None, Level.INFO, [STARTED, RETRIES, STOPPED]),
        (Level.WARNING, Level.INFO, [RETRIES, STOPPED]),
        (None, Level.ERROR, [STOPPED]),
    ],
    ids=["usual", "warnings", "quiet"],
)
def test_a_command_shows_what_has_a_line(
    capsys: pytest.CaptureFixture[str], level: Level | None, told: Level, shown: list[str], signals_kept: None
) -> None:
    assert shown_by(capsys, level, told) == shown


def test_verbose_shows_the_rest_as_a_log_would(capsys: pytest.CaptureFixture[str], signals_kept: None) -> None:
    shown = shown_by(capsys, None, Level.DEBUG)

    assert [line for line in shown if "Z " not in line] == [STARTED, RETRIES, STOPPED]
    assert [line.split()[2] for line in shown if "Z " in line] == [
        *("agent_started", "upkeep_failed", "store_slow", "agent_stopped"),
    ]


def test_an_error_that_was_shown_ends_a_command_silently(
    capsys: pytest.CaptureFixture[str], signals_kept: None
) -> None:
    def fail() -> None:
        emit_some()
        raise ERROR

    with pytest.raises(click.exceptions.Exit), watching("Beginning ...", LogOptions(), DB, "agent"):
        fail()
    assert capsys.readouterr().err.count("RT-1010") == 2

    other = LogReaderEnded(4)
    with pytest.raises(LogReaderEnded), watching("Beginning ...", LogOptions(), DB, "agent"):
        raise other


@pytest.mark.parametrize("make", [lambda: cycle(1, "a"), JobStarted])
def test_nothing_is_shown_beside_a_log_on_standard_error(
    capsys: pytest.CaptureFixture[str], make: Callable[[], Event], signals_kept: None
) -> None:
    with watching("Beginning ...", LogOptions("text"), DB, "agent"):  # type: ignore[arg-type]
        emit(make())

    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == [
        *("agent_started", make().name, "agent_stopped"),
    ]
