"""What is known of a SQLite file, and what it means for tracking. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rowtide.findings.finding import Advice, Command, Finding, Severity, Sql
from rowtide.findings.place_findings import OTHERS
from rowtide.findings.quantities import format_names
from rowtide.findings.sqlite.facts import FileFacts
from rowtide.findings.sqlite.table_findings import find_in_table
from rowtide.findings.tracked_findings import find_in_tracked, find_outdated
from rowtide.tracking.sqlite.system_tables import FORM

_WRITE_AHEAD = (None, "wal")
_KINDS = {"view": "a view", "virtual": "a virtual table", "shadow": "where a virtual table keeps its rows"}


def find_in_file(facts: FileFacts) -> Iterator[Finding]:
    """Judge the file and its tables."""
    yield from _find_untrackable(facts)
    yield from _find_journal(facts)
    yield from _find_readers(facts)
    yield from find_outdated(facts.forms, FORM)
    for tracked in facts.tracked:
        yield from find_in_tracked(tracked)
    lost = {tracked.tracked.name for tracked in facts.tracked if tracked.loss is not None}
    for table in facts.tables:
        if table.table.name not in lost and table.table.name not in facts.forms:
            yield from find_in_table(table)


def _find_untrackable(facts: FileFacts) -> Iterator[Finding]:
    for name, kind in facts.untrackable.items():
        fact = f"it cannot be tracked: it is {_KINDS[kind]}, on which SQLite has no triggers of rows"
        yield Finding(Severity.STOPS, f"table {name}", fact, Advice("Track the tables that its rows come from."))
    if facts.virtual_tables:
        fact = f"{format_names(facts.virtual_tables)} cannot be tracked: SQLite has no triggers on virtual tables"
        yield Finding(Severity.TELLS, "virtual tables", fact)


def _find_readers(facts: FileFacts) -> Iterator[Finding]:
    """Warn of a subscriber, which is a copy, that every user of the machine may read; tell of a file of one's own."""
    if facts.mode is not None and facts.mode & OTHERS:
        severity = Severity.WARNS if facts.is_subscriber else Severity.TELLS
        fact = f"every user of this machine can read {facts.path}: its mode is {facts.mode & 0o777:o}"
        yield Finding(severity, "file", fact, Command(f"chmod o= {shlex.quote(facts.path)}"))


def _find_journal(facts: FileFacts) -> Iterator[Finding]:
    if facts.journal_mode not in _WRITE_AHEAD:
        fact = (
            f"its journal is of the mode {facts.journal_mode}: programs that write wait while changes are enumerated, "
            "until these are in a temporary table"
        )
        note = "at a moment when no other program has it open; not for files on network file systems"
        yield Finding(Severity.WARNS, "file", fact, Sql(("pragma journal_mode = wal;",), note))
