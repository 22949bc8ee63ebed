"""A SQLite file and its tables: what they are like, and what that means for tracking. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.places import OTHERS
from rowtide.diagnosis.quantities import format_names
from rowtide.diagnosis.result import Advice, CheckResult, Remediation, ShellCommand, Sql, failing, note, warning
from rowtide.diagnosis.sqlite.file_facts import FileFacts, SqliteTableFacts
from rowtide.diagnosis.sqlite.schema_copy import ColumnEffects
from rowtide.diagnosis.tracked_tables import check_format, check_tracked, enable, move_beside
from rowtide.tracking.options import Storage, TrackingKeyType
from rowtide.tracking.sqlite.subjects import key_of


def check_table(facts: SqliteTableFacts) -> Iterator[CheckResult]:
    """Check one table, whose tracking is not lost."""
    key_type = _key_type(facts)
    subject = f"table {facts.table.name}"
    if key_type is None or (facts.tracked is None and key_type is TrackingKeyType.ROWGUID):
        message = "it has no primary key, which would identify its rows"
        yield warning(Code.TRACKING_KEY_MISSING, subject, message, _remediate_key(facts, key_type))
    if key_type is None:
        return
    nullable = tuple(column.name for column in key_of(facts.table, key_type) if column.is_nullable)
    if nullable:
        yield _check_nulls(subject, nullable)
    if facts.effects != ColumnEffects():
        felt = "; ".join(_describe_effects(facts.effects))
        message = f"the columns that tracking adds to a table are felt here: {felt}"
        yield warning(Code.TRACKING_COLUMNS_FELT, subject, message, _keep_beside(facts, key_type))


def _key_type(facts: SqliteTableFacts) -> TrackingKeyType | None:
    """Return by what a table is tracked, or could be, the primary key first."""
    if facts.tracked is not None:
        return facts.tracked.key_type
    return next((key_type for key_type in TrackingKeyType if key_of(facts.table, key_type)), None)


def _remediate_key(facts: SqliteTableFacts, key_type: TrackingKeyType | None) -> Remediation:
    if key_type is not None:
        return _keep_beside(facts, key_type) if facts.effects != ColumnEffects() else _enable(facts, key_type)
    advice = (
        "Re-create the table with a primary key; or give it a unique column rowguid, not null, that every program "
        "fills, and track it with --key rowguid."
    )
    return Advice(advice)


def _check_nulls(subject: str, columns: tuple[str, ...]) -> CheckResult:
    message = f"its key may be null ({format_names(columns)}): rows with a null in it cannot be identified"
    advice = "Re-create the table with a key that is not null, if programs leave it out."
    return warning(Code.TRACKING_KEY_NULLABLE, subject, message, advice)


def _describe_effects(effects: ColumnEffects) -> Iterator[str]:
    if effects.broken:
        names = format_names(effects.broken)
        yield f"SQLite refuses statements of {names}, which rely on the number of its columns"
    if effects.widened:
        yield f"{format_names(effects.widened)} would show them, with select *"
    if effects.asked:
        yield f"{format_names(effects.asked)}, a trigger of every update, is asked when a row is stamped too"


def _keep_beside(facts: SqliteTableFacts, key_type: TrackingKeyType) -> ShellCommand:
    if facts.tracked is not None:
        return move_beside(facts.tracked, facts.table.name)
    return enable(facts.table.name, key_type=key_type, storage=Storage.SIDE)


def _enable(facts: SqliteTableFacts, key_type: TrackingKeyType) -> ShellCommand:
    return enable(facts.table.name, key_type=key_type)


_WRITE_AHEAD = (None, "wal")
_KINDS = {"view": "a view", "virtual": "a virtual table", "shadow": "where a virtual table keeps its rows"}


def check_file(facts: FileFacts) -> Iterator[CheckResult]:
    """Check the file and its tables."""
    yield from _check_untrackable(facts)
    yield from _check_journal(facts)
    yield from _check_mode(facts)
    yield from check_format(facts.refusal)
    for tracked in facts.tracked:
        yield from check_tracked(tracked)
    lost = {tracked.tracked.name for tracked in facts.tracked if tracked.loss is not None}
    for table in facts.tables:
        if table.table.name not in lost and facts.refusal is None:
            yield from check_table(table)


def _check_untrackable(facts: FileFacts) -> Iterator[CheckResult]:
    for name, kind in facts.untrackable.items():
        message = f"it cannot be tracked: it is {_KINDS[kind]}, on which SQLite has no triggers of rows"
        yield failing(Code.TRACKING_REFUSED, f"table {name}", message, "Track the tables that its rows come from.")
    if facts.virtual_tables:
        message = f"{format_names(facts.virtual_tables)} cannot be tracked: SQLite has no triggers on virtual tables"
        yield note(Code.VIRTUAL_TABLES, "virtual tables", message)


def _check_mode(facts: FileFacts) -> Iterator[CheckResult]:
    """Warn of a subscriber, which is a copy, that every user of the machine may read; tell of a file of one's own."""
    if facts.mode is not None and facts.mode & OTHERS:
        as_bad = warning if facts.is_subscriber else note
        message = f"every user of this machine can read {facts.path}: its mode is {facts.mode & 0o777:o}"
        yield as_bad(Code.PLACE_PUBLIC, "file", message, ShellCommand(f"chmod o= {shlex.quote(facts.path)}"))


def _check_journal(facts: FileFacts) -> Iterator[CheckResult]:
    if facts.journal_mode not in _WRITE_AHEAD:
        message = (
            f"its journal is of the mode {facts.journal_mode}: programs that write wait while changes are enumerated, "
            "until these are in a temporary table"
        )
        when = "at a moment when no other program has it open; not for files on network file systems"
        yield warning(Code.FILE_JOURNAL, "file", message, Sql(("pragma journal_mode = wal;",), when))
