"""Whether tracked tables are tracked still. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rowtide.findings.finding import Finding
from rowtide.findings.tracked_facts import TrackedFacts
from rowtide.findings.tracked_findings import subject_of
from rowtide.health.judgements import Area, Judgement, judge_findings, settle


def judge_tracking(
    outdated: Iterable[Finding], tables: Iterable[tuple[TrackedFacts, Sequence[Finding]]]
) -> Iterator[Judgement]:
    """Judge tables with what was found in each; `outdated`: what was found in those that another version tracks."""
    yield from judge_findings(Area.TRACKING, outdated)
    for facts, findings in tables:
        well = f"it is tracked; tombstones: {facts.tombstones.count:,}"
        yield from settle(Area.TRACKING, findings, subject=subject_of(facts.tracked), well=well)
