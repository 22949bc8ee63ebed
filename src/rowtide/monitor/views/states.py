"""Results of checks: the worst one of each subject as its judgement, and all of them with their remediations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.core.values import frozen
from rowtide.diagnosis import Area, CheckResult, Code, State
from rowtide.diagnosis.result import Measure, ShellCommand, Sql
from rowtide.monitor.labels import without_row_values, without_users

MERGE_STATES = {
    Code.MERGE_NEVER_SYNCHRONISED: "never_synchronised",
    Code.MERGE_EXPIRED: "expired",
    Code.MERGE_FAILED: "failed",
    Code.MERGE_EXPIRING: "expiring",
    Code.MERGE_ROWS_REFUSED: "rows_refused",
    Code.MERGE_SUBSCRIPTION_HEALTHY: "healthy",
}
"""States of a merge subscription, by its code in `health`."""
WORST_FIRST = tuple(State)


@frozen
class Judgement:
    """The worst result of `health` for a subject; `message` quotes no row."""

    area: str
    subject: str
    state: State
    code: str
    message: str


@frozen
class CheckView:
    """A result of a check.

    `message` quotes no row. `remediation` is None where nothing has to be done; it `can_be_run` in a shell or by the
    database, else it is advice.
    """

    area: str
    subject: str
    state: State
    code: str
    message: str
    remediation: str | None
    can_be_run: bool
    measures: tuple[Measure, ...]


def judge(results: Iterable[CheckResult]) -> Iterator[Judgement]:
    """Return one judgement of each subject; the subscriptions of a merge publication are one subject."""
    found: dict[tuple[str, str], Judgement] = {}
    for result in results:
        key = str(result.area), _subject_of(result)
        known = found.get(key)
        if known is None or WORST_FIRST.index(result.state) < WORST_FIRST.index(known.state):
            message = without_row_values(without_users(result.message))
            found[key] = Judgement(*key, result.state, str(result.code), message)
    yield from found.values()


def list_checks(results: Iterable[CheckResult]) -> Iterator[CheckView]:
    """Return all results, in their order: the worst first."""
    for result in results:
        remediation = result.remediation
        yield CheckView(
            area=str(result.area),
            subject=without_users(result.subject),
            state=result.state,
            code=str(result.code),
            message=without_row_values(without_users(result.message)),
            remediation=without_users(str(remediation)) if remediation is not None else None,
            can_be_run=isinstance(remediation, Sql | ShellCommand),
            measures=result.measures,
        )


def worst_of(judgements: Iterable[Judgement]) -> State:
    """Return the worst state; without judgements, unknown."""
    return min((one.state for one in judgements), key=WORST_FIRST.index, default=State.UNKNOWN)


def _subject_of(result: CheckResult) -> str:
    if result.area is Area.MERGE and result.code in MERGE_STATES:
        return f"{result.subject.partition(', ')[0]}, all subscribers"
    return without_users(result.subject)
