from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from rowtide.agents.loop import PastError
from rowtide.diagnosis import CheckResult, State
from rowtide.diagnosis.capture import ReadingFacts, check_reading
from rowtide.diagnosis.result import shell
from rowtide.log.postgres.backlog import ReadingStatus

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
RUN = shell("rowtide", "cdc", "run")


def check(
    *,
    reader: str | None = None,
    ago_s: float | None = 0,
    unread_bytes: int | None = 100,
    blockers: Sequence[str] = (),
) -> CheckResult:
    as_of = NOW - timedelta(seconds=ago_s) if ago_s is not None else None
    status = ReadingStatus(NOW, reader, as_of, unread_bytes, kept_bytes=2 << 30)
    return check_reading(ReadingFacts(status), RUN, blockers)


@pytest.mark.parametrize(
    ("reader", "ago_s", "state", "fact"),
    [
        (None, 60, State.HEALTHY, "it does not run; read up to 60 s ago, the server keeps 2 GiB of WAL"),
        (None, 300, State.HEALTHY, "it does not run; read up to 5 minutes ago, the server keeps 2 GiB of WAL"),
        (None, 301, State.WARNING, "it does not run; read up to 5 minutes ago, the server keeps 2 GiB of WAL"),
        (None, 7200, State.WARNING, "it does not run; read up to 2 hours ago, the server keeps 2 GiB of WAL"),
        (None, None, State.WARNING, "it does not run; nothing was read yet, the server keeps 2 GiB of WAL"),
        ("host pid 1", 60, State.HEALTHY, "it runs (host pid 1); read up to 60 s ago, the server keeps 2 GiB of WAL"),
        ("h", 7200, State.WARNING, "it runs (h), late: read up to 2 hours ago, the server keeps 2 GiB of WAL"),
    ],
)
def test_what_is_late_is_warned_of(reader: str | None, ago_s: float | None, state: State, fact: str) -> None:
    result = check(reader=reader, ago_s=ago_s)
    assert (result.state, result.message) == (state, fact)


def test_a_log_that_is_read_to_its_end_is_never_late() -> None:
    result = check(ago_s=7200, unread_bytes=0)
    assert (result.state, result.message) == (State.HEALTHY, "it does not run; all of the log is read")


def test_a_reader_that_stopped_is_started_by_a_command() -> None:
    assert check(ago_s=7200).remediation == RUN


def test_a_log_that_cannot_be_read_fails_however_new() -> None:
    assert check(ago_s=0, blockers=["slot s"]).state is State.FAILING
    assert check(reader="h", blockers=["slot s"]).message.startswith("it runs (h) and cannot continue")
    assert str(check(blockers=["slot s", "publication p"]).remediation) == "Repair publication p and slot s first."


def test_what_an_unreadable_log_store_would_say_is_not_known() -> None:
    fact = check(ago_s=None, unread_bytes=None, blockers=["log store"]).message
    assert fact == (
        "it does not run and cannot continue; how far the log is read is not known, the server keeps 2 GiB of WAL"
    )


def test_an_error_counts_until_the_log_was_read_on() -> None:
    error = PastError(NOW - timedelta(seconds=30), "RT-2101: malformed. Report it.")
    facts = ReadingFacts(ReadingStatus(NOW, None, NOW - timedelta(seconds=60), 100, None), error)
    failed = check_reading(facts, RUN)
    assert (failed.state, str(failed.remediation)) == (
        State.FAILING,
        "Do what the error asks for, then run `rowtide cdc run`.",
    )
    assert failed.message == "it stopped 30 s ago with RT-2101: malformed. Report it; read up to 60 s ago"
    past = check_reading(ReadingFacts(replace(facts.status, as_of=NOW), error), RUN)
    assert past.state is State.HEALTHY
