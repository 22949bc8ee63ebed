"""Checks of what enable-db and enable-table created. Pure."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rowtide.cdc.capture.planning import find_misfit
from rowtide.cdc.definitions import FEATURE as CAPTURE
from rowtide.cdc.enabling.instances import is_key_kept
from rowtide.cdc.errors.capturing import DefinitionsIncomplete
from rowtide.cdc.instances import Instance
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.source_table import SourceTable
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.postgres.capture_facts import CapturedInstance, CaptureFacts, RuleFacts, SlotFacts
from rowtide.diagnosis.postgres.reading import DatabaseFacts
from rowtide.diagnosis.postgres.server_facts import RoleFacts, ServerFacts
from rowtide.diagnosis.postgres.tables import check_members
from rowtide.diagnosis.result import (
    AS_OWNER,
    Advice,
    CheckResult,
    Measure,
    Remediation,
    ShellCommand,
    Sql,
    State,
    failing,
    format_bytes,
    format_duration,
    format_names,
    note,
    of_error,
    quote_table,
    shell,
    sizes,
    times,
    warning,
)
from rowtide.log import errors
from rowtide.log.postgres.missed_ddl import shape_of
from rowtide.log.store.state import ManifestState
from rowtide.replication.articles.articles import FEATURE as REPLICATION

SMALL_SAFE_SHARE = 0.2
"""A smaller remaining share of max_slot_wal_keep_size is a warning; its value is checked with the server."""
MUCH_KEPT_BYTES = 1 << 30

_BLOCKED: dict[type[RowtideError], tuple[str, Code]] = {
    errors.SlotMissing: ("slot", Code.SLOT_MISSING),
    errors.SlotInvalidated: ("slot", Code.SLOT_LOST),
    errors.SlotAdvanced: ("slot", Code.SLOT_ADVANCED),
    errors.PublicationAltered: ("publication", Code.PUBLICATION_ALTERED),
    errors.HistoryDiverged: ("server", Code.HISTORY_DIVERGED),
    errors.ServerPromoted: ("server", Code.SERVER_PROMOTED),
    DefinitionsIncomplete: ("schema cdc", Code.DEFINITIONS_INCOMPLETE),
}
"""Other errors of the verification are about the log store."""


_READERS = {CAPTURE: "instance ", REPLICATION: "article "}


def check_capture(facts: DatabaseFacts) -> Iterator[CheckResult]:
    """Check what enabling created; before enable-db, what would prevent it."""
    for schema in facts.taken_schemas:
        rename = Sql((f"alter schema {quote(schema)} rename to {quote(schema + '_earlier')};",), "as its owner")
        yield of_error(Code.SCHEMA_TAKEN, State.FAILING, f"schema {schema}", errors.SchemaTaken(schema), rename)
    if facts.capture is None:
        return
    yield from check_log(facts.capture, facts.server)
    if not facts.capture.has_triggers:
        yield _check_triggers(facts.capture, facts.role)
    yield from check_instances(facts.capture, (one.table for one in facts.tables))
    yield from check_members(facts.capture.members)
    yield from check_consumers(facts.capture)
    if facts.capture.requests is not None:
        yield note(Code.BUCKET_REQUESTS, "requests to the bucket", facts.capture.requests)
    if facts.capture.rules is not None:
        yield from check_rules(facts.capture.rules, facts.capture, facts.role)


def check_log(capture: CaptureFacts, server: ServerFacts) -> Iterator[CheckResult]:
    """Check what the log is read through: slot, publication, log store, the server's history."""
    for blocker in capture.blockers:
        yield _check_blocker(blocker, capture)
    if capture.slot is not None:
        yield from _check_slot(capture.slot, server, run_reader(capture))
    if capture.state is not None:
        yield from _check_incomplete(capture.state)
    for new in capture.new_partitions:
        message = (
            f"a truncate of it would go unseen, though {new.table} is read: the trigger that refuses it is missing"
        )
        yield warning(Code.TRUNCATE_UNSEEN, f"partition {new.name}", message, _TAKES_IN)


def _check_incomplete(state: ManifestState) -> Iterator[CheckResult]:
    """Name, of what members lack, the last of each."""
    last = {one.member_id: one for one in state.lacking(*state.readers)}
    for member in state.members:
        if member.member_id in last:
            lacking = last[member.member_id]
            error = errors.ChangeLeftOut(f"{member.schema}.{member.table}", str(lacking.lsn), lacking.reason)
            yield of_error(Code.CHANGE_LEFT_OUT, State.WARNING, _READERS[member.feature] + member.name, error)


_TAKES_IN = (
    "The log reader creates it within ten seconds. If it does not, its role lacks the right: let the partition's "
    "owner `grant trigger` on the partition to it."
)


def run_reader(capture: CaptureFacts) -> ShellCommand:
    """Return the command that reads the log: that of capture, else that of replication."""
    return shell("rowtide", "cdc" if capture.is_enabled else "replication", "run")


def _repeat(capture: CaptureFacts) -> Remediation:
    """Return the command that completes what reads the log."""
    if not capture.is_enabled:
        return Advice("Add a publication, under a name of its own: that makes what is missing, then it can be dropped.")
    return shell("rowtide", "cdc", "enable-db", "--lake", capture.source.lake)


def _let_superuser(role: RoleFacts, command: Remediation) -> Remediation:
    """Event triggers are made by a superuser: run by another role the command has no effect."""
    if role.is_superuser or isinstance(command, Advice):
        return command
    return Advice(f"Let a superuser, or a role that the service lets create event triggers, run `{command}`.")


def without_forbidden(capture: CaptureFacts) -> CaptureFacts:
    """Omit that this user may not write to the log store's folder: the user of the agents may."""
    return replace(capture, blockers=tuple(one for one in capture.blockers if not is_forbidden(one)))


def is_forbidden(blocker: RowtideError) -> bool:
    """Return whether a log store was not read for a right that others may have."""
    return isinstance(blocker, errors.LogStoreNotWritable) and blocker.reason == os.strerror(errno.EACCES)


def _check_triggers(capture: CaptureFacts, role: RoleFacts) -> CheckResult:
    message = (
        "the event triggers are missing, or of another build, which log what DDL does to captured and "
        "published tables: statements are inferred from the rows that follow, rewritten values and dropped partitions "
        "go unnoticed, and a dropped table ends with the next changes that are read; only a superuser, "
        "or a role that the service allows, creates them"
    )
    return warning(Code.EVENT_TRIGGERS_MISSING, "event triggers", message, _let_superuser(role, _repeat(capture)))


def _check_blocker(blocker: RowtideError, capture: CaptureFacts) -> CheckResult:
    subject, code = _BLOCKED.get(type(blocker), ("log store", Code.LOG_STORE_UNUSABLE))
    return of_error(code, State.FAILING, subject, blocker, _remediate_blocker(blocker, capture))


def _remediate_blocker(blocker: RowtideError, capture: CaptureFacts) -> Remediation | None:
    if {errors.SlotMissing, errors.ManifestMissing} <= {type(other) for other in capture.blockers}:
        # Enabling was interrupted; repeating it completes it.
        return _repeat(capture)
    if isinstance(blocker, DefinitionsIncomplete):
        return _repeat(capture)
    if isinstance(blocker, errors.HistoryDiverged | errors.ServerPromoted) or type(blocker) not in _BLOCKED:
        return None
    if not capture.is_enabled:
        return shell("rowtide", "replication", "restart-log")
    is_lost_slot = not isinstance(blocker, errors.PublicationAltered)
    can_compare = is_lost_slot and any(instance.can_be_compared for instance in capture.instances)
    return shell("rowtide", "cdc", "reinitialize", *(["--difference"] if can_compare else []))


def _check_slot(slot: SlotFacts, server: ServerFacts, run: ShellCommand) -> Iterator[CheckResult]:
    if slot.wal_status == "lost":
        return
    subject = f"slot {slot.name}"
    if slot.wal_status == "unreserved":
        message = "it is beyond max_slot_wal_keep_size: the server may remove its WAL at the next checkpoint"
        yield warning(Code.SLOT_UNRESERVED, subject, message, run, measure_slot(slot))
    elif slot.safe_bytes is not None and slot.safe_bytes < (server.settings.wal_keep_bytes or 0) * SMALL_SAFE_SHARE:
        rate = server.wal_bytes_per_s
        rest = f", at the average rate in {format_duration(slot.safe_bytes / rate)}" if rate else ""
        message = f"it is lost when {format_bytes(slot.safe_bytes)} more of WAL are written{rest}"
        yield warning(Code.SLOT_NEAR_LOSS, subject, message, run, measure_slot(slot))
    elif slot.kept_bytes is not None and slot.kept_bytes >= MUCH_KEPT_BYTES:
        message = f"the server keeps {format_bytes(slot.kept_bytes)} of WAL for it"
        yield note(Code.SLOT_KEEPS_WAL, subject, message, run, measure_slot(slot))


def measure_slot(slot: SlotFacts) -> tuple[Measure, ...]:
    """Return the WAL that is kept for a slot, and what is left before it is lost."""
    return sizes(kept_bytes=slot.kept_bytes, safe_bytes=slot.safe_bytes)


def check_instances(capture: CaptureFacts, tables: Iterable[SourceTable]) -> Iterator[CheckResult]:
    """Check capture instances whose tables were looked at, and those whose tables are gone."""
    known = {table.source_id: table for table in tables}
    for instance in capture.instances:
        subject = f"instance {instance.name}"
        table = known.get(instance.source_id)
        if instance.is_dropped:
            message = f"its table {instance.schema}.{instance.table} was dropped; the log reader ends it"
            yield warning(Code.INSTANCE_TABLE_DROPPED, subject, message, _disable(instance))
        elif table is None:
            continue  # the user named others
        elif instance.definition is None and capture.state is None:
            continue  # it is in the log store, which was not read
        elif instance.definition is None:
            as_bad = warning if capture.log_reader is None else note
            message = "the log reader has not read yet that it was enabled"
            yield as_bad(Code.INSTANCE_UNREAD, subject, message, shell("rowtide", "cdc", "run"))
        else:
            yield from _check_shape(instance, instance.definition, table)


def check_consumers(capture: CaptureFacts) -> Iterator[CheckResult]:
    """Check consumers that cleanup will soon pass."""
    for consumer in capture.consumers:
        if not consumer.is_at_risk:
            continue
        left = f"in {consumer.hours_left} hours" if consumer.hours_left > 0 else "any time now"
        behind = format_duration(consumer.lag_seconds)
        message = f"it is {behind} behind; cleanup passes it {left}, and takes what it lacks"
        remediation = Advice(
            "Let it consume, or raise its limit with `rowtide cdc change-consumer`; drop one that is gone."
        )
        yield warning(
            Code.CONSUMER_AT_RISK,
            f"consumer {consumer.consumer}",
            message,
            remediation,
            times(lag_s=consumer.lag_seconds, left_s=consumer.hours_left * 3600.0),
        )


def check_rules(rules: RuleFacts, capture: CaptureFacts, role: RoleFacts) -> Iterator[CheckResult]:
    """Check rules for new tables: whether these join as they are created, and which could not."""
    if not rules.has_triggers:
        message = (
            "new tables are enabled by the running capture only, seconds after they are created, and what is written "
            "to them before is not captured: the event trigger is missing, or of another build; to make it takes a "
            "superuser, or who the service lets, who owns what enabling made"
        )
        yield warning(
            Code.RULE_WITHOUT_TRIGGER,
            f"rule {format_names(rules.names)}",
            message,
            _let_superuser(role, _repeat(capture)),
        )
    for table in rules.failed:
        subject = f"table {table.source_schema}.{table.source_table}"
        remediation = Advice(
            "Resolve that, and it is enabled within minutes; or make the rule again, with --except for this table."
        )
        yield warning(
            Code.RULE_FAILED, subject, f"rule {table.rule_name} cannot enable it: {table.reason}", remediation
        )


def _remediate_identity(table: SourceTable) -> Remediation:
    virtual = next((column.name for column in table.columns if column.is_virtual), None)
    if virtual is None:
        return Sql((f"alter table {quote_table(table)} replica identity full;",), AS_OWNER)
    return Advice(
        f"Disable the instance, and enable it with --before-images key: column {virtual} is virtual, and with a full "
        "replica identity the server refuses updates and deletes of its table."
    )


def _check_shape(instance: CapturedInstance, definition: Instance, table: SourceTable) -> Iterator[CheckResult]:
    subject = f"instance {instance.name}"
    misfit = find_misfit(definition, shape_of(table))
    if misfit is not None:
        message = f"{misfit}; capture stops before the first change that was written since (RT-4105)"
        yield failing(Code.IDENTITY_UNFIT, subject, message, _remediate_identity(table))
    present = {column.number: column.name for column in table.columns}
    gone = tuple(column.name for column in definition.columns if column.column_id not in present)
    if gone:
        message = f"captured columns are gone from its table, and null since: {format_names(gone)}"
        advice = "Enable a second instance, read this one up to there, then disable it."
        yield note(Code.CAPTURED_COLUMN_GONE, subject, message, advice)
    ordinary = {column.number for column in table.columns if not column.is_generated}
    unread = [column for column in definition.columns if column.is_computed and column.column_id in ordinary]
    missed = tuple(column.name for column in unread if column.column_id not in instance.read_numbers)
    if missed:
        message = (
            f"columns that were generated are ordinary ones now, and null in its change rows: {format_names(missed)}"
        )
        advice = "Enable a second instance, read this one up to there, then disable it."
        yield warning(Code.GENERATED_COLUMN_ORDINARY, subject, message, advice)
    key = tuple(present.get(column.column_id, column.name) for column in definition.index_columns)
    if key and not is_key_kept(table, key):
        message = f"no valid unique index of its table identifies rows by {format_names(key)} any more"
        advice = "Make it again; until then net changes may take several rows for one."
        yield warning(Code.INSTANCE_KEY_NOT_KEPT, subject, message, advice)


def _disable(instance: CapturedInstance) -> ShellCommand:
    name = quote_qualified(instance.schema, instance.table)
    return shell("rowtide", "cdc", "disable-table", name, "--capture-instance", instance.name)
