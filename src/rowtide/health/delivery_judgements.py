"""Whether transactional subscriptions are delivered. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.findings.finding import Advice, Command, shell
from rowtide.findings.quantities import format_duration, format_names
from rowtide.health.judgements import Area, Judgement, State
from rowtide.health.log_judgements import LATE_S
from rowtide.log.postgres.status import seconds_between
from rowtide.replication.distributor.history import RunStatus
from rowtide.replication.status import DeliveryStatus, SubscriptionDelivery

AT_RISK_PERCENT = 75
"""Of the retention: a subscription that has waited for so much of it is soon deactivated."""


def judge_delivery(facts: DeliveryStatus) -> Iterator[Judgement]:
    """Judge each subscription; of publications without one, that there is none."""
    for subscription in facts.subscriptions:
        yield _judge(subscription, facts)
    subscribed = {subscription.publication for subscription in facts.subscriptions}
    idle = tuple(name for name in facts.publications if name not in subscribed)
    if idle:
        fact = f"nobody subscribes to {format_names(idle)}"
        yield Judgement(Area.REPLICATION, "publications", State.WELL, fact)


def _judge(subscription: SubscriptionDelivery, facts: DeliveryStatus) -> Judgement:
    state, fact, mend = _describe(subscription, facts)
    subject = f"subscription {subscription.publication} to {subscription.subscriber}"
    return Judgement(Area.REPLICATION, subject, state, fact, mend)


def _describe(subscription: SubscriptionDelivery, facts: DeliveryStatus) -> tuple[State, str, Command | Advice | None]:
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
        fact = "it is deactivated: what it lacks may be gone from the log store"
        return State.FAILING, fact, _of_one("reinitialize", subscription)
    at_risk_s = retention_s * (subscription.thresholds.expiration_percent or AT_RISK_PERCENT) / 100
    if subscription.oldest_waiting is not None and waits_s > at_risk_s:
        fact = f"{waiting}; after {format_duration(retention_s)} it is deactivated, and copied again"
        return (State.FAILING if waits_s > retention_s else State.WARNING), fact, _go_on(subscription, run)
    if subscription.is_paused:
        return State.WARNING, f"it is paused; {waiting}", _go_on(subscription, run)
    if subscription.runstatus == RunStatus.FAIL.words:
        advice = "Do what the error asks for; then `rowtide replication resume` where it runs, or `run`."
        return State.FAILING, f"it has stopped with {_sentence(subscription)}; {waiting}", Advice(advice)
    if subscription.runstatus == RunStatus.RETRY.words:
        advice = "Do what the error asks for: it is tried again while `rowtide replication run` runs."
        return State.WARNING, f"its agent tries again after {_sentence(subscription)}; {waiting}", Advice(advice)
    if subscription.runstatus is None and subscription.delivered_by is None:
        return State.WARNING, f"its agent has never run; {waiting}", run
    if subscription.oldest_waiting is not None and waits_s > (subscription.thresholds.latency_s or LATE_S):
        if subscription.delivered_by is None:
            return State.WARNING, f"no agent runs: {waiting}", run
        return State.WARNING, f"its agent runs on {subscription.delivered_by}, late: {waiting}", _look_again()
    runs = f"delivered by {subscription.delivered_by}" if subscription.delivered_by is not None else "no agent runs"
    return State.WELL, f"{runs}; {waiting}", None


def _go_on(subscription: SubscriptionDelivery, run: Command) -> Command:
    return _of_one("resume", subscription) if subscription.is_paused else run


def _of_one(command: str, subscription: SubscriptionDelivery) -> Command:
    name, subscriber = subscription.publication, subscription.subscriber
    return shell("rowtide", "replication", command, name, "--subscriber", subscriber)


def _look_again() -> Advice:
    return Advice("See whether it catches up; a lock at the subscriber, or its load, may hold it up.")


def _sentence(subscription: SubscriptionDelivery) -> str:
    return (subscription.comments or "an error").rstrip(".")
