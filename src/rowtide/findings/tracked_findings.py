"""What became of tracked tables, and the commands that mend it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rowtide.findings.finding import Advice, Command, Finding, Mend, Severity, one_after_another, shell
from rowtide.findings.quantities import format_duration, format_names
from rowtide.findings.tracked_facts import OLD_DAYS, Tombstones, TrackedFacts, TrackingLoss
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingKeyType, TrackingOptions

MANY_TOMBSTONES = 100_000
"""That many old ones are worth a purge."""
_DAY_S = 86_400.0


def find_outdated(forms: Mapping[str, int], form: int) -> Iterator[Finding]:
    """Judge the forms of tables, by their names, beside the one that this version writes."""
    older = tuple(name for name, found in forms.items() if found < form)
    newer = tuple(name for name, found in forms.items() if found > form)
    if older:
        fact = f"an older rowtide tracked {format_names(older)}: tracking continues when their triggers are re-created"
        yield Finding(Severity.STOPS, "tracking", fact, shell("rowtide", "tracking", "upgrade"))
    if newer:
        fact = f"a newer rowtide tracked {format_names(newer)}"
        yield Finding(Severity.STOPS, "tracking", fact, Advice("Use a rowtide that is as new."))


def find_in_tracked(facts: TrackedFacts) -> Iterator[Finding]:
    """Judge one tracked table."""
    if facts.loss is not None:
        yield _judge_loss(facts.tracked, facts.loss)
    if facts.tombstones.old_count >= MANY_TOMBSTONES:
        yield _judge_tombstones(facts.tracked, facts.tombstones)


def subject_of(tracked: TrackedTable) -> str:
    """Return how a tracked table is called as a subject."""
    return f"table {tracked.name}"


def resume(tracked: TrackedTable) -> Command:
    """Return the command by which a table is tracked again."""
    return shell("rowtide", "tracking", "resume", tracked.name)


def enable(
    table: str,
    *,
    key_type: TrackingKeyType = TrackingKeyType.PRIMARY_KEY,
    options: TrackingOptions = TrackingOptions.ALL,
    storage: Storage = Storage.ROW,
    index: StampIndex | None = None,
) -> Command:
    """Return the command by which a table is tracked; what is as usual is left out."""
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


def move_beside(tracked: TrackedTable, table: str, index: StampIndex | None = None) -> Command:
    """Return the command by which a tracked table has its stamps beside its rows from then on."""
    again = enable(table, key_type=tracked.key_type, options=tracked.options, storage=Storage.SIDE, index=index)
    return one_after_another(shell("rowtide", "tracking", "disable", tracked.name), again)


def _name(options: TrackingOptions) -> str:
    return ",".join(option.name.lower() for option in TrackingOptions if option in options and option.name)


def _judge_loss(tracked: TrackedTable, loss: TrackingLoss) -> Finding:
    since = f", found out at {loss.since} UTC" if loss.since is not None else ""
    fact = f"its tracking is lost{since}: {loss.why}; changes since then may be missing (RT-6106)"
    return Finding(Severity.STOPS, subject_of(tracked), fact, mend_loss(tracked, loss))


def mend_loss(tracked: TrackedTable, loss: TrackingLoss) -> Mend:
    """Return what mends lost tracking."""
    if loss.is_dropped:
        return shell("rowtide", "tracking", "disable", tracked.name)
    if loss.lacks_key:
        return Advice(f"Give it the key again, then run `{resume(tracked)}`; or disable it and enable it by another.")
    return resume(tracked)


def _judge_tombstones(tracked: TrackedTable, tombstones: Tombstones) -> Finding:
    fact = (
        f"it has {tombstones.count} tombstones, {tombstones.old_count} of them older than {OLD_DAYS} days, the oldest "
        f"of {format_duration(tombstones.oldest_days * _DAY_S)} ago; who has not synchronised since then would have to "
        "copy it again after a purge"
    )
    purge = shell("rowtide", "tracking", "purge", "tombstones", tracked.name, "--days", str(OLD_DAYS))
    return Finding(Severity.WARNS, subject_of(tracked), fact, purge)
