"""What standbys that may take over mean for capture. Pure.

Capture goes on at a standby that took over if that keeps a copy of the slot, and has everything that was read. A log
reader that is ahead of the standbys has read what a failover then loses. The server holds it back for the standbys'
slots named in synchronized_standby_slots (17 and later), but only the readers of failover slots; these then wait for as
long as one of those standbys is away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.findings.finding import (
    Advice,
    Finding,
    Mend,
    Severity,
    Sql,
    set_and_reload,
    shell,
)
from rowtide.findings.postgres.facts import ReplicationSlot, ServerFacts
from rowtide.findings.quantities import format_names
from rowtide.log.postgres.slot import FAILOVER_SLOTS_SINCE, publication_name

_SERVER = "server"
_OURS = re.compile(r"rowtide_\d+")
"""The names of rowtide's slots: they are failover slots whether or not there is a standby."""
_RELOAD = "select pg_reload_conf();"


def find_in_failover(server: ServerFacts, slot: str | None) -> Iterator[Finding]:
    """Judge what a failover of a primary would keep; `slot` is ours, None while it is not made."""
    ours = next((other for other in server.slots if other.name == slot), None)
    if ours is not None and ours.has_failover:
        yield from _find_absent_standbys(server)
    yield from _find_being_ahead(server, ours)
    if ours is not None:
        yield from _find_lost_slot(server, ours)


def find_on_standby(server: ServerFacts) -> Iterator[Finding]:
    """Judge whether capture would go on at a standby if it took over."""
    slot, standby = publication_name(server.identity.database_id), server.settings.as_standby
    if standby.syncs_slots is None:
        fact = f"PostgreSQL {server.identity.version} has no failover slots: capture does not go on here by itself"
        yield Finding(Severity.WARNS, _SERVER, fact, Advice("Upgrade to PostgreSQL 17 or later."))
        return
    statements = []
    if not standby.syncs_slots:
        statements.append("alter system set sync_replication_slots = on;")
    if not standby.has_feedback:
        statements.append("alter system set hot_standby_feedback = on;")
    if not standby.slot:
        statements.append("alter system set primary_slot_name = 'standby';")
    if statements:
        fact = f"slot {slot} would be missing here after a promotion: the standby keeps no copies of slots"
        note = "as a superuser; primary_slot_name is a physical slot of the primary"
        yield Finding(Severity.WARNS, _SERVER, fact, Sql((*statements, _RELOAD), note))
    if standby.names_database is False:
        fact = "primary_conninfo names no database, in which the standby would read the primary's slots"
        yield Finding(Severity.WARNS, _SERVER, fact, Advice("Add dbname=… to primary_conninfo, and reload."))
    if any(other.name == slot and other.is_kept for other in server.slots):
        yield Finding(Severity.TELLS, _SERVER, f"slot {slot} is kept here: capture goes on here after a promotion")
    elif not statements:
        fact = f"slot {slot} is not kept here yet: a promotion now would lose it"
        advice = "The standby keeps it once the log reader has moved it past the log that the standby still has."
        yield Finding(Severity.WARNS, _SERVER, fact, Advice(advice))


def _find_being_ahead(server: ServerFacts, ours: ReplicationSlot | None) -> Iterator[Finding]:
    standbys = _name_standbys(server, ours)
    if standbys is None:
        return
    ahead = f"the server has {standbys}, and capture can be ahead of what a failover keeps; it would stop with RT-2107"
    if not server.settings.standby_slots:
        yield Finding(Severity.WARNS, _SERVER, ahead, _hold_back(server))
    elif ours is not None and not ours.has_failover:
        fact = f"{ahead}, because {ours.name} is no failover slot, which alone synchronized_standby_slots holds back"
        yield Finding(Severity.WARNS, _SERVER, fact, _make_failover_slot(ours, server.identity.database))


def _name_standbys(server: ServerFacts, ours: ReplicationSlot | None) -> str | None:
    if server.settings.synchronous_standbys:
        return "synchronous standbys"
    if server.standbys:
        return f"standbys ({format_names(tuple(standby.name for standby in server.standbys))})"
    foreign = (slot for slot in server.slots if slot.has_failover and slot != ours and not _OURS.fullmatch(slot.name))
    others = tuple(slot.name for slot in foreign)
    return f"failover slots ({format_names(others)})" if others else None


def _hold_back(server: ServerFacts) -> Mend:
    """Only standbys that are there: for one that is away capture would wait."""
    if server.settings.standby_slots is None:
        return Advice("Before PostgreSQL 17 nothing prevents it; `cdc reinitialize --difference` continues then.")
    present = _present_standbys(server)
    if not present:
        return Advice("Let the standbys use physical slots, and name these in synchronized_standby_slots.")
    return _set_standby_slots(present)


def _find_absent_standbys(server: ServerFacts) -> Iterator[Finding]:
    named = tuple(name.strip().strip('"') for name in (server.settings.standby_slots or "").split(",") if name.strip())
    present = _present_standbys(server)
    absent = tuple(name for name in named if name not in present)
    if absent:
        fact = f"capture waits for standbys that are away: {format_names(absent)} (synchronized_standby_slots)"
        yield Finding(Severity.STOPS, _SERVER, fact, _set_standby_slots([name for name in named if name in present]))


def _find_lost_slot(server: ServerFacts, ours: ReplicationSlot) -> Iterator[Finding]:
    """Judge whether a standby that takes over would have the slot."""
    if not server.standbys:
        return
    names = format_names(tuple(standby.name for standby in server.standbys))
    lost = f"after a failover slot {ours.name} is missing"
    if server.identity.version < FAILOVER_SLOTS_SINCE:
        fact = f"{lost}: PostgreSQL {server.identity.version} has no failover slots; standbys: {names}"
        advice = (
            "Upgrade to PostgreSQL 17 or later. After a failover, `rowtide cdc reinitialize --difference` continues."
        )
        yield Finding(Severity.WARNS, _SERVER, fact, Advice(advice))
        return
    if server.syncs_slots is False:
        without_slot = [standby.name for standby in server.standbys if standby.slot is None]
        lacking = ["sync_replication_slots"]
        lacking += ["hot_standby_feedback"] if any(one.has_feedback is False for one in server.standbys) else []
        lacking += ["primary_slot_name"] if without_slot else []
        fact = f"{lost}: no standby keeps a copy of it ({names}); lacking there: {format_names(tuple(lacking))}"
        advice = "Run `rowtide check` with the standby's URL: it prints the statements."
        yield Finding(Severity.WARNS, _SERVER, fact, Advice(advice))


def _present_standbys(server: ServerFacts) -> list[str]:
    return [slot.name for slot in server.slots if slot.is_physical and slot.is_active]


def _set_standby_slots(names: list[str]) -> Sql:
    return set_and_reload("synchronized_standby_slots", ", ".join(map(quote_literal, names)) or "''")


def _make_failover_slot(slot: ReplicationSlot, database: str) -> Mend:
    if slot.is_active:
        return Advice("Restart the log reader (`rowtide cdc run`), which makes it one.")
    escaped = database.replace("\\", "\\\\").replace("'", "\\'")
    statement = f"ALTER_REPLICATION_SLOT {quote(slot.name)} (FAILOVER true)"
    return shell("psql", f"dbname='{escaped}' replication=database", "-c", statement)
