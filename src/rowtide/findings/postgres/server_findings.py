"""What the server's settings, and what goes on in it, mean for capture. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.databases.postgres.errors import NoFreeSender, NoReplicationRight, ServerIsStandby, WalLevelNotLogical
from rowtide.databases.postgres.quoting import quote_literal
from rowtide.findings.finding import (
    Advice,
    Finding,
    Severity,
    Sql,
    as_superuser,
    of_error,
    set_and_reload,
    set_and_restart,
)
from rowtide.findings.postgres.facts import CaptureFacts, ServerFacts
from rowtide.findings.postgres.failover_findings import find_in_failover, find_on_standby
from rowtide.findings.quantities import format_bytes, format_duration, format_names

TESTED_VERSIONS = (16, 18)
LONG_TRANSACTION_S = 3600.0
"""Older ones hold WAL back to an extent that matters, or keep enabling from going on."""
FORGOTTEN_PREPARED_S = 300.0
SHORT_STOP_S = 86_400.0
PLANNED_STOP_S = 3 * SHORT_STOP_S
SHORTEST_SENDER_TIMEOUT_S = 10.0

_SERVER = "server"
_OURS = "rowtide"
"""What the application names of our own sessions begin with."""
_GIBIBYTE = 1 << 30
_SMALL_WAL_KEEP = 1 * _GIBIBYTE
_MORE_SLOTS = 10


def find_in_server(server: ServerFacts, capture: CaptureFacts | None) -> Iterator[Finding]:
    """Judge the server; `capture` is None before enable-db."""
    slot = capture.slot.name if capture is not None and capture.slot is not None else None
    yield from _find_unreadable_log(server)
    yield from _find_version(server)
    yield from _find_used_slots(server, is_slot_made=slot is not None)
    yield from _find_used_senders(server, slot)
    yield from _find_refusal(server)
    yield from _find_length_of_stop(server)
    yield from _find_idle_timeout(server)
    yield from _find_sender_timeout(server)
    if not server.identity.in_recovery:
        yield from find_in_failover(server, slot)
    elif capture is not None:
        yield from find_on_standby(server)
    yield from _find_prepared(server, is_enabled=capture is not None)
    yield from _find_long_transactions(server)


def _find_unreadable_log(server: ServerFacts) -> Iterator[Finding]:
    if server.identity.in_recovery:
        yield of_error(Severity.STOPS, _SERVER, ServerIsStandby())
    if server.identity.wal_level != "logical":
        error = WalLevelNotLogical(server.identity.wal_level)
        yield of_error(Severity.STOPS, _SERVER, error, set_and_restart("wal_level", "logical"))


def _find_version(server: ServerFacts) -> Iterator[Finding]:
    version, tested = server.identity.version, " and ".join(map(str, TESTED_VERSIONS))
    if version < TESTED_VERSIONS[0]:
        fact = f"this is PostgreSQL {version}; rowtide is tested with {tested}"
        yield Finding(Severity.WARNS, _SERVER, fact, Advice("Upgrade the server, or try all you need on a copy."))


def _find_used_slots(server: ServerFacts, *, is_slot_made: bool) -> Iterator[Finding]:
    limit, used = server.settings.replication_slots, len(server.slots)
    free = limit - used - (0 if is_slot_made else 1)
    if is_slot_made or free > 0:
        return
    idle = tuple(slot.name for slot in server.slots if not slot.is_active)
    fact = f"{used} of {limit} replication slots are used" + (f", idle: {format_names(idle)}" if idle else "")
    severity = Severity.STOPS if free < 0 else Severity.WARNS
    yield Finding(severity, _SERVER, fact, set_and_restart("max_replication_slots", str(limit + _MORE_SLOTS)))


def _find_used_senders(server: ServerFacts, slot: str | None) -> Iterator[Finding]:
    is_running = any(other.name == slot and other.is_active for other in server.slots)
    limit, used = server.settings.wal_senders, server.senders_used
    free = limit - used - (0 if is_running else 1)
    if is_running or free > 0:
        return
    severity = Severity.STOPS if free < 0 else Severity.WARNS
    fact = f"{used} of {limit} WAL senders are used, and the log reader needs one"
    yield Finding(severity, _SERVER, fact, set_and_restart("max_wal_senders", str(limit + _MORE_SLOTS)))


def _find_refusal(server: ServerFacts) -> Iterator[Finding]:
    """What rules of their own say with figures is not said again."""
    is_full = server.senders_used >= server.settings.wal_senders
    is_said = isinstance(server.refusal, NoReplicationRight) or (is_full and isinstance(server.refusal, NoFreeSender))
    if server.refusal is not None and not is_said:
        yield of_error(Severity.STOPS, "replication connection", server.refusal)


def _find_length_of_stop(server: ServerFacts) -> Iterator[Finding]:
    kept, rate = server.settings.wal_keep_bytes, server.wal_bytes_per_s
    if kept is None:
        yield _tell_unlimited_stop(rate)
        return
    limit = f"max_slot_wal_keep_size is {format_bytes(kept)}"
    lasts_s = kept / rate if rate else None
    if lasts_s is None:
        severity = Severity.WARNS if kept < _SMALL_WAL_KEEP else Severity.TELLS
        fact = f"{limit}: when capture stands still for more WAL than that, the slot is lost"
    else:
        severity = Severity.WARNS if lasts_s < SHORT_STOP_S else Severity.TELLS
        fact = (
            f"capture may stand still for {format_duration(lasts_s)}: {limit}, the server writes "
            f"{format_bytes((rate or 0) * 3600)} of WAL an hour on average; after a longer stop the slot is lost"
        )
    wanted = max(16, round((rate or 0) * PLANNED_STOP_S / _GIBIBYTE))
    mend = set_and_reload("max_slot_wal_keep_size", f"'{wanted}GB'") if severity is Severity.WARNS else None
    yield Finding(severity, _SERVER, fact, mend)


def _tell_unlimited_stop(rate: float | None) -> Finding:
    written = f"; it writes {format_bytes(rate * SHORT_STOP_S)} of WAL a day on average" if rate else ""
    fact = (
        "max_slot_wal_keep_size is -1: when capture stands still the server keeps all WAL, until its disk is full"
        + written
    )
    advice = "Keep room for the longest stop that you plan; a limit would save the disk and lose the slot instead."
    return Finding(Severity.TELLS, _SERVER, fact, Advice(advice))


def _find_idle_timeout(server: ServerFacts) -> Iterator[Finding]:
    timeout_s = server.settings.idle_slot_timeout_s
    if timeout_s is not None:
        fact = f"a stop of more than {format_duration(timeout_s)} loses the slot (idle_replication_slot_timeout)"
        yield Finding(Severity.WARNS, _SERVER, fact, set_and_reload("idle_replication_slot_timeout", "0"))


def _find_sender_timeout(server: ServerFacts) -> Iterator[Finding]:
    timeout_s = server.settings.sender_timeout_s
    if timeout_s is None:
        fact = "wal_sender_timeout is 0: a connection that broke unseen keeps the slot from the next log reader"
    elif timeout_s < SHORTEST_SENDER_TIMEOUT_S:
        fact = f"wal_sender_timeout is {format_duration(timeout_s)}: a slow disk is enough to break the stream"
    else:
        return
    yield Finding(Severity.WARNS, _SERVER, fact, set_and_reload("wal_sender_timeout", "'60s'"))


def _find_prepared(server: ServerFacts, *, is_enabled: bool) -> Iterator[Finding]:
    for prepared in server.prepared:
        if prepared.age_s < FORGOTTEN_PREPARED_S:
            continue
        what = "holds WAL back" if is_enabled else "keeps enable-db waiting: the slot is made when it has ended"
        fact = f"it was prepared by {prepared.role} {format_duration(prepared.age_s)} ago, was not ended, and {what}"
        statement = f"rollback prepared {quote_literal(prepared.name)};"
        note = f"in database {prepared.database}, as {prepared.role} or a superuser; or commit prepared"
        severity = Severity.WARNS if is_enabled else Severity.STOPS
        yield Finding(severity, f"prepared transaction {prepared.name}", fact, Sql((statement,), note))


def _find_long_transactions(server: ServerFacts) -> Iterator[Finding]:
    for transaction in server.transactions:
        if transaction.age_s < LONG_TRANSACTION_S:
            continue
        effect = (
            "keeps enable-db from making the slot and holds WAL back"
            if transaction.has_written
            else "keeps enable-table waiting for tables that it has locked"
        )
        who = f"{transaction.role} ({transaction.application or 'no application name'})"
        fact = f"{who} has had a transaction open for {format_duration(transaction.age_s)}; it {effect}"
        if transaction.application.startswith(_OURS):
            # A copy of a large table: ended, it would start again.
            yield Finding(Severity.TELLS, f"session {transaction.pid}", fact)
            continue
        statement = as_superuser(f"select pg_terminate_backend({transaction.pid});")
        yield Finding(Severity.WARNS, f"session {transaction.pid}", fact, statement)
