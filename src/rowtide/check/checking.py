"""The check of the database that a URL names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from rowtide.check.addressing import Checked, address
from rowtide.check.errors import LakeNotJudged, PurposeUnknown, Stopped
from rowtide.core.names import require_text
from rowtide.core.places import require_place
from rowtide.databases.urls import parse_url
from rowtide.findings.finding import Finding, Severity, by_severity
from rowtide.findings.purpose import Purpose
from rowtide.health.judgements import Area, State, as_findings
from rowtide.health.judging import read_health

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    _Check = Callable[[str, Sequence[str], str | None, Purpose | None], Checked]

_WORK = frozenset({Area.LOG, Area.CAPTURE, Area.REPLICATION, Area.MERGE})
"""What agents do; everything else of health is found by the checks themselves."""
_WORK_FOR: Mapping[Purpose | None, frozenset[Area]] = {
    None: _WORK,
    Purpose.MONITOR: _WORK,
    Purpose.READER: frozenset({Area.CAPTURE}),
    Purpose.PUBLISHER: frozenset({Area.LOG, Area.CAPTURE, Area.REPLICATION}),
    Purpose.SUBSCRIBER: frozenset({Area.REPLICATION}),
    Purpose.MERGE: frozenset({Area.MERGE}),
}


def check_database(
    url: str, tables: Sequence[str] | str = (), lake: str | None = None, purpose: Purpose | str | None = None
) -> tuple[Finding, ...]:
    """Return what is missing or worth knowing in a database, the worst first; nothing in it is changed.

    Without `tables`: the captured and the tracked ones, before enabling all of the user's. Judged is what the role of
    the connection needs for a purpose; without one, to enable and to run what there is. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`, and what the check of such a database raises: `TableNotFound`,
    `TableToTrackNotFound`, `NothingForLake`, `LakeNotJudged`, `NotAPublisher`, `PurposeUnknown`, `PlaceUnnamed`,
    `NameUnfit`, and what connecting raises.
    """
    parsed = parse_url(url)
    known = _known(purpose)
    if lake is not None:
        require_place(lake)
        if known not in (None, Purpose.PUBLISHER):
            raise LakeNotJudged(str(known), lake)
    check: _Check = parsed.kind.load_part("rowtide.check", "checking").check
    named = _named(tables)
    checked = check(url, named, lake, known)
    in_work = () if named else _find_in_work(url, checked.findings, known)
    return by_severity(address(finding, checked.others) for finding in (*checked.findings, *in_work))


def _known(purpose: Purpose | str | None) -> Purpose | None:
    if purpose is not None and purpose not in set(Purpose):
        raise PurposeUnknown(purpose, ", ".join(Purpose))
    return Purpose(purpose) if purpose is not None else None


def _named(tables: Sequence[str] | str) -> Sequence[str]:
    named = (tables,) if isinstance(tables, str) else tuple(tables or ())
    for name in named:
        require_text("table", name)
    return named


def _find_in_work(url: str, known: Collection[Finding], purpose: Purpose | None) -> Iterator[Finding]:
    """Return what of the health of what was enabled is not well, and not found yet."""
    subjects = {finding.subject for finding in known}
    facts = {(finding.subject, finding.fact) for finding in known}
    for judgement in read_health(url):
        is_said = (judgement.subject, judgement.fact) in facts
        is_half_said = judgement.state is State.NOT_LOOKED_AT and judgement.subject in subjects
        is_failing = judgement.state is State.FAILING and (purpose is None or judgement.area is Area.DATABASE)
        # What a reader may not see is no concern of its.
        is_beyond = purpose is Purpose.READER and judgement.state is State.NOT_LOOKED_AT
        is_meant = (judgement.area in _WORK_FOR[purpose] or is_failing) and not is_beyond
        if is_meant and not (is_said or is_half_said):
            yield from as_findings([judgement])


def require_nothing_stops(findings: Sequence[Finding]) -> None:
    """Raise `Stopped` if any finding stops anything."""
    subjects = [finding.subject for finding in findings if finding.severity is Severity.STOPS]
    if subjects:
        raise Stopped(", ".join(dict.fromkeys(subjects)))
