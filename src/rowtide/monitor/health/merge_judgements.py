"""Whether merge subscriptions are synchronised, and their tables tracked. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.merge.status import MergeStatus
from rowtide.monitor.findings import Advice, Mend, shell
from rowtide.monitor.health.facts import MergeFacts
from rowtide.monitor.health.judgements import Area, Judgement, State
from rowtide.monitor.quantities import format_duration

CLOSE_SHARE = 0.25
"""Of the retention: with less of it left a subscription is soon expired."""
_DAY_S = 86_400.0
_PUBLISHER, _FAILED, _WAITING = "publisher", "failed", "waiting"


def judge_merge(facts: MergeFacts) -> Iterator[Judgement]:
    """Judge the subscriptions that a node knows, and the tables of their articles."""
    for listed in facts.listed:
        if listed.subscriber is None:
            fact = f"nobody subscribes; {len(listed.articles)} articles"
            yield Judgement(Area.MERGE, f"merge publication {listed.publication}", State.WELL, fact)
        else:
            state, fact, mend = _describe(listed, facts)
            subject = f"merge subscription {listed.publication}, {listed.subscriber}"
            yield Judgement(Area.MERGE, subject, state, fact, mend)
    for article, missing in facts.damage:
        fact = f"its changes are not tracked: {missing}"
        advice = "Drop the subscriptions, then the article, and add them again; changes since then were not seen."
        yield Judgement(Area.MERGE, f"merge article {article}", State.FAILING, fact, Advice(advice))


def _describe(listed: MergeStatus, facts: MergeFacts) -> tuple[State, str, Mend | None]:
    sync = _synchronise(listed)
    if listed.last_sync is None or listed.state == _WAITING:
        return State.WARNING, "it has never been synchronised since it was made", sync
    ago = format_duration((facts.now - listed.last_sync).total_seconds())
    fact = f"synchronised {ago} ago"
    if listed.expires is not None and listed.expires < facts.now:
        late = format_duration((facts.now - listed.expires).total_seconds())
        return (
            State.FAILING,
            f"{fact}; it has expired {late} ago, after {listed.retention_days} days",
            _begin_anew(listed),
        )
    if listed.state == _FAILED:
        return State.FAILING, f"{fact}; the last time it failed: {listed.summary or 'without a word'}", sync
    if listed.expires is not None:
        left_s = (listed.expires - facts.now).total_seconds()
        if left_s < listed.retention_days * _DAY_S * CLOSE_SHARE:
            return State.WARNING, f"{fact}; it expires in {format_duration(left_s)}", sync
    if listed.rows_refused:
        advice = "See `rowtide merge conflicts`: each says why; they are tried again at each synchronisation."
        return State.WARNING, f"{fact}; {listed.rows_refused} rows were refused", Advice(advice)
    conflicts = f"; {listed.open_conflicts} conflicts are open" if listed.open_conflicts else ""
    return State.WELL, f"{fact}{conflicts}", None


def _synchronise(listed: MergeStatus) -> Mend:
    """At the hub a command; a device is synchronised by whoever reaches both."""
    if listed.role == _PUBLISHER and listed.subscriber is not None:
        return shell("rowtide", "merge", "sync", listed.publication, "--subscriber", listed.subscriber)
    return Advice("Run `rowtide merge sync` with the hub as --db.")


def _begin_anew(listed: MergeStatus) -> Mend:
    if listed.role == _PUBLISHER and listed.subscriber is not None:
        words = ("rowtide", "merge", "reinitialize", listed.publication, "--subscriber", listed.subscriber)
        return shell(*words, "--upload-first")
    return Advice("Run `rowtide merge reinitialize --upload-first` with the hub as --db.")
