"""Tracked tables of any database: whether tracking is intact, and the commands that repair it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.result import (
    Advice,
    CheckResult,
    Remediation,
    ShellCommand,
    State,
    counts,
    failing,
    format_duration,
    healthy,
    of_error,
    one_after_another,
    or_healthy,
    shell,
    times,
    warning,
    without_notes,
)
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingOptions

OLD_DAYS = 30
"""Tombstones above this age are old: applications that have not synchronised since copy the table again."""


@frozen
class TrackingLoss:
    """Why a table's tracking is lost, and since when that is known, in UTC; None where it was found out now.

    `is_dropped` says that the table is not there any more, `lacks_key` that it has not the key that it goes by.
    """

    why: str
    since: str | None
    is_dropped: bool = False
    lacks_key: bool = False


@frozen
class Tombstones:
    """The tombstones of a table: how many, how many old ones, and the age of the oldest."""

    count: int
    old_count: int
    oldest_days: float


NO_TOMBSTONES = Tombstones(0, 0, 0.0)


@frozen
class TrackedFacts:
    """A tracked table, what of its tracking was lost, and what its deletes have left."""

    tracked: TrackedTable
    loss: TrackingLoss | None
    tombstones: Tombstones


MANY_TOMBSTONES = 100_000
"""The number of old tombstones from which a purge is suggested."""
_DAY_S = 86_400.0


def check_format(refusal: RowtideError | None) -> Iterator[CheckResult]:
    """Say why this build does not use what is tracked, if it does not: its format is another one."""
    if refusal is not None:
        yield of_error(Code.TRACKING_OUTDATED, State.FAILING, "tracking", refusal)


def check_tracked(facts: TrackedFacts) -> Iterator[CheckResult]:
    """Check one tracked table."""
    if facts.loss is not None:
        yield _check_loss(facts.tracked, facts.loss)
    if facts.tombstones.old_count >= MANY_TOMBSTONES:
        yield _check_tombstones(facts.tracked, facts.tombstones)


def subject_of(tracked: TrackedTable) -> str:
    """Return how a tracked table is called as a subject."""
    return f"table {tracked.name}"


def resume(tracked: TrackedTable) -> ShellCommand:
    """Return the command by which a table is tracked again."""
    return shell("rowtide", "tracking", "resume", tracked.name)


def enable(
    table: str,
    *,
    key_type: TrackingKeyType = TrackingKeyType.PRIMARY_KEY,
    options: TrackingOptions = TrackingOptions.ALL,
    storage: Storage = Storage.ROW,
    index: StampIndex | None = None,
) -> ShellCommand:
    """Return the command by which a table is tracked; what is as usual is omitted."""
    words = ["rowtide", "tracking", "enable", table]
    if key_type is not TrackingKeyType.PRIMARY_KEY:
        words += ["--key", key_type]
    if _name(options) != _name(TrackingOptions.ALL):
        words += ["--options", _name(options)]
    if storage is not Storage.ROW:
        words += ["--storage", storage]
    if index is not None:
        words += ["--index", index]
    return shell(*words)


def move_beside(tracked: TrackedTable, table: str, index: StampIndex | None = None) -> ShellCommand:
    """Return the command by which a tracked table has its stamps beside its rows from then on."""
    again = enable(table, key_type=tracked.key_type, options=tracked.options, storage=Storage.SIDE, index=index)
    return one_after_another(shell("rowtide", "tracking", "disable", tracked.name), again)


def _name(options: TrackingOptions) -> str:
    return ",".join(option.name.lower() for option in TrackingOptions if option in options and option.name)


def _check_loss(tracked: TrackedTable, loss: TrackingLoss) -> CheckResult:
    since = f", found out at {loss.since} UTC" if loss.since is not None else ""
    message = f"its tracking is lost{since}: {loss.why}; changes since then may be missing (RT-6106)"
    return failing(Code.TRACKING_LOST, subject_of(tracked), message, remediate_loss(tracked, loss))


def remediate_loss(tracked: TrackedTable, loss: TrackingLoss) -> Remediation:
    """Return what remedies lost tracking."""
    if loss.is_dropped:
        return shell("rowtide", "tracking", "disable", tracked.name)
    if loss.lacks_key:
        return Advice(f"Give it the key again, then run `{resume(tracked)}`; or disable it and enable it by another.")
    return resume(tracked)


def _check_tombstones(tracked: TrackedTable, tombstones: Tombstones) -> CheckResult:
    message = (
        f"it has {tombstones.count} tombstones, {tombstones.old_count} of them older than {OLD_DAYS} days, the oldest "
        f"of {format_duration(tombstones.oldest_days * _DAY_S)} ago; who has not synchronised since then would have to "
        "copy it again after a purge"
    )
    purge = shell("rowtide", "tracking", "purge", "tombstones", tracked.name, "--days", str(OLD_DAYS))
    measures = (
        *counts(tombstones=tombstones.count, old_tombstones=tombstones.old_count),
        *times(oldest_s=tombstones.oldest_days * _DAY_S),
    )
    return warning(Code.TOMBSTONES_MANY, subject_of(tracked), message, purge, measures)


def check_tracked_tables(
    refusal: Iterable[CheckResult], tables: Iterable[tuple[TrackedFacts, Sequence[CheckResult]]]
) -> Iterator[CheckResult]:
    """Check tables with what was found in each; `refusal`: why this build does not use them."""
    yield from without_notes(refusal)
    for facts, results in tables:
        message = f"it is tracked; tombstones: {facts.tombstones.count:,}"
        measures = counts(tombstones=facts.tombstones.count)
        subject = subject_of(facts.tracked)
        tracked = healthy(Code.TRACKING_HEALTHY, subject, message, measures=measures)
        yield from or_healthy(results, tracked)
