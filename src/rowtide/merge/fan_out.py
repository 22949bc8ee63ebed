"""Synchronise all subscriptions of a hub, several at a time; a failure concerns its own subscription alone.

They run in threads: reading does not hold the interpreter's lock, and a process for each subscriber would cost more, in
connections and interpreters. Or they run as Spark tasks, on executors that may be other machines. Only `NodeBusy` is
retried, which is cheap, since what was exchanged stays. What is pending for all subscribers is listed in the same way,
also for those that cannot be reached.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import field

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url
from rowtide.events.catalogue import RowRefused, SynchronisationFailed, Synchronised
from rowtide.events.event import emit, scope
from rowtide.merge.articles import DEFAULT_LIMITS, DeviceLimits, ExchangeType, Progress, Publication
from rowtide.merge.catalogue import get_publication, list_publications, read_nickname
from rowtide.merge.devices.credentials import is_behind_gateway
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.exchange_state import list_subscriptions
from rowtide.merge.nodes.connecting import address, open_node, open_synchronised
from rowtide.merge.nodes.node import Node
from rowtide.merge.publishing.schema_following import synchronise_following
from rowtide.merge.session.history import Summary
from rowtide.merge.session.pairing import pair
from rowtide.merge.session.pending_changes import PendingChanges, list_downloads, list_pending

DEFAULT_WORKERS = 4
"""Synchronisations at a time, by default."""
_MOST_TRIES = 8
_FIRST_PAUSE_S = 0.05
"""Pauses of retries of a busy hub double, and are random, so that sessions that collided do not collide again."""


@frozen
class SyncOutcome:
    """The result of a subscription's synchronisation; `error` is why it failed, None if it did not.

    `uploaded` and `downloaded` are numbers of rows written, `refused` of rows that were left behind. `summary` is None,
    and `failure` the exception, if it failed.
    """

    publication: str
    subscriber: str
    uploaded: int = 0
    downloaded: int = 0
    conflicts: int = 0
    refused: int = 0
    seconds: float = 0.0
    error: str | None = None
    summary: Summary | None = field(default=None, repr=False)
    failure: RowtideError | None = field(default=None, repr=False)

    @property
    def result(self) -> str:
        """How it ended, in a word: succeeded, rows refused, or the error's number."""
        if self.failure is not None:
            return f"RT-{self.failure.number}"
        return "rows refused" if self.refused else "succeeded"


SyncAllProgress = Callable[[SyncOutcome, int, int], None]
"""Called with each subscription's result, how many are done, and how many there are."""


@frozen
class FanOutTarget:
    """A subscriber, and the publications that it subscribes to, which are synchronised one after the other."""

    subscriber: str
    publications: tuple[str, ...]


def list_targets(hub: Node, publication: str | None) -> tuple[FanOutTarget, ...]:
    """Return the subscribers of a publication of this hub, or of all, without devices behind a gateway.

    Raises `MergePublicationUnknown`.
    """
    found: dict[str, list[str]] = {}
    for each in _published(hub, publication):
        for subscription in list_subscriptions(hub.connection, each.pubid):
            if is_behind_gateway(subscription.subscriber):
                continue
            found.setdefault(subscription.subscriber, []).append(each.name)
    return tuple(FanOutTarget(subscriber, tuple(names)) for subscriber, names in sorted(found.items()))


def _published(hub: Node, publication: str | None) -> Sequence[Publication]:
    """Return the publications that this node is the hub of: a republisher subscribes to others."""
    if publication is not None:
        return (get_publication(hub.connection, publication),)
    own = read_nickname(hub.connection)
    return [each for each in list_publications(hub.connection) if each.publisher == own]


def synchronise_named(
    hub_url: str,
    publication: str,
    subscriber: str,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
    limits: DeviceLimits = DEFAULT_LIMITS,
) -> Summary:
    """Synchronise a subscriber over connections that are opened for it."""
    with (
        scope(parse_url(hub_url).name, "merge"),
        open_node(hub_url) as hub,
        open_synchronised(subscriber, limits) as node,
    ):
        summary = synchronise_following(hub, node, publication, address(subscriber), on_progress, exchange)
        _report(publication, summary)
        return summary


def _report(publication: str, summary: Summary) -> None:
    for refused in (*summary.upload.refused, *summary.download.refused):
        emit(RowRefused(publication, summary.subscriber, refused.article.name, refused.error))
    up, down = summary.upload.total, summary.download.total
    emit(
        Synchronised(
            publication,
            summary.subscriber,
            uploaded=up.moved,
            downloaded=down.moved,
            conflicts=up.conflicts + down.conflicts,
            refused=summary.refused,
            seconds=summary.seconds,
        )
    )


def counting(targets: Sequence[FanOutTarget], on_progress: SyncAllProgress) -> Callable[[SyncOutcome], None]:
    """Return what counts results and passes them on with their total."""
    total = sum(len(target.publications) for target in targets)
    done = itertools.count(1)
    return lambda outcome: on_progress(outcome, next(done), total)


def synchronise_in_threads(
    hub_url: str,
    targets: Sequence[FanOutTarget],
    limits: DeviceLimits,
    *,
    workers: int,
    on_outcome: Callable[[SyncOutcome], None],
) -> list[SyncOutcome]:
    """Synchronise each target in a thread, up to `workers` at a time; return the results."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix="merge")
    found: list[SyncOutcome] = []
    try:
        for ended in as_completed([pool.submit(synchronise_target, hub_url, each, limits) for each in targets]):
            for outcome in ended.result():
                found.append(outcome)
                on_outcome(outcome)
    finally:
        pool.shutdown(cancel_futures=True)
    return found


def synchronise_target(hub_url: str, target: FanOutTarget, limits: DeviceLimits) -> list[SyncOutcome]:
    """Synchronise a subscriber's publications, one after the other."""
    # Not in parallel: publications of one subscriber lock the same database, a SQLite file as a whole.
    return [_synchronise_one(hub_url, publication, target.subscriber, limits) for publication in target.publications]


def _synchronise_one(hub_url: str, publication: str, subscriber: str, limits: DeviceLimits) -> SyncOutcome:
    began = time.monotonic()
    try:
        summary = _retried(lambda: synchronise_named(hub_url, publication, subscriber, limits=limits))
    except RowtideError as error:
        emit(SynchronisationFailed(publication, subscriber, error))
        seconds = round(time.monotonic() - began, 3)
        return SyncOutcome(publication, subscriber, seconds=seconds, error=str(error), failure=error)
    up, down = summary.upload.total, summary.download.total
    return SyncOutcome(
        publication,
        subscriber,
        uploaded=up.moved,
        downloaded=down.moved,
        conflicts=up.conflicts + down.conflicts,
        refused=summary.refused,
        seconds=round(time.monotonic() - began, 3),
        summary=summary,
    )


def _retried(work: Callable[[], Summary]) -> Summary:
    """Synchronise, and retry after a pause where other sessions were faster: what was exchanged stays."""
    for pause_s in _pauses():
        try:
            return work()
        except NodeBusy:
            time.sleep(pause_s)
    return work()


def _pauses() -> Iterator[float]:
    for attempt in range(_MOST_TRIES - 1):
        yield _FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311 - nothing secret


Unreachable = Callable[[str, RowtideError], None]
"""Called with a subscriber and the reason why only the hub was asked about it."""


def list_pending_of(
    hub_url: str, publication: str, subscriber: str, *, finds_conflicts: bool = False
) -> list[PendingChanges]:
    """Return what is pending for one subscriber, in both directions."""
    with open_node(hub_url) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
        pairing = pair(hub, node, publication, address(subscriber))
        return list_pending(hub, node, pairing, finds_conflicts=finds_conflicts)


def list_pending_of_all(
    hub_url: str, publication: str, *, finds_conflicts: bool, on_unreachable: Unreachable
) -> list[PendingChanges]:
    """Return what is pending for all subscribers; for those that cannot be reached, what the hub has."""
    with open_node(hub_url) as hub:
        pubid = get_publication(hub.connection, publication).pubid
        subscribers = [subscription.subscriber for subscription in list_subscriptions(hub.connection, pubid)]
        found: list[PendingChanges] = []
        for subscriber in subscribers:
            try:
                found += list_pending_of(hub_url, publication, subscriber, finds_conflicts=finds_conflicts)
            except RowtideError as error:
                on_unreachable(subscriber, error)
                found += list_downloads(hub, publication, subscriber)
        return found
