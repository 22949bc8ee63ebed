"""The check of the database that a URL names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from rowtide.check.errors import Stopped
from rowtide.core.names import require_text
from rowtide.core.places import require_place
from rowtide.databases.urls import parse_url
from rowtide.findings.finding import Finding, Severity, by_severity
from rowtide.health.judgements import Area, State, as_findings
from rowtide.health.judging import read_health

if TYPE_CHECKING:
    from collections.abc import Callable

    _Check = Callable[[str, Sequence[str], str | None], tuple[Finding, ...]]

_WORK = {Area.LOG, Area.CAPTURE, Area.REPLICATION, Area.MERGE}
"""What agents do; everything else of health is found by the checks themselves."""


def check_database(url: str, tables: Sequence[str] | str = (), lake: str | None = None) -> tuple[Finding, ...]:
    """Return what is missing or worth knowing in a database, the worst first; nothing in it is changed.

    Without `tables`: the captured and the tracked ones, before enabling all of the user's. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`, and what the check of such a database raises: `TableNotFound`,
    `TableToTrackNotFound`, `NothingForLake`, `PlaceUnnamed`, `NameUnfit`, and what connecting raises.
    """
    parsed = parse_url(url)
    if lake is not None:
        require_place(lake)
    check: _Check = parsed.kind.load_part("rowtide.check", "checking").check
    named = _named(tables)
    findings = check(url, named, lake)
    return findings if named else by_severity([*findings, *_find_in_work(url, findings)])


def _named(tables: Sequence[str] | str) -> Sequence[str]:
    named = (tables,) if isinstance(tables, str) else tuple(tables or ())
    for name in named:
        require_text("table", name)
    return named


def _find_in_work(url: str, known: Collection[Finding]) -> Iterator[Finding]:
    """Return what of the health of what was enabled is not well, and not found yet."""
    subjects = {finding.subject for finding in known}
    facts = {(finding.subject, finding.fact) for finding in known}
    for judgement in read_health(url):
        is_said = (judgement.subject, judgement.fact) in facts
        is_half_said = judgement.state is State.NOT_LOOKED_AT and judgement.subject in subjects
        is_meant = judgement.area in _WORK or judgement.state is State.FAILING
        if is_meant and not (is_said or is_half_said):
            yield from as_findings([judgement])


def require_nothing_stops(findings: Sequence[Finding]) -> None:
    """Raise `Stopped` if any finding stops anything."""
    subjects = [finding.subject for finding in findings if finding.severity is Severity.STOPS]
    if subjects:
        raise Stopped(", ".join(dict.fromkeys(subjects)))
