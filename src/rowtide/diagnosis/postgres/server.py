"""Checks of the server's settings, its sessions, and standbys that may take over. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rowtide.databases.postgres.errors import NoFreeSender, NoReplicationRight, ServerIsStandby, WalLevelNotLogical
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.postgres.capture_facts import CaptureFacts
from rowtide.diagnosis.postgres.server_facts import ReplicationSlot, ServerFacts
from rowtide.diagnosis.result import (
    Advice,
    CheckResult,
    Remediation,
    Sql,
    State,
    as_superuser,
    counts,
    failing,
    format_bytes,
    format_duration,
    format_names,
    note,
    of_error,
    rates,
    set_and_reload,
    set_and_restart,
    shell,
    sizes,
    times,
    warning,
)
from rowtide.log.postgres.slot import FAILOVER_SLOTS_SINCE, publication_name

TESTED_VERSIONS = (16, 18)
LONG_TRANSACTION_S = 3600.0
"""Older ones hold WAL back to an extent that matters, or prevent enabling."""
FORGOTTEN_PREPARED_S = 300.0
"""A transaction manager ends a prepared transaction within seconds, unless it lost track of it."""
SHORT_STOP_S = 86_400.0
PLANNED_STOP_S = 3 * SHORT_STOP_S
SHORTEST_SENDER_TIMEOUT_S = 10.0

_SERVER = "server"
_OUR_SESSIONS = "rowtide"
"""The prefix of the application names of rowtide's sessions."""
_GIBIBYTE = 1 << 30
_SMALL_WAL_KEEP = 1 * _GIBIBYTE
_MORE_SLOTS = 10


def check_server(server: ServerFacts, capture: CaptureFacts | None) -> Iterator[CheckResult]:
    """Check the server; `capture` is None before enable-db."""
    slot = capture.slot.name if capture is not None and capture.slot is not None else None
    yield from _check_wal_level(server)
    yield from _check_version(server)
    yield from _check_slots(server, is_slot_made=slot is not None)
    yield from _check_senders(server, slot)
    yield from _check_refusal(server)
    yield from _check_length_of_stop(server)
    yield from _check_idle_timeout(server)
    yield from _check_sender_timeout(server)
    if not server.identity.in_recovery:
        yield from check_failover(server, slot)
    elif capture is not None:
        yield from check_standby(server)
    yield from _check_prepared(server, is_enabled=capture is not None)
    yield from _check_long_transactions(server)


def _check_wal_level(server: ServerFacts) -> Iterator[CheckResult]:
    if server.identity.in_recovery:
        yield of_error(Code.SERVER_IS_STANDBY, State.FAILING, _SERVER, ServerIsStandby())
    if server.identity.wal_level != "logical":
        error = WalLevelNotLogical(server.identity.wal_level)
        yield of_error(Code.WAL_LEVEL_LOW, State.FAILING, _SERVER, error, set_and_restart("wal_level", "logical"))


def _check_version(server: ServerFacts) -> Iterator[CheckResult]:
    version, tested = server.identity.version, " and ".join(map(str, TESTED_VERSIONS))
    if version < TESTED_VERSIONS[0]:
        message = f"this is PostgreSQL {version}; rowtide is tested with {tested}"
        yield warning(Code.VERSION_UNTESTED, _SERVER, message, "Upgrade the server, or try all you need on a copy.")


def _check_slots(server: ServerFacts, *, is_slot_made: bool) -> Iterator[CheckResult]:
    limit, used = server.settings.replication_slots, len(server.slots)
    free = limit - used - (0 if is_slot_made else 1)
    if is_slot_made or free > 0:
        return
    idle = tuple(slot.name for slot in server.slots if not slot.is_active)
    message = f"{used} of {limit} replication slots are used" + (f", idle: {format_names(idle)}" if idle else "")
    more = set_and_restart("max_replication_slots", str(limit + _MORE_SLOTS))
    as_bad = failing if free < 0 else warning
    yield as_bad(Code.SLOTS_USED_UP, _SERVER, message, more, counts(used=used, limit=limit, idle=len(idle)))


def _check_senders(server: ServerFacts, slot: str | None) -> Iterator[CheckResult]:
    is_running = any(other.name == slot and other.is_active for other in server.slots)
    limit, used = server.settings.wal_senders, server.senders_used
    free = limit - used - (0 if is_running else 1)
    if is_running or free > 0:
        return
    message = f"{used} of {limit} WAL senders are used, and the log reader needs one"
    more = set_and_restart("max_wal_senders", str(limit + _MORE_SLOTS))
    as_bad = failing if free < 0 else warning
    yield as_bad(Code.WAL_SENDERS_USED_UP, _SERVER, message, more, counts(used=used, limit=limit))


def _check_refusal(server: ServerFacts) -> Iterator[CheckResult]:
    """Settings that have checks of their own, with figures, are omitted here."""
    is_full = server.senders_used >= server.settings.wal_senders
    is_said = isinstance(server.refusal, NoReplicationRight) or (is_full and isinstance(server.refusal, NoFreeSender))
    if server.refusal is not None and not is_said:
        yield of_error(Code.REPLICATION_CONNECTION_REFUSED, State.FAILING, "replication connection", server.refusal)


def _check_length_of_stop(server: ServerFacts) -> Iterator[CheckResult]:
    kept, rate = server.settings.wal_keep_bytes, server.wal_bytes_per_s
    if kept is None:
        yield _check_unlimited_stop(rate)
        return
    limit = f"max_slot_wal_keep_size is {format_bytes(kept)}"
    lasts_s = kept / rate if rate else None
    if lasts_s is None:
        is_short = kept < _SMALL_WAL_KEEP
        message = f"{limit}: when capture stands still for more WAL than that, the slot is lost"
    else:
        is_short = lasts_s < SHORT_STOP_S
        message = (
            f"capture may stand still for {format_duration(lasts_s)}: {limit}, the server writes "
            f"{format_bytes((rate or 0) * 3600)} of WAL an hour on average; after a longer stop the slot is lost"
        )
    wanted = max(16, round((rate or 0) * PLANNED_STOP_S / _GIBIBYTE))
    measures = (*sizes(limit_bytes=kept), *rates(wal_bytes_per_s=rate), *times(lasts_s=lasts_s))
    if is_short:
        raised = set_and_reload("max_slot_wal_keep_size", f"'{wanted}GB'")
        yield warning(Code.WAL_LIMIT, _SERVER, message, raised, measures)
    else:
        yield note(Code.WAL_LIMIT, _SERVER, message, measures=measures)


def _check_unlimited_stop(rate: float | None) -> CheckResult:
    written = f"; it writes {format_bytes(rate * SHORT_STOP_S)} of WAL a day on average" if rate else ""
    message = (
        "max_slot_wal_keep_size is -1: when capture stands still the server keeps all WAL, until its disk is full"
        + written
    )
    advice = "Keep room for the longest stop that you plan; a limit would save the disk and lose the slot instead."
    return note(Code.WAL_UNLIMITED, _SERVER, message, advice, rates(wal_bytes_per_s=rate))


def _check_idle_timeout(server: ServerFacts) -> Iterator[CheckResult]:
    timeout_s = server.settings.idle_slot_timeout_s
    if timeout_s is not None:
        message = f"a stop of more than {format_duration(timeout_s)} loses the slot (idle_replication_slot_timeout)"
        off = set_and_reload("idle_replication_slot_timeout", "0")
        yield warning(Code.IDLE_SLOT_TIMEOUT, _SERVER, message, off, times(timeout_s=timeout_s))


def _check_sender_timeout(server: ServerFacts) -> Iterator[CheckResult]:
    timeout_s = server.settings.sender_timeout_s
    if timeout_s is None:
        message = "wal_sender_timeout is 0: a connection that broke unseen keeps the slot from the next log reader"
    elif timeout_s < SHORTEST_SENDER_TIMEOUT_S:
        message = f"wal_sender_timeout is {format_duration(timeout_s)}: a slow disk is enough to break the stream"
    else:
        return
    usual = set_and_reload("wal_sender_timeout", "'60s'")
    yield warning(Code.SENDER_TIMEOUT_UNFIT, _SERVER, message, usual, times(timeout_s=timeout_s))


def _check_prepared(server: ServerFacts, *, is_enabled: bool) -> Iterator[CheckResult]:
    for prepared in server.prepared:
        if prepared.age_s < FORGOTTEN_PREPARED_S:
            continue
        what = "holds WAL back" if is_enabled else "keeps enable-db waiting: the slot is made when it has ended"
        message = f"it was prepared by {prepared.role} {format_duration(prepared.age_s)} ago, was not ended, and {what}"
        statement = f"rollback prepared {quote_literal(prepared.name)};"
        as_whom = f"in database {prepared.database}, as {prepared.role} or a superuser; or commit prepared"
        as_bad, subject = warning if is_enabled else failing, f"prepared transaction {prepared.name}"
        ended, age = Sql((statement,), as_whom), times(age_s=prepared.age_s)
        yield as_bad(Code.PREPARED_FORGOTTEN, subject, message, ended, age)


def _check_long_transactions(server: ServerFacts) -> Iterator[CheckResult]:
    for transaction in server.transactions:
        if transaction.age_s < LONG_TRANSACTION_S:
            continue
        effect = (
            "keeps enable-db from making the slot and holds WAL back"
            if transaction.has_written
            else "keeps enable-table waiting for tables that it has locked"
        )
        subject, age = f"session {transaction.pid}", times(age_s=transaction.age_s)
        who = f"{transaction.role} ({transaction.application or 'no application name'})"
        message = f"{who} has had a transaction open for {format_duration(transaction.age_s)}; it {effect}"
        if transaction.application.startswith(_OUR_SESSIONS):
            # A copy of a large table: ended, it would start again.
            yield note(Code.COPY_LONG, subject, message, measures=age)
            continue
        # With a timeout it returns when the session has ended, not when it was asked to.
        statement = as_superuser(f"select pg_terminate_backend({transaction.pid}, 10000);")
        yield warning(Code.TRANSACTION_LONG, subject, message, statement, age)


_SERVER = "server"
_OUR_SLOTS = re.compile(r"rowtide_\d+")
"""The names of rowtide's slots: they are failover slots whether or not there is a standby."""
_RELOAD = "select pg_reload_conf();"


def check_failover(server: ServerFacts, slot: str | None) -> Iterator[CheckResult]:
    """Check what a failover of a primary would keep; `slot` is ours, None while it is not made."""
    ours = next((other for other in server.slots if other.name == slot), None)
    if ours is not None and ours.has_failover:
        yield from _check_absent_standbys(server)
    yield from _check_being_ahead(server, ours)
    if ours is not None:
        yield from _check_lost_slot(server, ours)


def check_standby(server: ServerFacts) -> Iterator[CheckResult]:
    """Check whether capture would continue at a standby if it took over."""
    slot, standby = publication_name(server.identity.database_id), server.settings.as_standby
    if standby.syncs_slots is None:
        message = f"PostgreSQL {server.identity.version} has no failover slots: capture does not resume here by itself"
        yield warning(Code.STANDBY_WITHOUT_FAILOVER_SLOTS, _SERVER, message, "Upgrade to PostgreSQL 17 or later.")
        return
    statements = []
    if not standby.syncs_slots:
        statements.append("alter system set sync_replication_slots = on;")
    if not standby.has_feedback:
        statements.append("alter system set hot_standby_feedback = on;")
    if not standby.slot:
        statements.append("alter system set primary_slot_name = 'standby';")
    if statements:
        message = f"slot {slot} would be missing here after a promotion: the standby keeps no copies of slots"
        as_whom = "as a superuser; primary_slot_name is a physical slot of the primary"
        yield warning(Code.STANDBY_SYNCS_NO_SLOTS, _SERVER, message, Sql((*statements, _RELOAD), as_whom))
    if standby.names_database is False:
        message = "primary_conninfo names no database, in which the standby would read the primary's slots"
        yield warning(
            Code.STANDBY_CONNINFO_WITHOUT_DATABASE, _SERVER, message, "Add dbname=… to primary_conninfo, and reload."
        )
    if any(other.name == slot and other.is_kept for other in server.slots):
        yield note(
            Code.STANDBY_KEEPS_SLOT, _SERVER, f"slot {slot} is kept here: capture resumes here after a promotion"
        )
    elif not statements:
        message = f"slot {slot} is not kept here yet: a promotion now would lose it"
        advice = "The standby keeps it once the log reader has moved it past the log that the standby still has."
        yield warning(Code.STANDBY_LACKS_SLOT, _SERVER, message, advice)


def _check_being_ahead(server: ServerFacts, ours: ReplicationSlot | None) -> Iterator[CheckResult]:
    standbys = _name_standbys(server, ours)
    if standbys is None:
        return
    ahead = f"the server has {standbys}, and capture can be ahead of what a failover keeps; it would stop with RT-2107"
    if not server.settings.standby_slots:
        yield warning(Code.AHEAD_OF_STANDBYS, _SERVER, ahead, _hold_back(server))
    elif ours is not None and not ours.has_failover:
        message = f"{ahead}, because {ours.name} is no failover slot, which alone synchronized_standby_slots holds back"
        yield warning(Code.SLOT_NOT_HELD_BACK, _SERVER, message, _make_failover_slot(ours, server.identity.database))


def _name_standbys(server: ServerFacts, ours: ReplicationSlot | None) -> str | None:
    if server.settings.synchronous_standbys:
        return "synchronous standbys"
    if server.standbys:
        return f"standbys ({format_names(tuple(standby.name for standby in server.standbys))})"
    foreign = (
        slot for slot in server.slots if slot.has_failover and slot != ours and not _OUR_SLOTS.fullmatch(slot.name)
    )
    others = tuple(slot.name for slot in foreign)
    return f"failover slots ({format_names(others)})" if others else None


def _hold_back(server: ServerFacts) -> Remediation:
    """Only standbys that are there: for one that is away capture would wait."""
    if server.settings.standby_slots is None:
        return Advice("Before PostgreSQL 17 nothing prevents it; `cdc reinitialize --difference` continues then.")
    present = _present_standbys(server)
    if not present:
        return Advice("Let the standbys use physical slots, and name these in synchronized_standby_slots.")
    return _set_standby_slots(present)


def _check_absent_standbys(server: ServerFacts) -> Iterator[CheckResult]:
    named = tuple(name.strip().strip('"') for name in (server.settings.standby_slots or "").split(",") if name.strip())
    present = _present_standbys(server)
    absent = tuple(name for name in named if name not in present)
    if absent:
        message = f"capture waits for standbys that are away: {format_names(absent)} (synchronized_standby_slots)"
        others = _set_standby_slots([name for name in named if name in present])
        measures = counts(standbys=len(named), away=len(absent))
        yield failing(Code.STANDBYS_AWAY, _SERVER, message, others, measures)


def _check_lost_slot(server: ServerFacts, ours: ReplicationSlot) -> Iterator[CheckResult]:
    """Check whether a standby that takes over would have the slot."""
    if not server.standbys:
        return
    names = format_names(tuple(standby.name for standby in server.standbys))
    lost = f"after a failover slot {ours.name} is missing"
    if server.identity.version < FAILOVER_SLOTS_SINCE:
        message = f"{lost}: PostgreSQL {server.identity.version} has no failover slots; standbys: {names}"
        advice = (
            "Upgrade to PostgreSQL 17 or later. After a failover, `rowtide cdc reinitialize --difference` continues."
        )
        yield warning(Code.FAILOVER_WITHOUT_SLOTS, _SERVER, message, advice)
        return
    if server.syncs_slots is False:
        without_slot = [standby.name for standby in server.standbys if standby.slot is None]
        lacking = ["sync_replication_slots"]
        lacking += ["hot_standby_feedback"] if any(one.has_feedback is False for one in server.standbys) else []
        lacking += ["primary_slot_name"] if without_slot else []
        message = f"{lost}: no standby keeps a copy of it ({names}); lacking there: {format_names(tuple(lacking))}"
        advice = "Run `rowtide check` with the standby's URL: it prints the statements."
        yield warning(Code.FAILOVER_LOSES_SLOT, _SERVER, message, advice)


def _present_standbys(server: ServerFacts) -> list[str]:
    return [slot.name for slot in server.slots if slot.is_physical and slot.is_active]


def _set_standby_slots(names: list[str]) -> Sql:
    return set_and_reload("synchronized_standby_slots", ", ".join(map(quote_literal, names)) or "''")


def _make_failover_slot(slot: ReplicationSlot, database: str) -> Remediation:
    if slot.is_active:
        return Advice("Restart the log reader (`rowtide cdc run`), which makes it one.")
    escaped = database.replace("\\", "\\\\").replace("'", "\\'")
    statement = f"ALTER_REPLICATION_SLOT {quote(slot.name)} (FAILOVER true)"
    return shell("psql", f"dbname='{escaped}' replication=database", "-c", statement)
