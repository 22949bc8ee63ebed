"""What SQLite tables are like, and what that means for tracking. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.findings.finding import Advice, Command, Finding, Mend, Severity
from rowtide.findings.quantities import format_names
from rowtide.findings.sqlite.facts import ColumnEffects, TableFacts
from rowtide.findings.tracked_findings import enable, move_beside
from rowtide.tracking.options import Storage, TrackingKeyType
from rowtide.tracking.sqlite.subjects import key_of


def find_in_table(facts: TableFacts) -> Iterator[Finding]:
    """Judge one table, whose tracking is not lost."""
    key_type = _key_type(facts)
    subject = f"table {facts.table.name}"
    if key_type is None or (facts.tracked is None and key_type is TrackingKeyType.ROWGUID):
        fact = "it has no primary key, which would identify its rows"
        yield Finding(Severity.WARNS, subject, fact, _mend_key(facts, key_type))
    if key_type is None:
        return
    nullable = tuple(column.name for column in key_of(facts.table, key_type) if column.is_nullable)
    if nullable:
        yield _judge_nulls(subject, nullable)
    if facts.effects != ColumnEffects():
        fact = f"the columns that tracking adds to a table are felt here: {'; '.join(_tell(facts.effects))}"
        yield Finding(Severity.WARNS, subject, fact, _keep_beside(facts, key_type))


def _key_type(facts: TableFacts) -> TrackingKeyType | None:
    """Return by what a table is tracked, or could be, the primary key first."""
    if facts.tracked is not None:
        return facts.tracked.key_type
    return next((key_type for key_type in TrackingKeyType if key_of(facts.table, key_type)), None)


def _mend_key(facts: TableFacts, key_type: TrackingKeyType | None) -> Mend:
    if key_type is not None:
        return _keep_beside(facts, key_type) if facts.effects != ColumnEffects() else _enable(facts, key_type)
    advice = (
        "Re-create the table with a primary key; or give it a unique column rowguid, not null, that every program "
        "fills, and track it with --key rowguid."
    )
    return Advice(advice)


def _judge_nulls(subject: str, columns: tuple[str, ...]) -> Finding:
    fact = f"its key may be null ({format_names(columns)}): rows with a null in it cannot be identified"
    advice = "Re-create the table with a key that is not null, if programs leave it out."
    return Finding(Severity.WARNS, subject, fact, Advice(advice))


def _tell(effects: ColumnEffects) -> Iterator[str]:
    if effects.broken:
        names = format_names(effects.broken)
        yield f"SQLite refuses statements of {names}, which rely on the number of its columns"
    if effects.widened:
        yield f"{format_names(effects.widened)} would show them, with select *"
    if effects.asked:
        yield f"{format_names(effects.asked)}, a trigger of every update, is asked when a row is stamped too"


def _keep_beside(facts: TableFacts, key_type: TrackingKeyType) -> Command:
    if facts.tracked is not None:
        return move_beside(facts.tracked, facts.table.name)
    return enable(facts.table.name, key_type=key_type, storage=Storage.SIDE)


def _enable(facts: TableFacts, key_type: TrackingKeyType) -> Command:
    return enable(facts.table.name, key_type=key_type)
