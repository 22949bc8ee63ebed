"""Whether transactional subscriptions are delivered, and published tables whole. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.diagnosis.capture import LATE_S
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.quantities import format_duration, format_names
from rowtide.diagnosis.result import AS_OWNER, Advice, CheckResult, Command, Sql, State, Unread, shell, times, unknown
from rowtide.log.postgres.status import seconds_between
from rowtide.replication.distributor.history import RunStatus
from rowtide.replication.errors.delivery import PublishedTableDropped
from rowtide.replication.status import ArticlesStatus, DeliveryStatus, SubscriptionDelivery

AT_RISK_PERCENT = 75
"""Of the retention: a subscription that has waited for so much of it is soon deactivated."""


def judge_delivery(facts: DeliveryStatus) -> Iterator[CheckResult]:
    """Judge each subscription; of publications without one, that there is none."""
    for subscription in facts.subscriptions:
        yield _judge(subscription, facts)
    subscribed = {subscription.publication for subscription in facts.subscriptions}
    idle = tuple(name for name in facts.publications if name not in subscribed)
    if idle:
        message = f"nobody subscribes to {format_names(idle)}"
        yield CheckResult(Code.UNSUBSCRIBED_HEALTHY, State.HEALTHY, "publications", message)


_Described = tuple[Code, State, str, Command | Advice | None]


def _judge(subscription: SubscriptionDelivery, facts: DeliveryStatus) -> CheckResult:
    code, state, message, remediation = _describe(subscription, facts)
    subject = f"subscription {subscription.publication} to {subscription.subscriber}"
    waits = times(waits_s=seconds_between(subscription.oldest_waiting, facts.now) or 0.0)
    return CheckResult(code, state, subject, message, remediation, waits)


def _describe(subscription: SubscriptionDelivery, facts: DeliveryStatus) -> _Described:
    waits_s = seconds_between(subscription.oldest_waiting, facts.now) or 0.0
    waiting = (
        f"changes wait for {format_duration(waits_s)}"
        if subscription.oldest_waiting
        else "nothing waits in the log store"
    )
    retention_s = facts.retention.total_seconds()
    run = shell("rowtide", "replication", "run")
    if subscription.joining is not None:
        waiting = f"{subscription.joining}; {waiting}"
    if subscription.is_deactivated:
        message = "it is deactivated: what it lacks may be gone from the log store"
        return Code.SUBSCRIPTION_DEACTIVATED, State.FAILING, message, _of_one("reinitialize", subscription)
    at_risk_s = retention_s * (subscription.thresholds.expiration_percent or AT_RISK_PERCENT) / 100
    if subscription.oldest_waiting is not None and waits_s > at_risk_s:
        message = f"{waiting}; after {format_duration(retention_s)} it is deactivated, and copied again"
        state = State.FAILING if waits_s > retention_s else State.WARNING
        return Code.SUBSCRIPTION_EXPIRING, state, message, _go_on(subscription, run)
    if subscription.is_paused:
        return Code.SUBSCRIPTION_PAUSED, State.WARNING, f"it is paused; {waiting}", _go_on(subscription, run)
    if subscription.runstatus == RunStatus.FAIL.words:
        advice = "Do what the error asks for; then `rowtide replication resume` where it runs, or `run`."
        return (
            Code.SUBSCRIPTION_FAILED,
            State.FAILING,
            f"it has stopped with {_sentence(subscription)}; {waiting}",
            Advice(advice),
        )
    if subscription.runstatus == RunStatus.RETRY.words:
        advice = "Do what the error asks for: it is tried again while `rowtide replication run` runs."
        return (
            Code.SUBSCRIPTION_RETRYING,
            State.WARNING,
            f"its agent tries again after {_sentence(subscription)}; {waiting}",
            Advice(advice),
        )
    if subscription.runstatus is None and subscription.delivered_by is None:
        return Code.SUBSCRIPTION_NEVER_RUN, State.WARNING, f"its agent has never run; {waiting}", run
    if subscription.oldest_waiting is not None and waits_s > (subscription.thresholds.latency_s or LATE_S):
        if subscription.delivered_by is None:
            return Code.SUBSCRIPTION_STOPPED, State.WARNING, f"no agent runs: {waiting}", run
        return (
            Code.SUBSCRIPTION_LATE,
            State.WARNING,
            f"its agent runs on {subscription.delivered_by}, late: {waiting}",
            _look_again(),
        )
    runs = f"delivered by {subscription.delivered_by}" if subscription.delivered_by is not None else "no agent runs"
    return Code.SUBSCRIPTION_HEALTHY, State.HEALTHY, f"{runs}; {waiting}", None


def _go_on(subscription: SubscriptionDelivery, run: Command) -> Command:
    return _of_one("resume", subscription) if subscription.is_paused else run


def _of_one(command: str, subscription: SubscriptionDelivery) -> Command:
    name, subscriber = subscription.publication, subscription.subscriber
    return shell("rowtide", "replication", command, name, "--subscriber", subscriber)


def _look_again() -> Advice:
    return Advice("See whether it catches up; a lock at the subscriber, or its load, may hold it up.")


def _sentence(subscription: SubscriptionDelivery) -> str:
    return (subscription.comments or "an error").rstrip(".")


def judge_articles(articles: ArticlesStatus, run: Command, *, is_read: bool) -> Iterator[CheckResult]:
    """Judge published tables of which nothing is delivered, or not all; `run` reads the log, which `is_read` now."""
    subject, again = "articles", Advice("Reinitialize the subscription: its rows are copied.")
    if articles.unread and not is_read:
        message = f"the log reader has not read yet that they were published: {format_names(articles.unread)}"
        yield CheckResult(Code.ARTICLE_UNREAD, State.WARNING, subject, message, run)
    if articles.dropped:
        message = f"{format_names(articles.dropped)} is published and was dropped: nothing of it is delivered any more"
        yield CheckResult(
            Code.ARTICLE_TABLE_DROPPED, State.WARNING, subject, message, Advice(PublishedTableDropped.hint)
        )
    if articles.stored:
        message = (
            f"{format_names(articles.stored)} was generated when its table was published and is an ordinary column "
            "now: its values are not delivered, and subscribers compute it still"
        )
        yield CheckResult(Code.ARTICLE_COLUMN_STORED, State.WARNING, subject, message, again)
    for name, column in articles.unwritable:
        message = (
            f"the server refuses updates and deletes of {name}: column {column} is virtual, its replica identity full"
        )
        remediation = Sql((f"alter table {name} replica identity default;",), AS_OWNER)
        yield CheckResult(Code.ARTICLE_UNWRITABLE, State.FAILING, subject, message, remediation)
    if articles.rekeyed:
        message = (
            f"{format_names(articles.rekeyed)} has another primary key than when it was published: subscribers still "
            "find its rows by the earlier one, and refuse rows that have it twice"
        )
        yield CheckResult(Code.ARTICLE_REKEYED, State.WARNING, subject, message, again)
    for error in articles.unidentified:
        remediation = Sql((f"alter table {error.quoted} replica identity full;",), AS_OWNER)
        yield CheckResult(Code.ARTICLE_UNIDENTIFIED, State.WARNING, subject, error.filled_fact, remediation)
    for column in articles.left_out:
        message = f"a column is not delivered that was added to a published table: {column}"
        yield CheckResult(Code.ARTICLE_COLUMN_LEFT_OUT, State.WARNING, subject, message, again)
    for column in articles.kept:
        message = f"a column was dropped from a published table, and a subscriber keeps it: {column}"
        yield CheckResult(
            Code.ARTICLE_COLUMN_KEPT,
            State.WARNING,
            subject,
            message,
            Advice("Drop there what uses it, and then the column."),
        )


def judge_delivered(delivered: tuple[str, ...] | Unread) -> Iterator[CheckResult]:
    """Name the publications of other databases that are delivered into this one."""
    if isinstance(delivered, Unread):
        yield unknown(Code.DELIVERED_HERE_UNKNOWN, "deliveries into this database", delivered.error)
    elif delivered:
        message = f"{format_names(delivered)} is delivered here; how that stands, its publisher's health says"
        yield CheckResult(Code.DELIVERED_HERE_HEALTHY, State.HEALTHY, "subscriber", message)


def judge_left_prepared(left: tuple[str, ...] | Unread) -> Iterator[CheckResult]:
    """Judge the transactions that delivery into this database prepared and left."""
    if isinstance(left, Unread):
        yield unknown(Code.PREPARED_UNKNOWN, "prepared transactions", left.error)
    elif left:
        message = f"delivery prepared {format_names(left)} more than a minute ago; until it ends, it keeps its locks"
        advice = Advice("Run `rowtide replication recover` with this database's URL, or start the agent again.")
        yield CheckResult(Code.PREPARED_LEFT, State.WARNING, "prepared transactions", message, advice)
