"""Check whether everything that rowtide does in a PostgreSQL database works. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.cdc.definitions import FEATURE as CAPTURE
from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.databases.postgres.query_memo import make_once
from rowtide.diagnosis.capture import (
    check_capturing,
    check_cleanup,
    check_lost_keys,
    check_outdated,
    check_reading,
    check_rows_left,
    check_targets,
)
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.delivery import check_articles, check_delivered, check_delivery, check_left_prepared
from rowtide.diagnosis.merge import check_merge
from rowtide.diagnosis.places import check_room
from rowtide.diagnosis.postgres.capture import (
    check_consumers,
    check_instances,
    check_log,
    is_forbidden,
    measure_slot,
    run_reader,
    without_forbidden,
)
from rowtide.diagnosis.postgres.capture_facts import CaptureFacts
from rowtide.diagnosis.postgres.reading import LakeFacts, LogFacts, PostgresWorkFacts
from rowtide.diagnosis.postgres.server_facts import ServerFacts
from rowtide.diagnosis.postgres.tables import check_members
from rowtide.diagnosis.postgres.tracking import check_losses, tracking_unreadable
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts
from rowtide.diagnosis.result import (
    LOG,
    CheckResult,
    State,
    Unread,
    counts,
    format_bytes,
    healthy,
    if_read,
    nothing_enabled,
    of_error,
    or_healthy,
    unknown,
    unread,
    without_notes,
)
from rowtide.diagnosis.tracked_tables import check_format, check_tracked_tables
from rowtide.log.errors import DatabaseCopied
from rowtide.replication.articles.articles import FEATURE as REPLICATION


def check_work(facts: PostgresWorkFacts) -> Iterator[CheckResult]:
    """Check what rowtide does in a database. Pure."""
    is_tracked = facts.tracking is None or _is_tracked(facts.tracking)
    if facts.log is None and not (facts.merge or is_tracked or facts.delivered_here):
        yield nothing_enabled()
    if isinstance(facts.log, Unread) and isinstance(facts.log.error, DatabaseCopied):
        yield of_error(Code.DATABASE_COPIED, State.FAILING, "database", facts.log.error)
    elif isinstance(facts.log, LogFacts) and facts.server.identity.in_recovery:
        yield unread(Code.LOG_UNKNOWN, LOG, ServerIsStandby())
    else:
        yield from if_read(facts.log, Code.LOG_UNKNOWN, LOG, lambda log: _check_log(log, facts.server))
    delivered, prepared = facts.delivered_here, facts.left_prepared
    yield from if_read(delivered, Code.DELIVERED_HERE_UNKNOWN, "deliveries into this database", check_delivered)
    yield from if_read(prepared, Code.PREPARED_UNKNOWN, "prepared transactions", check_left_prepared)
    yield from if_read(facts.merge, Code.MERGE_UNKNOWN, "merge", check_merge)
    yield from if_read(facts.tracking, Code.TRACKING_UNKNOWN, "tracking", _check_tracking)


def _check_log(log: LogFacts, server: ServerFacts) -> Iterator[CheckResult]:
    capture = log.capture
    for blocker in filter(is_forbidden, capture.blockers):
        yield unread(Code.LOG_STORE_UNKNOWN, "log store", blocker)
    found = tuple(check_log(without_forbidden(capture), server))
    of_slot = [result for result in found if result.subject.startswith("slot")]
    of_publication = [result for result in found if result.subject == "publication"]
    others = [result for result in found if result not in of_slot + of_publication]
    blockers = [result.subject for result in found if result.state is State.FAILING]
    if capture.state is not None or blockers or isinstance(log.reading, Unread):
        run = run_reader(capture)
        yield from if_read(
            log.reading, Code.LOG_READER_UNKNOWN, "log reader", lambda reading: [check_reading(reading, run, blockers)]
        )
    else:
        yield _in_log_store(Code.LOG_READER_UNKNOWN, "log reader", "how far the log is read")
    yield from or_healthy(of_slot, _describe_slot(capture))
    message = "it publishes what it was made for, and was not altered"
    as_made = healthy(Code.PUBLICATION_HEALTHY, f"publication {capture.source.publication}", message)
    yield from or_healthy(of_publication, as_made)
    yield from without_notes(others)
    yield from _check_capture(log)
    yield from _check_delivery(log)
    for place in log.places:
        yield from check_room(place)


def _check_capture(log: LogFacts) -> Iterator[CheckResult]:
    capture = log.capture
    yield from if_read(log.capturing, Code.CAPTURE_UNKNOWN, "capture", check_capturing)
    if log.capturing is None and capture.is_enabled:
        yield _in_log_store(Code.CAPTURE_UNKNOWN, "capture", "how far it is")
    yield from check_lake(log.lake)
    yield from if_read(log.rows_left, Code.ROWS_LEFT_UNKNOWN, "disabled instances", check_rows_left)
    given = (capture.instances, capture.members, capture.state is None, capture.log_reader is None)
    found = make_once("checked instances", lambda: tuple(_check_captured(capture)), given)
    if capture.instances and capture.state is None:
        # As they were enabled, they are in the log store.
        yield from without_notes(found)
    elif capture.instances or found:
        message = f"{len(capture.instances)} are captured as they were enabled"
        measures = counts(instances=len(capture.instances))
        yield from or_healthy(found, healthy(Code.INSTANCES_HEALTHY, "instances", message, measures=measures))
    if capture.consumers:
        message = f"{len(capture.consumers)} have time before cleanup passes them"
        measures = counts(consumers=len(capture.consumers))
        in_time = healthy(Code.CONSUMERS_HEALTHY, "consumers", message, measures=measures)
        yield from or_healthy(check_consumers(capture), in_time)
    yield from if_read(log.cleanup, Code.CLEANUP_UNKNOWN, "cleanup", check_cleanup)


def _check_captured(capture: CaptureFacts) -> Iterator[CheckResult]:
    """Check instances and their tables."""
    if capture.instances:
        yield from check_instances(capture, (one.table for one in capture.members if one.table is not None))
    yield from check_members(capture.members, CAPTURE)


def check_lake(lake: LakeFacts) -> Iterator[CheckResult]:
    """Check the instances' states in the lake: outdated copies, lost keys, and the progress of targets."""
    yield from if_read(lake.outdated, Code.SNAPSHOTS_UNKNOWN, "snapshots", check_outdated)
    yield from if_read(lake.lost_keys, Code.KEYS_UNKNOWN, "keys", check_lost_keys)
    yield from if_read(lake.targets, Code.TARGETS_UNKNOWN, "targets", check_targets)


def _check_delivery(log: LogFacts) -> Iterator[CheckResult]:
    capture = log.capture
    yield from if_read(log.delivery, Code.SUBSCRIPTIONS_UNKNOWN, "subscriptions", check_delivery)
    is_published = any(member.feature == REPLICATION for member in capture.members)
    if log.delivery is None and capture.state is None and is_published:
        yield _in_log_store(Code.SUBSCRIPTIONS_UNKNOWN, "subscriptions", "what waits for them")
    run, is_read = run_reader(capture), capture.log_reader is not None
    yield from if_read(
        log.articles,
        Code.ARTICLES_UNKNOWN,
        "articles",
        lambda articles: (
            *check_articles(articles, run, is_read=is_read),
            *without_notes(check_members(capture.members, REPLICATION)),
        ),
    )


def _in_log_store(code: Code, subject: str, what: str) -> CheckResult:
    return unknown(
        code, subject, f"{what}, is in the log store, which was not read", "First do what is said of the log store."
    )


def _check_tracking(tracking: TrackingFacts) -> Iterator[CheckResult]:
    if not tracking.is_readable:
        yield tracking_unreadable()
        return
    tables = [(table.base, tuple(check_losses(table))) for table in tracking.tables]
    yield from check_tracked_tables(check_format(tracking.refusal), tables)


def _is_tracked(tracking: TrackingFacts | Unread) -> bool:
    return isinstance(tracking, Unread) or not tracking.is_readable or bool(tracking.tables or tracking.refusal)


def _describe_slot(capture: CaptureFacts) -> CheckResult:
    slot, subject = capture.slot, f"slot {capture.source.slot}"
    if slot is None:
        return healthy(Code.SLOT_HEALTHY, subject, "it is there")
    kept = f", the server keeps {format_bytes(slot.kept_bytes)} of WAL for it" if slot.kept_bytes is not None else ""
    left = f", {format_bytes(slot.safe_bytes)} before it is lost" if slot.safe_bytes is not None else ""
    return healthy(Code.SLOT_HEALTHY, subject, f"{slot.wal_status}{kept}{left}", measures=measure_slot(slot))
