from __future__ import annotations

import pytest

from builders.commands.check_facts import GIBIBYTE, SLOT, capture, server, settings, slot
from rowtide.databases.postgres.errors import ConnectionFailed, NoFreeSender, NoReplicationRight
from rowtide.diagnosis.postgres.capture_facts import CaptureFacts
from rowtide.diagnosis.postgres.server import check_server
from rowtide.diagnosis.postgres.server_facts import OpenTransaction, PreparedTransaction, ServerFacts
from rowtide.diagnosis.result import Advice, CheckResult, State

HOUR_S = 3600.0
AGES_S = {"o'clock": HOUR_S, "new": 1.0}


def only(facts: ServerFacts, enabled: CaptureFacts | None = None) -> CheckResult:
    """Return the one result besides how long a stop may last."""
    (result,) = [found for found in check_server(facts, enabled) if "max_slot_wal_keep_size" not in found.message]
    return result


def length_of_stop(keep: int | None, rate: float | None) -> CheckResult:
    facts = server(settings=settings(wal_keep_bytes=keep), wal_bytes_per_s=rate)
    (result,) = check_server(facts, None)
    return result


def test_healthy_server_gives_only_one_note_without_a_mend() -> None:
    (result,) = check_server(server(), None)
    assert (result.state, result.remediation) == (State.HEALTHY, None)


def test_a_wal_level_below_logical_stops() -> None:
    result = only(server(wal_level="replica"))
    assert (result.state, result.message) == (State.FAILING, "wal_level is replica, not logical")
    assert str(result.remediation) == "alter system set wal_level = logical; -- as a superuser; then restart the server"


def test_a_standby_stops() -> None:
    result = only(server(in_recovery=True))
    assert (result.state, result.message) == (State.FAILING, "the server is a standby, read-only")
    assert isinstance(result.remediation, Advice)


def test_a_version_that_is_older_than_those_tested_is_warned_of() -> None:
    result = only(server(version=15))
    assert (result.state, result.message) == (
        State.WARNING,
        "this is PostgreSQL 15; rowtide is tested with 16 and 18",
    )


@pytest.mark.parametrize(("used", "severity"), [(9, State.WARNING), (10, State.FAILING)])
def test_used_up_slots_stop_and_the_last_free_slot_warns(used: int, severity: State) -> None:
    slots = (slot("old"), *(slot(f"s{number}", is_active=True) for number in range(1, used)))
    result = only(server(slots=slots))
    assert (result.state, result.message) == (severity, f"{used} of 10 replication slots are used, idle: old")
    assert str(result.remediation).startswith("alter system set max_replication_slots = 20;")


def test_slots_do_not_matter_once_ours_is_made() -> None:
    slots = (slot(SLOT), *(slot(f"s{number}", is_active=True) for number in range(9)))
    assert len(list(check_server(server(slots=slots), capture()))) == 1


@pytest.mark.parametrize(("used", "severity"), [(9, State.WARNING), (10, State.FAILING)])
def test_used_up_wal_senders_stop_and_the_last_free_one_warns(used: int, severity: State) -> None:
    facts = server(senders_used=used, slots=(slot(SLOT),))
    result = only(facts, capture())
    assert (result.state, result.message) == (
        severity,
        f"{used} of 10 WAL senders are used, and the log reader needs one",
    )


def test_senders_do_not_matter_while_the_log_reader_has_one() -> None:
    facts = server(senders_used=10, slots=(slot(SLOT, is_active=True),))
    assert len(list(check_server(facts, capture()))) == 1


def test_refused_replication_connection_stops_with_its_reason() -> None:
    result = only(server(refusal=ConnectionFailed("no pg_hba.conf entry")))
    assert (result.state, result.message) == (State.FAILING, "no connection to the database: no pg_hba.conf entry")


def test_what_other_rules_say_with_figures_is_not_said_again() -> None:
    assert len(list(check_server(server(refusal=NoReplicationRight("app", '"app"')), None))) == 1
    assert "10 of 10 WAL senders" in only(server(refusal=NoFreeSender(), senders_used=10)).message
    assert only(server(refusal=NoFreeSender(), senders_used=3)).message == "the server has no free WAL sender"


def test_without_a_limit_the_room_that_a_stop_takes_is_reported() -> None:
    assert length_of_stop(None, 1024 * 1024).message.endswith("it writes 84.4 GiB of WAL a day on average")
    assert length_of_stop(None, None).message.endswith("until its disk is full")


def test_a_limit_that_lasts_for_days_is_reported() -> None:
    result = length_of_stop(64 * GIBIBYTE, 64 * GIBIBYTE / (48 * HOUR_S))
    assert (result.state, result.remediation) == (State.HEALTHY, None)
    assert result.message.startswith("capture may stand still for 2 days: max_slot_wal_keep_size is 64 GiB")


def test_slot_limit_of_hours_warns_and_is_mended_to_three_days() -> None:
    result = length_of_stop(64 * GIBIBYTE, 4 * GIBIBYTE / HOUR_S)
    assert result.state is State.WARNING
    assert result.message.startswith("capture may stand still for 16 hours: ")
    assert str(result.remediation).startswith(
        "alter system set max_slot_wal_keep_size = '288GB'; select pg_reload_conf();"
    )


@pytest.mark.parametrize(("keep", "severity"), [(GIBIBYTE - 1, State.WARNING), (GIBIBYTE, State.HEALTHY)])
def test_without_a_rate_only_a_small_limit_is_warned_of(keep: int, severity: State) -> None:
    assert length_of_stop(keep, None).state is severity


def test_a_slot_that_is_lost_when_idle_is_warned_of() -> None:
    result = only(server(settings=settings(idle_slot_timeout_s=7200)))
    assert result.state is State.WARNING
    assert result.message.startswith("a stop of more than 2 hours loses the slot")


@pytest.mark.parametrize(
    ("timeout_s", "words"), [(None, "wal_sender_timeout is 0:"), (9.9, "wal_sender_timeout is 9.9 s:")]
)
def test_a_sender_timeout_that_is_off_or_short_is_warned_of(timeout_s: float | None, words: str) -> None:
    result = only(server(settings=settings(sender_timeout_s=timeout_s)))
    assert result.state is State.WARNING
    assert result.message.startswith(words)


@pytest.mark.parametrize(("enabled", "severity"), [(None, State.FAILING), (capture(), State.WARNING)])
def test_a_forgotten_prepared_transaction_is_named(enabled: CaptureFacts | None, severity: State) -> None:
    facts = server(prepared=tuple(PreparedTransaction(name, "app", "shop", age_s) for name, age_s in AGES_S.items()))
    result = only(facts, enabled)
    assert (result.state, result.subject) == (severity, "prepared transaction o'clock")
    assert str(result.remediation).startswith("rollback prepared 'o''clock'; -- in database shop")


@pytest.mark.parametrize(
    ("has_written", "words"), [(True, "from making the slot"), (False, "keeps enable-table waiting")]
)
def test_a_long_transaction_is_named(*, has_written: bool, words: str) -> None:
    facts = server(
        transactions=(OpenTransaction(7, "app", "", 2 * HOUR_S, has_written), OpenTransaction(8, "app", "", 60, True))  # noqa: FBT003
    )
    result = only(facts)
    assert (result.state, result.subject) == (State.WARNING, "session 7")
    assert words in result.message
    assert str(result.remediation) == "select pg_terminate_backend(7, 10000); -- as a superuser"


def test_our_own_long_copy_is_noted_without_a_mend() -> None:
    copying = OpenTransaction(7, "app", "rowtide replication here", 2 * HOUR_S, has_written=False)
    result = only(server(transactions=(copying,)))
    assert (result.state, result.remediation) == (State.HEALTHY, None)
