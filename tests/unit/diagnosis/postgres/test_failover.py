from __future__ import annotations

from dataclasses import replace

import pytest

from builders.commands.check_facts import SLOT, server, settings, slot
from rowtide.diagnosis.postgres.server import check_failover, check_standby
from rowtide.diagnosis.postgres.server_facts import ConnectedStandby, ReplicationSlot, ServerFacts, StandbySettings
from rowtide.diagnosis.result import Advice, CheckResult, State

SYNCHRONOUS = settings(synchronous_standbys="one")
NAMED = replace(SYNCHRONOUS, standby_slots='one, "Two"')
OURS = slot(SLOT, has_failover=True)


def standby(name: str, *, is_active: bool = True) -> ReplicationSlot:
    return slot(name, is_physical=True, is_active=is_active)


def only(facts: ServerFacts, ours: str | None = None) -> CheckResult:
    (result,) = check_failover(facts, ours)
    return result


def test_a_server_without_such_standbys_has_no_findings() -> None:
    assert list(check_failover(server(slots=(standby("one"), OURS)), SLOT)) == []


def test_active_synchronous_standbys_are_suggested_for_slots() -> None:
    slots = (standby("it's"), standby("b"), standby("away", is_active=False), slot("logical", is_active=True))
    result = only(server(settings=SYNCHRONOUS, slots=slots))
    assert result.state is State.WARNING
    assert str(result.remediation).startswith("alter system set synchronized_standby_slots = 'it''s', 'b'; ")


def test_the_failover_slots_of_others_ask_for_it_too() -> None:
    result = only(server(slots=(slot("app", has_failover=True), standby("one"))))
    assert "the server has failover slots (app), and capture can be ahead" in result.message


@pytest.mark.parametrize(("standby_slots", "words"), [(None, "Before PostgreSQL 17"), ("", "physical slots")])
def test_where_no_standby_can_be_named_it_is_said_what_to_do(standby_slots: str | None, words: str) -> None:
    result = only(server(settings=replace(SYNCHRONOUS, standby_slots=standby_slots)))
    assert isinstance(result.remediation, Advice)
    assert words in result.remediation.text


def test_only_a_failover_slot_is_held_back() -> None:
    slots = (standby("one"), standby("Two"), slot(SLOT))
    result = only(server(settings=NAMED, slots=slots), SLOT)
    assert str(result.remediation) == (
        """psql 'dbname='"'"'shop'"'"' replication=database' -c 'ALTER_REPLICATION_SLOT "rowtide_5" (FAILOVER true)'"""
    )
    assert list(check_failover(server(settings=NAMED, slots=(*slots[:2], OURS)), SLOT)) == []


@pytest.mark.parametrize(
    ("slots", "fact", "rest"),
    [
        ((standby("one"), OURS), "away: Two (", "'one'"),
        ((standby("one", is_active=False), standby("Two"), OURS), "away: one (", "'Two'"),
        ((OURS,), "away: one, Two (", "''"),
    ],
)
def test_a_failover_slot_waits_for_standbys_that_are_away(
    slots: tuple[ReplicationSlot, ...], fact: str, rest: str
) -> None:
    result = only(server(settings=NAMED, slots=slots), SLOT)
    assert result.state is State.FAILING
    assert fact in result.message
    assert str(result.remediation).startswith(f"alter system set synchronized_standby_slots = {rest}; ")


def test_our_slots_of_other_databases_are_no_sign_of_standbys() -> None:
    assert list(check_failover(server(slots=(slot("rowtide_6", has_failover=True), OURS)), SLOT)) == []


STANDBY = ConnectedStandby("one", slot="one", has_feedback=True)
HELD_BACK = settings(standby_slots="one")
BARE = ConnectedStandby("two", slot=None, has_feedback=False)


@pytest.mark.parametrize(
    ("connected", "lacking"),
    [
        (STANDBY, "lacking there: sync_replication_slots"),
        (BARE, "lacking there: sync_replication_slots, hot_standby_feedback, primary_slot_name"),
    ],
)
def test_slot_that_no_standby_keeps_would_be_missing(connected: ConnectedStandby, lacking: str) -> None:
    facts = server(settings=HELD_BACK, slots=(standby("one"), OURS), standbys=(connected,))
    result = only(facts, SLOT)
    assert result.state is State.WARNING
    assert result.message.endswith(lacking)
    assert list(check_failover(replace(facts, syncs_slots=True), SLOT)) == []
    assert list(check_failover(replace(facts, syncs_slots=None), SLOT)) == []


def test_before_17_no_failover_keeps_the_slot() -> None:
    facts = server(version=16, settings=settings(standby_slots=None), standbys=(STANDBY,), slots=(slot(SLOT),))
    ahead, missing = check_failover(facts, SLOT)
    assert "capture can be ahead" in ahead.message
    assert "PostgreSQL 16 has no failover slots" in missing.message


KEEPING = StandbySettings(syncs_slots=True, has_feedback=True, slot="one", names_database=True)


def on_standby(as_standby: StandbySettings, *, is_kept: bool = False) -> list[CheckResult]:
    facts = server(in_recovery=True, settings=settings(as_standby=as_standby), slots=(slot(SLOT, is_kept=is_kept),))
    return list(check_standby(facts))


def test_standby_that_keeps_the_slot_says_so() -> None:
    (kept,) = on_standby(KEEPING, is_kept=True)
    assert (kept.state, kept.message) == (
        State.HEALTHY,
        "slot rowtide_5 is kept here: capture resumes here after a promotion",
    )
    (not_yet,) = on_standby(KEEPING)
    assert (not_yet.state, "not kept here yet" in not_yet.message) == (State.WARNING, True)


def test_standby_says_which_settings_it_lacks() -> None:
    lacking, unnamed = on_standby(StandbySettings(syncs_slots=False, has_feedback=False, slot="", names_database=False))
    assert str(lacking.remediation) == (
        "alter system set sync_replication_slots = on; alter system set hot_standby_feedback = on; "
        "alter system set primary_slot_name = 'standby'; select pg_reload_conf(); "
        "-- as a superuser; primary_slot_name is a physical slot of the primary"
    )
    assert "primary_conninfo names no database" in unnamed.message
    (old,) = on_standby(replace(KEEPING, syncs_slots=None))
    assert "no failover slots" in old.message


def test_any_other_slot_waits_for_nobody() -> None:
    assert [result.state for result in check_failover(server(settings=NAMED, slots=(slot(SLOT),)), SLOT)] == [
        State.WARNING
    ]
