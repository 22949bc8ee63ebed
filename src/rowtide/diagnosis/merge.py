"""Merge subscriptions as a node knows them: whether they are synchronised, and whether their tables are tracked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowtide.core.values import frozen
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.result import (
    CheckResult,
    Measure,
    ShellCommand,
    counts,
    failing,
    format_duration,
    format_names,
    healthy,
    shell,
    times,
    warning,
)

if TYPE_CHECKING:
    from rowtide.merge.nodes.node import Node
    from rowtide.merge.status import MergeStatus


@frozen
class MergeFacts:
    """The merge publications that a node knows, and what is missing of their tables, by article."""

    now: datetime
    listed: Sequence[MergeStatus]
    damage: tuple[tuple[str, str], ...]


def read_merge(url: str, publication: str | None = None) -> MergeFacts | None:
    """Return what a node knows, or knows of a publication, and what is missing of any table; None where none is merged.

    Raises `MergePublicationUnknown`, and what connecting raises.
    """
    # Checked first, since most databases are not nodes.
    from rowtide.merge.nodes.connecting import knows, open_node
    from rowtide.merge.status import list_status

    with open_node(url) as node:
        listed = list_status(node, publication) if knows(node, publication) else ()
        return MergeFacts(datetime.now(UTC), listed, tuple(_find_damage(node))) if listed else None


def _find_damage(node: Node) -> Iterator[tuple[str, str]]:
    from rowtide.merge.catalogue import list_merged

    for article in list_merged(node.connection):
        damage = node.tables.find_damage(article)
        if damage is not None:
            yield article.name, damage


CLOSE_SHARE = 0.25
"""The share of the retention below which a subscription expires soon."""
REFUSED_S = 3600.0
"""A device that has been refused for longer needs a new code."""
_DAY_S = 86_400.0
_PUBLISHER, _FAILED, _WAITING = "publisher", "failed", "waiting"


def check_merge(facts: MergeFacts) -> Iterator[CheckResult]:
    """Check the subscriptions that a node knows, and the tables of their articles."""
    for listed in facts.listed:
        if listed.subscriber is None:
            message = f"no subscription; {len(listed.articles)} articles"
            yield healthy(Code.MERGE_UNSUBSCRIBED_HEALTHY, f"merge publication {listed.publication}", message)
        else:
            yield replace(_describe(listed, facts), measures=tuple(_measure(listed, facts)))
            yield from _check_device(listed, facts)
    articles = {article for listed in facts.listed for article in listed.articles}
    if articles and not facts.damage:
        message = f"columns and triggers of all are there: {format_names(tuple(sorted(articles)))}"
        yield healthy(Code.MERGE_ARTICLES_HEALTHY, "merge articles", message)
    for article, missing in facts.damage:
        message = f"its changes are not tracked: {missing}"
        advice = "Drop the subscriptions, then the article, and add them again; changes since then were not seen."
        yield failing(Code.MERGE_ARTICLE_DAMAGED, f"merge article {article}", message, advice)


def _describe(listed: MergeStatus, facts: MergeFacts) -> CheckResult:
    """At the hub; a subscriber keeps no times, and learns only which of its changes were refused."""
    subject = f"merge subscription {listed.publication}, {listed.subscriber}"
    refused = f"{listed.rows_refused} rows were refused"
    conflicts = "See `rowtide merge conflicts`: each says why; they are tried again at each synchronisation."
    if listed.role != _PUBLISHER:
        if listed.rows_refused:
            return warning(Code.MERGE_ROWS_REFUSED, subject, refused, conflicts)
        message = "its publisher's health says how its synchronisations stand"
        return healthy(Code.MERGE_SUBSCRIPTION_HEALTHY, subject, message)
    sync = _command("sync", listed)
    if listed.last_sync is None or listed.state == _WAITING:
        message = "it has never been synchronised since it was made"
        return warning(Code.MERGE_NEVER_SYNCHRONISED, subject, message, sync)
    synchronised = f"synchronised {_ago(listed.last_sync, facts)}"
    if listed.expires is not None and listed.expires < facts.now:
        message = f"{synchronised}; it expired {_ago(listed.expires, facts)}, after {listed.retention_days} days"
        again = _command("reinitialize", listed, "--upload-first")
        return failing(Code.MERGE_EXPIRED, subject, message, again)
    if listed.state == _FAILED:
        message = f"{synchronised}; the last time it failed: {listed.summary or 'without a word'}"
        return failing(Code.MERGE_FAILED, subject, message, sync)
    left_s = (listed.expires - facts.now).total_seconds() if listed.expires is not None else None
    if left_s is not None and left_s < listed.retention_days * _DAY_S * CLOSE_SHARE:
        message = f"{synchronised}; it expires in {format_duration(left_s)}"
        return warning(Code.MERGE_EXPIRING, subject, message, sync)
    if listed.rows_refused:
        return warning(Code.MERGE_ROWS_REFUSED, subject, f"{synchronised}; {refused}", conflicts)
    open_conflicts = f"; {listed.open_conflicts} conflicts are open" if listed.open_conflicts else ""
    return healthy(Code.MERGE_SUBSCRIPTION_HEALTHY, subject, f"{synchronised}{open_conflicts}")


def _check_device(listed: MergeStatus, facts: MergeFacts) -> Iterator[CheckResult]:
    """A device that returns with a valid token was only delayed; a wrong token may be somebody else's attempt."""
    if not listed.device or not listed.tokens_refused:
        return
    if listed.last_contact is not None and (facts.now - listed.last_contact).total_seconds() < REFUSED_S:
        return
    contact = "never" if listed.last_contact is None else _ago(listed.last_contact, facts)
    message = f"its last contact: {contact}; requests refused since then, for their token: {listed.tokens_refused}"
    again = shell("rowtide", "merge", "rotate-token", listed.device)
    yield warning(Code.MERGE_DEVICE_REFUSED, f"merge device {listed.device}", message, again)


def _measure(listed: MergeStatus, facts: MergeFacts) -> Iterator[Measure]:
    yield from counts(open_conflicts=listed.open_conflicts, rows_refused=listed.rows_refused)
    if listed.last_sync is not None:
        yield from times(synchronised_s=(facts.now - listed.last_sync).total_seconds())
    if listed.expires is not None:
        yield from times(left_s=(listed.expires - facts.now).total_seconds())


def _ago(time: datetime, facts: MergeFacts) -> str:
    return f"{format_duration((facts.now - time).total_seconds())} ago"


def _command(name: str, listed: MergeStatus, *options: str) -> ShellCommand:
    return shell("rowtide", "merge", name, listed.publication, "--subscriber", listed.subscriber or "", *options)
