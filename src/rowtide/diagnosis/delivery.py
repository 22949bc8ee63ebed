"""Whether transactional subscriptions are delivered, and published tables completely. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rowtide.diagnosis.capture import LATE_S
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.result import (
    AS_OWNER,
    CheckResult,
    ShellCommand,
    Sql,
    failing,
    format_duration,
    format_names,
    healthy,
    shell,
    times,
    warning,
)
from rowtide.log.postgres.backlog import seconds_between
from rowtide.replication.distributor.history import RunStatus
from rowtide.replication.errors.delivery import PublishedTableDropped
from rowtide.replication.status import ArticlesStatus, DeliveryStatus, SubscriptionDelivery

AT_RISK_PERCENT = 75
"""The share of the retention after which a waiting subscription is soon deactivated."""


def check_delivery(facts: DeliveryStatus) -> Iterator[CheckResult]:
    """Check each subscription; of publications without one, that there is none."""
    for subscription in facts.subscriptions:
        yield _check_subscription(subscription, facts)
    subscribed = {subscription.publication for subscription in facts.subscriptions}
    idle = tuple(name for name in facts.publications if name not in subscribed)
    if idle:
        message = f"no subscription to {format_names(idle)}"
        yield healthy(Code.UNSUBSCRIBED_HEALTHY, "publications", message)


def _check_subscription(subscription: SubscriptionDelivery, facts: DeliveryStatus) -> CheckResult:
    waits_s = seconds_between(subscription.oldest_waiting, facts.now) or 0.0
    return replace(_describe(subscription, facts, waits_s), measures=times(waits_s=waits_s))


def _describe(subscription: SubscriptionDelivery, facts: DeliveryStatus, waits_s: float) -> CheckResult:
    subject = f"subscription {subscription.publication} to {subscription.subscriber}"
    waits = subscription.oldest_waiting is not None
    waiting = f"changes wait for {format_duration(waits_s)}" if waits else "nothing waits in the log store"
    retention_s = facts.retention.total_seconds()
    run = shell("rowtide", "replication", "run")
    if subscription.joining is not None:
        waiting = f"{subscription.joining}; {waiting}"
    if subscription.is_deactivated:
        message = "it is deactivated: what it lacks may be gone from the log store"
        return failing(Code.SUBSCRIPTION_DEACTIVATED, subject, message, _of_one("reinitialize", subscription))
    at_risk_s = retention_s * (subscription.thresholds.expiration_percent or AT_RISK_PERCENT) / 100
    if waits and waits_s > at_risk_s:
        message = f"{waiting}; after {format_duration(retention_s)} it is deactivated, and copied again"
        expires = failing if waits_s > retention_s else warning
        return expires(Code.SUBSCRIPTION_EXPIRING, subject, message, _resume_hint(subscription, run))
    if subscription.is_paused:
        message = f"it is paused; {waiting}"
        return warning(Code.SUBSCRIPTION_PAUSED, subject, message, _resume_hint(subscription, run))
    error = (subscription.comments or "an error").rstrip(".")
    if subscription.runstatus == RunStatus.FAIL.words:
        advice = "Do what the error asks for; then `rowtide replication resume` where it runs, or `run`."
        return failing(Code.SUBSCRIPTION_FAILED, subject, f"it has stopped with {error}; {waiting}", advice)
    if subscription.runstatus == RunStatus.RETRY.words:
        advice = "Do what the error asks for: it is tried again while `rowtide replication run` runs."
        return warning(Code.SUBSCRIPTION_RETRYING, subject, f"its agent tries again after {error}; {waiting}", advice)
    if subscription.runstatus is None and subscription.delivered_by is None:
        return warning(Code.SUBSCRIPTION_NEVER_RUN, subject, f"its agent has never run; {waiting}", run)
    is_late = waits and waits_s > (subscription.thresholds.latency_s or LATE_S)
    if is_late and subscription.delivered_by is None:
        return warning(Code.SUBSCRIPTION_STOPPED, subject, f"no agent runs: {waiting}", run)
    if is_late:
        message = f"its agent runs on {subscription.delivered_by}, late: {waiting}"
        advice = "See whether it catches up; a lock at the subscriber, or its load, may hold it up."
        return warning(Code.SUBSCRIPTION_LATE, subject, message, advice)
    runs = f"delivered by {subscription.delivered_by}" if subscription.delivered_by is not None else "no agent runs"
    return healthy(Code.SUBSCRIPTION_HEALTHY, subject, f"{runs}; {waiting}")


def _resume_hint(subscription: SubscriptionDelivery, run: ShellCommand) -> ShellCommand:
    return _of_one("resume", subscription) if subscription.is_paused else run


def _of_one(command: str, subscription: SubscriptionDelivery) -> ShellCommand:
    name, subscriber = subscription.publication, subscription.subscriber
    return shell("rowtide", "replication", command, name, "--subscriber", subscriber)


def check_articles(articles: ArticlesStatus, run: ShellCommand, *, is_read: bool) -> Iterator[CheckResult]:
    """Check published tables of which nothing is delivered, or not all; `run` reads the log, which `is_read` now."""
    subject, again = "articles", "Reinitialize the subscription: its rows are copied."
    if articles.unread and not is_read:
        message = f"the log reader has not read yet that they were published: {format_names(articles.unread)}"
        yield warning(Code.ARTICLE_UNREAD, subject, message, run)
    if articles.dropped:
        message = f"{format_names(articles.dropped)} is published and was dropped: nothing of it is delivered any more"
        yield warning(Code.ARTICLE_TABLE_DROPPED, subject, message, PublishedTableDropped.hint)
    if articles.stored:
        message = (
            f"{format_names(articles.stored)} was generated when its table was published and is an ordinary column "
            "now: its values are not delivered, and subscribers compute it still"
        )
        yield warning(Code.ARTICLE_COLUMN_STORED, subject, message, again)
    for name, column in articles.unwritable:
        message = (
            f"the server refuses updates and deletes of {name}: column {column} is virtual, its replica identity full"
        )
        remediation = Sql((f"alter table {name} replica identity default;",), AS_OWNER)
        yield failing(Code.ARTICLE_UNWRITABLE, subject, message, remediation)
    if articles.rekeyed:
        message = (
            f"{format_names(articles.rekeyed)} has another primary key than when it was published: subscribers still "
            "find its rows by the earlier one, and refuse rows that have it twice"
        )
        yield warning(Code.ARTICLE_REKEYED, subject, message, again)
    for error in articles.unidentified:
        remediation = Sql((f"alter table {error.quoted} replica identity full;",), AS_OWNER)
        yield warning(Code.ARTICLE_UNIDENTIFIED, subject, error.filled_fact, remediation)
    for column in articles.left_out:
        message = f"a column is not delivered that was added to a published table: {column}"
        yield warning(Code.ARTICLE_COLUMN_LEFT_OUT, subject, message, again)
    for column in articles.kept:
        message = f"a column was dropped from a published table, and a subscriber keeps it: {column}"
        yield warning(Code.ARTICLE_COLUMN_KEPT, subject, message, "Drop there what uses it, and then the column.")


def check_delivered(delivered: tuple[str, ...]) -> Iterator[CheckResult]:
    """Report the publications of other databases that are delivered into this one."""
    if delivered:
        message = f"{format_names(delivered)} is delivered here; how that stands, its publisher's health says"
        yield healthy(Code.DELIVERED_HERE_HEALTHY, "subscriber", message)


def check_left_prepared(left: tuple[str, ...]) -> Iterator[CheckResult]:
    """Check for transactions that delivery into this database prepared and did not end."""
    if left:
        message = f"delivery prepared {format_names(left)} more than a minute ago; until it ends, it keeps its locks"
        advice = "Run `rowtide replication recover` with this database's URL, or start the agent again."
        yield warning(Code.PREPARED_LEFT, "prepared transactions", message, advice)
