from __future__ import annotations

from dataclasses import replace

import pytest

from builders.check_facts import SLOT, server, settings, slot
from rowtide.findings.finding import Advice, Finding, Severity
from rowtide.findings.postgres.facts import ReplicationSlot, ServerFacts
from rowtide.findings.postgres.failover_findings import find_in_failover

SYNCHRONOUS = settings(synchronous_standbys="one")
NAMED = replace(SYNCHRONOUS, standby_slots='one, "Two"')
OURS = slot(SLOT, has_failover=True)


def standby(name: str, *, is_active: bool = True) -> ReplicationSlot:
    return slot(name, is_physical=True, is_active=is_active)


def only(facts: ServerFacts, ours: str | None = None) -> Finding:
    (finding,) = find_in_failover(facts, ours)
    return finding


def test_a_server_without_such_standbys_has_no_findings() -> None:
    assert list(find_in_failover(server(slots=(standby("one"), OURS)), SLOT)) == []


def test_active_synchronous_standbys_are_suggested_for_slots() -> None:
    slots = (standby("it's"), standby("b"), standby("away", is_active=False), slot("logical", is_active=True))
    finding = only(server(settings=SYNCHRONOUS, slots=slots))
    assert finding.severity is Severity.WARNS
    assert str(finding.mend).startswith("alter system set synchronized_standby_slots = 'it''s', 'b'; ")


def test_the_failover_slots_of_others_ask_for_it_too() -> None:
    finding = only(server(slots=(slot("app", has_failover=True), standby("one"))))
    assert "the server has failover slots (app), and capture can be ahead" in finding.fact


@pytest.mark.parametrize(("standby_slots", "words"), [(None, "Before PostgreSQL 17"), ("", "physical slots")])
def test_where_no_standby_can_be_named_it_is_said_what_to_do(standby_slots: str | None, words: str) -> None:
    finding = only(server(settings=replace(SYNCHRONOUS, standby_slots=standby_slots)))
    assert isinstance(finding.mend, Advice)
    assert words in finding.mend.text


def test_only_a_failover_slot_is_held_back() -> None:
    slots = (standby("one"), standby("Two"), slot(SLOT))
    finding = only(server(settings=NAMED, slots=slots), SLOT)
    assert str(finding.mend) == (
        """psql 'dbname='"'"'shop'"'"' replication=database' -c 'ALTER_REPLICATION_SLOT "rowtide_5" (FAILOVER true)'"""
    )
    assert list(find_in_failover(server(settings=NAMED, slots=(*slots[:2], OURS)), SLOT)) == []


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
    finding = only(server(settings=NAMED, slots=slots), SLOT)
    assert finding.severity is Severity.STOPS
    assert fact in finding.fact
    assert str(finding.mend).startswith(f"alter system set synchronized_standby_slots = {rest}; ")


def test_any_other_slot_waits_for_nobody() -> None:
    assert [finding.severity for finding in find_in_failover(server(settings=NAMED, slots=(slot(SLOT),)), SLOT)] == [
        Severity.WARNS
    ]
