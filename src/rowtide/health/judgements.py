"""What health says: a subject, its state, the fact behind it, and what mends it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from rowtide.core.errors import RowtideError
from rowtide.findings.finding import Advice, Finding, Mend, Severity

LOG = "log, capture and publications"
"""The subject of all that is read through the log, where its definitions could not be read."""


class State(StrEnum):
    """How a subject stands, the worst first."""

    FAILING = "failing"
    """It does not do its work, or changes are lost."""
    WARNING = "warning"
    """It works or can go on, and will fail unless something is done."""
    NOT_LOOKED_AT = "not looked at"
    """Nothing is known of it. Counts as a warning: an unknown state is not well."""
    WELL = "well"


class Area(StrEnum):
    """What a judgement is about."""

    DATABASE = "database"
    LOG = "log"
    CAPTURE = "capture"
    REPLICATION = "replication"
    MERGE = "merge"
    TRACKING = "tracking"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One subject's state; `mend` is None where nothing has to be done."""

    area: Area
    subject: str
    state: State
    fact: str
    mend: Mend | None = None


_EXIT_CODES = {State.FAILING: 2, State.WARNING: 1, State.NOT_LOOKED_AT: 1, State.WELL: 0}
_STATES = {Severity.STOPS: State.FAILING, Severity.WARNS: State.WARNING}
_SEVERITIES = {
    State.FAILING: Severity.STOPS,
    State.WARNING: Severity.WARNS,
    State.NOT_LOOKED_AT: Severity.WARNS,
}


def by_state(judgements: Iterable[Judgement]) -> tuple[Judgement, ...]:
    """Return the judgements, the worst first, else in the order in which they were made."""
    order = list(State)
    return tuple(sorted(judgements, key=lambda judgement: order.index(judgement.state)))


def worst(judgements: Iterable[Judgement]) -> State:
    """Return the worst state; without judgements nothing was looked at."""
    order = list(State)
    return min((judgement.state for judgement in judgements), key=order.index, default=State.NOT_LOOKED_AT)


def exit_code(judgements: Iterable[Judgement]) -> int:
    """Return 0 where all is well, 1 with a warning, 2 where anything fails."""
    return _EXIT_CODES[worst(judgements)]


def not_looked_at(area: Area, subject: str, error: RowtideError) -> Judgement:
    """Return what is said of a subject whose facts an error kept from being read."""
    return Judgement(area, subject, State.NOT_LOOKED_AT, error.filled_fact, Advice(error.filled_hint))


def judge_findings(area: Area, findings: Iterable[Finding]) -> Iterator[Judgement]:
    """Judge by findings: those that stop or warn."""
    for finding in findings:
        if finding.severity in _STATES:
            yield Judgement(area, finding.subject, _STATES[finding.severity], finding.fact, finding.mend)


def settle(area: Area, findings: Iterable[Finding], *, subject: str, well: str) -> Iterator[Judgement]:
    """As above; `well` is said of the subject where no finding stops or warns."""
    yield from tuple(judge_findings(area, findings)) or [Judgement(area, subject, State.WELL, well)]


def as_findings(judgements: Iterable[Judgement]) -> Iterator[Finding]:
    """Return as findings of a check what is not well."""
    for judgement in judgements:
        if judgement.state in _SEVERITIES:
            severity = _SEVERITIES[judgement.state]
            not_examined = "was not looked at: " if judgement.state is State.NOT_LOOKED_AT else ""
            yield Finding(severity, judgement.subject, f"{not_examined}{judgement.fact}", judgement.mend)


def nothing_enabled() -> Judgement:
    """Return what is said of a database in which rowtide does nothing: another database may be meant."""
    fact = "nothing is captured, published, merged or tracked here"
    advice = "Name another database with --db; or begin, `rowtide check` says what it takes."
    return Judgement(Area.DATABASE, "database", State.WARNING, fact, Advice(advice))
