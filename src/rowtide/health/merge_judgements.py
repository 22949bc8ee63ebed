"""Whether merge subscriptions are synchronised, and their tables tracked. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rowtide.findings.finding import Advice, Command, Mend, shell
from rowtide.findings.quantities import format_duration, format_names
from rowtide.health.facts import MergeFacts
from rowtide.health.judgements import Area, Judgement, State
from rowtide.merge.status import MergeStatus

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
    articles = {article for listed in facts.listed for article in listed.articles}
    if articles and not facts.damage:
        fact = f"columns and triggers of all are there: {format_names(tuple(sorted(articles)))}"
        yield Judgement(Area.MERGE, "merge articles", State.WELL, fact)
    for article, missing in facts.damage:
        fact = f"its changes are not tracked: {missing}"
        advice = "Drop the subscriptions, then the article, and add them again; changes since then were not seen."
        yield Judgement(Area.MERGE, f"merge article {article}", State.FAILING, fact, Advice(advice))


def _describe(listed: MergeStatus, facts: MergeFacts) -> tuple[State, str, Mend | None]:
    """At the hub; a subscriber keeps no times, and learns only which of its changes were refused."""
    refused = f"{listed.rows_refused} rows were refused"
    conflicts = Advice("See `rowtide merge conflicts`: each says why; they are tried again at each synchronisation.")
    if listed.role != _PUBLISHER:
        if listed.rows_refused:
            return State.WARNING, refused, conflicts
        return State.WELL, "its publisher's health says how its synchronisations stand", None
    sync = _command("sync", listed)
    if listed.last_sync is None or listed.state == _WAITING:
        return State.WARNING, "it has never been synchronised since it was made", sync
    fact = f"synchronised {_ago(listed.last_sync, facts)}"
    if listed.expires is not None and listed.expires < facts.now:
        expired = f"it expired {_ago(listed.expires, facts)}, after {listed.retention_days} days"
        return State.FAILING, f"{fact}; {expired}", _command("reinitialize", listed, "--upload-first")
    if listed.state == _FAILED:
        return State.FAILING, f"{fact}; the last time it failed: {listed.summary or 'without a word'}", sync
    left_s = (listed.expires - facts.now).total_seconds() if listed.expires is not None else None
    if left_s is not None and left_s < listed.retention_days * _DAY_S * CLOSE_SHARE:
        return State.WARNING, f"{fact}; it expires in {format_duration(left_s)}", sync
    if listed.rows_refused:
        return State.WARNING, f"{fact}; {refused}", conflicts
    open_conflicts = f"; {listed.open_conflicts} conflicts are open" if listed.open_conflicts else ""
    return State.WELL, f"{fact}{open_conflicts}", None


def _ago(time: datetime, facts: MergeFacts) -> str:
    return f"{format_duration((facts.now - time).total_seconds())} ago"


def _command(name: str, listed: MergeStatus, *options: str) -> Command:
    return shell("rowtide", "merge", name, listed.publication, "--subscriber", listed.subscriber or "", *options)
