"""What standbys that may take over mean for capture. Pure.

A log reader that is ahead of the standbys has read what a failover then loses. The server holds it back for the
standbys' slots named in synchronized_standby_slots (17 and later), but only the readers of failover slots; these then
wait for as long as one of those standbys is away.
"""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.findings.finding import Advice, Command, Finding, Mend, Severity, set_and_reload, shell
from rowtide.findings.postgres.facts import ReplicationSlot, ServerFacts
from rowtide.findings.quantities import format_names

_SERVER = "server"


def find_in_failover(server: ServerFacts, slot: str | None) -> Iterator[Finding]:
    """Judge what a failover would keep; `slot` is ours, None while it is not made."""
    ours = next((other for other in server.slots if other.name == slot), None)
    if ours is not None and ours.has_failover:
        yield from _find_absent_standbys(server)
    yield from _find_being_ahead(server, ours)


def _find_being_ahead(server: ServerFacts, ours: ReplicationSlot | None) -> Iterator[Finding]:
    standbys = _name_standbys(server, ours)
    if standbys is None:
        return
    ahead = f"the server has {standbys}, and capture can be ahead of what a failover keeps; it would stop with RT-2107"
    if not server.settings.standby_slots:
        yield Finding(Severity.WARNS, _SERVER, ahead, _hold_back(server))
    elif ours is not None and not ours.has_failover:
        fact = f"{ahead}, because {ours.name} is no failover slot, which alone synchronized_standby_slots holds back"
        yield Finding(Severity.WARNS, _SERVER, fact, _make_failover_slot(ours.name, server.identity.database))


def _name_standbys(server: ServerFacts, ours: ReplicationSlot | None) -> str | None:
    if server.settings.synchronous_standbys:
        return "synchronous standbys"
    others = tuple(slot.name for slot in server.slots if slot.has_failover and slot != ours)
    return f"failover slots ({format_names(others)})" if others else None


def _hold_back(server: ServerFacts) -> Mend:
    """Only standbys that are there: for one that is away capture would wait."""
    if server.settings.standby_slots is None:
        return Advice("Before PostgreSQL 17 nothing prevents it; `rowtide cdc reinitialize` goes on then.")
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


def _present_standbys(server: ServerFacts) -> list[str]:
    return [slot.name for slot in server.slots if slot.is_physical and slot.is_active]


def _set_standby_slots(names: list[str]) -> Mend:
    return set_and_reload("synchronized_standby_slots", ", ".join(map(quote_literal, names)) or "''")


def _make_failover_slot(slot: str, database: str) -> Command:
    escaped = database.replace("\\", "\\\\").replace("'", "\\'")
    statement = f"ALTER_REPLICATION_SLOT {quote(slot)} (FAILOVER true)"
    return shell("psql", f"dbname='{escaped}' replication=database", "-c", statement)
