from __future__ import annotations

import pytest

from rowtide.databases.postgres.errors import RightMissing
from rowtide.findings.finding import Finding, Severity
from rowtide.health import Area, Judgement, State, exit_code, worst
from rowtide.health.judgements import as_findings, by_state, judge_findings, not_looked_at, settle


def of(*states: State) -> list[Judgement]:
    return [Judgement(Area.LOG, str(state), state, "so it is") for state in states]


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([State.WELL], 0),
        ([State.WELL, State.WARNING], 1),
        ([State.WELL, State.NOT_LOOKED_AT], 1),
        ([State.NOT_LOOKED_AT, State.FAILING, State.WARNING], 2),
    ],
)
def test_the_worst_state_decides_the_exit_code(states: list[State], code: int) -> None:
    assert exit_code(of(*states)) == code


def test_without_judgements_nothing_was_looked_at() -> None:
    assert worst(()) is State.NOT_LOOKED_AT


def test_the_worst_comes_first_and_equals_stay_in_order() -> None:
    listed = by_state(of(State.WELL, State.WARNING, State.FAILING, State.NOT_LOOKED_AT))
    assert [judgement.state for judgement in listed] == list(State)


def test_a_subject_without_findings_that_matter_is_well() -> None:
    told = Finding(Severity.TELLS, "slot s", "the server keeps 2 GiB")
    assert list(judge_findings(Area.LOG, [told])) == []
    (well,) = settle(Area.LOG, [told], subject="slot s", well="reserved")
    assert (well.state, well.fact) == (State.WELL, "reserved")


def test_findings_that_matter_are_judgements() -> None:
    stops, warns = Finding(Severity.STOPS, "slot", "it is lost"), Finding(Severity.WARNS, "slot s", "soon lost")
    judged = list(settle(Area.LOG, [stops, warns], subject="slot s", well="reserved"))
    assert [(one.subject, one.state, one.fact) for one in judged] == [
        ("slot", State.FAILING, "it is lost"),
        ("slot s", State.WARNING, "soon lost"),
    ]


def test_what_is_not_well_is_a_finding_of_the_check() -> None:
    unseen = not_looked_at(Area.MERGE, "merge", RightMissing("permission denied"))
    findings = list(as_findings([*of(State.FAILING, State.WARNING, State.WELL), unseen]))
    assert [finding.severity for finding in findings] == [Severity.STOPS, Severity.WARNS, Severity.WARNS]
    assert findings[-1].fact == "was not looked at: the server refused: permission denied"
