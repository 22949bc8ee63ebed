"""What rowtide does in a PostgreSQL database, and whether that works. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.cdc.definitions import FEATURE as CAPTURE
from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.diagnosis.capture import (
    judge_capturing,
    judge_cleanup,
    judge_lost_keys,
    judge_outdated,
    judge_reading,
    judge_rows_left,
    judge_snapshots,
    judge_targets,
)
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.delivery import judge_articles, judge_delivered, judge_delivery, judge_left_prepared
from rowtide.diagnosis.merge import judge_merge
from rowtide.diagnosis.places import judge_place
from rowtide.diagnosis.postgres.capture import (
    find_in_consumers,
    find_in_instances,
    find_in_log,
    is_forbidden,
    measure_slot,
    run_reader,
    without_forbidden,
)
from rowtide.diagnosis.postgres.facts import CaptureFacts, LakeFacts, LogFacts, ServerFacts, TrackingFacts, WorkFacts
from rowtide.diagnosis.postgres.tables import find_in_members
from rowtide.diagnosis.postgres.tracking import find_losses, tell_unreadable
from rowtide.diagnosis.quantities import format_bytes
from rowtide.diagnosis.result import (
    LOG,
    Advice,
    CheckResult,
    State,
    Unread,
    nothing_enabled,
    of_error,
    or_healthy,
    unknown,
    without_notes,
)
from rowtide.diagnosis.tracked_tables import find_refusal, judge_tracking
from rowtide.log.errors import DatabaseCopied
from rowtide.replication.articles.articles import FEATURE as REPLICATION


def judge(facts: WorkFacts) -> Iterator[CheckResult]:
    """Judge a database. Pure."""
    is_tracked = facts.tracking is None or _is_tracked(facts.tracking)
    if facts.log is None and not (facts.merge or is_tracked or facts.delivered_here):
        yield nothing_enabled()
    if isinstance(facts.log, Unread) and isinstance(facts.log.error, DatabaseCopied):
        yield of_error(Code.DATABASE_COPIED, State.FAILING, "database", facts.log.error)
    elif isinstance(facts.log, Unread):
        yield unknown(Code.LOG_UNKNOWN, LOG, facts.log.error)
    elif facts.log is not None and facts.server.identity.in_recovery:
        yield unknown(Code.LOG_UNKNOWN, LOG, ServerIsStandby())
    elif facts.log is not None:
        yield from _judge_log(facts.log, facts.server)
    yield from judge_delivered(facts.delivered_here)
    yield from judge_left_prepared(facts.left_prepared)
    if isinstance(facts.merge, Unread):
        yield unknown(Code.MERGE_UNKNOWN, "merge", facts.merge.error)
    elif facts.merge is not None:
        yield from judge_merge(facts.merge)
    if facts.tracking is not None:
        yield from _judge_tracking(facts.tracking)


def _judge_log(log: LogFacts, server: ServerFacts) -> Iterator[CheckResult]:
    capture = log.capture
    for blocker in filter(is_forbidden, capture.blockers):
        yield unknown(Code.LOG_STORE_UNKNOWN, "log store", blocker)
    found = tuple(find_in_log(without_forbidden(capture), server))
    of_slot = [result for result in found if result.subject.startswith("slot")]
    of_publication = [result for result in found if result.subject == "publication"]
    others = [result for result in found if result not in of_slot + of_publication]
    blockers = [result.subject for result in found if result.state is State.FAILING]
    if isinstance(log.reading, Unread):
        yield unknown(Code.LOG_READER_UNKNOWN, "log reader", log.reading.error)
    elif capture.state is not None or blockers:
        yield judge_reading(log.reading, run_reader(capture), blockers)
    else:
        yield _unknown(Code.LOG_READER_UNKNOWN, "log reader", "how far the log is read")
    yield from or_healthy(of_slot, _describe_slot(capture))
    healthy = "it publishes what it was made for, and was not altered"
    yield from or_healthy(
        of_publication,
        CheckResult(Code.PUBLICATION_HEALTHY, State.HEALTHY, f"publication {capture.source.publication}", healthy),
    )
    yield from without_notes(others)
    yield from _judge_capture(log)
    yield from _judge_delivery(log)
    for place in log.places:
        yield from judge_place(place)


def _judge_capture(log: LogFacts) -> Iterator[CheckResult]:
    capture = log.capture
    if isinstance(log.capturing, Unread):
        yield unknown(Code.CAPTURE_UNKNOWN, "capture", log.capturing.error)
    elif log.capturing is not None:
        yield judge_capturing(log.capturing)
        yield from judge_snapshots(log.capturing)
    elif capture.is_enabled:
        yield _unknown(Code.CAPTURE_UNKNOWN, "capture", "how far it is")
    yield from judge_lake(log.lake)
    if isinstance(log.rows_left, Unread):
        yield unknown(Code.ROWS_LEFT_UNKNOWN, "disabled instances", log.rows_left.error)
    else:
        yield from judge_rows_left(log.rows_left)
    of_members = tuple(find_in_members(capture.members, CAPTURE))
    if capture.instances and capture.state is None:
        # As they were enabled, they are in the log store.
        yield from without_notes((*find_in_instances(capture, log.tables), *of_members))
    elif capture.instances or of_members:
        healthy = f"{len(capture.instances)} are captured as they were enabled"
        found = (*find_in_instances(capture, log.tables), *of_members)
        yield from or_healthy(found, CheckResult(Code.INSTANCES_HEALTHY, State.HEALTHY, "instances", healthy))
    if capture.consumers:
        healthy = f"{len(capture.consumers)} have time before cleanup passes them"
        yield from or_healthy(
            find_in_consumers(capture), CheckResult(Code.CONSUMERS_HEALTHY, State.HEALTHY, "consumers", healthy)
        )
    if isinstance(log.cleanup, Unread):
        yield unknown(Code.CLEANUP_UNKNOWN, "cleanup", log.cleanup.error)
    elif log.cleanup is not None:
        yield from judge_cleanup(log.cleanup)


def judge_lake(lake: LakeFacts) -> Iterator[CheckResult]:
    """Judge what the lake says of instances: copies that are outdated, lost keys, and how targets follow them."""
    if isinstance(lake.outdated, Unread):
        yield unknown(Code.SNAPSHOTS_UNKNOWN, "snapshots", lake.outdated.error)
    else:
        yield from judge_outdated(lake.outdated)
    if isinstance(lake.lost_keys, Unread):
        yield unknown(Code.KEYS_UNKNOWN, "keys", lake.lost_keys.error)
    else:
        yield from judge_lost_keys(lake.lost_keys)
    if isinstance(lake.targets, Unread):
        yield unknown(Code.TARGETS_UNKNOWN, "targets", lake.targets.error)
    else:
        yield from judge_targets(lake.targets)


def _judge_delivery(log: LogFacts) -> Iterator[CheckResult]:
    if isinstance(log.delivery, Unread):
        yield unknown(Code.SUBSCRIPTIONS_UNKNOWN, "subscriptions", log.delivery.error)
    elif log.delivery is not None:
        yield from judge_delivery(log.delivery)
    elif log.capture.state is None and any(member.feature == REPLICATION for member in log.capture.members):
        yield _unknown(Code.SUBSCRIPTIONS_UNKNOWN, "subscriptions", "what waits for them")
    if isinstance(log.articles, Unread):
        yield unknown(Code.ARTICLES_UNKNOWN, "articles", log.articles.error)
    elif log.articles is not None:
        yield from judge_articles(log.articles, run_reader(log.capture), is_read=log.capture.log_reader is not None)
        yield from without_notes(find_in_members(log.capture.members, REPLICATION))


def _unknown(code: Code, subject: str, what: str) -> CheckResult:
    message = f"{what}, is in the log store, which was not read"
    return CheckResult(code, State.UNKNOWN, subject, message, Advice("First do what is said of the log store."))


def _judge_tracking(tracking: TrackingFacts | Unread) -> Iterator[CheckResult]:
    if isinstance(tracking, Unread):
        yield unknown(Code.TRACKING_UNKNOWN, "tracking", tracking.error)
    elif not tracking.is_readable:
        yield tell_unreadable()
    else:
        tables = [(table.base, tuple(find_losses(table))) for table in tracking.tables]
        yield from judge_tracking(find_refusal(tracking.refusal), tables)


def _is_tracked(tracking: TrackingFacts | Unread) -> bool:
    return isinstance(tracking, Unread) or not tracking.is_readable or bool(tracking.tables or tracking.refusal)


def _describe_slot(capture: CaptureFacts) -> CheckResult:
    slot, subject = capture.slot, f"slot {capture.source.slot}"
    if slot is None:
        return CheckResult(Code.SLOT_HEALTHY, State.HEALTHY, subject, "it is there")
    kept = f", the server keeps {format_bytes(slot.kept_bytes)} of WAL for it" if slot.kept_bytes is not None else ""
    left = f", {format_bytes(slot.safe_bytes)} before it is lost" if slot.safe_bytes is not None else ""
    message = f"{slot.wal_status}{kept}{left}"
    return CheckResult(Code.SLOT_HEALTHY, State.HEALTHY, subject, message, measures=measure_slot(slot))
