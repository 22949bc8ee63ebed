"""Reading a PostgreSQL database, and judging it."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.cdc.definitions import FEATURE as CAPTURE
from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.findings.finding import AS_OWNER, Advice, Severity, Sql
from rowtide.findings.postgres.capture_findings import (
    find_in_consumers,
    find_in_instances,
    find_in_log,
    is_forbidden,
    run_reader,
    without_forbidden,
)
from rowtide.findings.postgres.facts import CaptureFacts, ServerFacts, TrackingFacts
from rowtide.findings.postgres.member_findings import find_in_members
from rowtide.findings.postgres.tracking_findings import find_losses
from rowtide.findings.quantities import format_bytes, format_names
from rowtide.findings.tracked_findings import find_outdated
from rowtide.health.capture_judgements import (
    judge_capturing,
    judge_cleanup,
    judge_lost_keys,
    judge_outdated,
    judge_rows_left,
    judge_snapshots,
    judge_targets,
)
from rowtide.health.delivery_judgements import judge_delivery
from rowtide.health.disk_judgements import judge_place
from rowtide.health.facts import Unread
from rowtide.health.judgements import (
    LOG,
    Area,
    Judgement,
    State,
    judge_findings,
    not_looked_at,
    nothing_enabled,
    settle,
)
from rowtide.health.log_judgements import judge_reading
from rowtide.health.merge_judgements import judge_merge
from rowtide.health.postgres.facts import DatabaseHealthFacts, LogFacts
from rowtide.health.postgres.reading import read_facts
from rowtide.health.tracking_judgements import judge_tracking
from rowtide.log.errors import DatabaseCopied
from rowtide.replication.articles.articles import FEATURE as REPLICATION
from rowtide.replication.errors.delivery import PublishedTableDropped
from rowtide.replication.status import ArticlesStatus
from rowtide.tracking.postgres.system_tables import FORM


def read_judgements(url: str) -> tuple[Judgement, ...]:
    """Judge everything that rowtide does in a database. Raises what connecting raises."""
    return tuple(judge(read_facts(url)))


def judge(facts: DatabaseHealthFacts) -> Iterator[Judgement]:
    """Judge a database. Pure."""
    if facts.log is None and not (facts.merge or _is_tracked(facts.tracking) or facts.delivered_here):
        yield nothing_enabled()
    if isinstance(facts.log, Unread) and isinstance(facts.log.error, DatabaseCopied):
        copied = facts.log.error
        yield Judgement(Area.DATABASE, "database", State.FAILING, copied.filled_fact, Advice(copied.filled_hint))
    elif isinstance(facts.log, Unread):
        yield not_looked_at(Area.LOG, LOG, facts.log.error)
    elif facts.log is not None and facts.server.identity.in_recovery:
        yield not_looked_at(Area.LOG, LOG, ServerIsStandby())
    elif facts.log is not None:
        yield from _judge_log(facts.log, facts.server)
    yield from _judge_delivered(facts.delivered_here)
    yield from _judge_left_prepared(facts.left_prepared)
    if isinstance(facts.merge, Unread):
        yield not_looked_at(Area.MERGE, "merge", facts.merge.error)
    elif facts.merge is not None:
        yield from judge_merge(facts.merge)
    yield from _judge_tracking(facts.tracking)


def _judge_log(log: LogFacts, server: ServerFacts) -> Iterator[Judgement]:
    capture, area = log.capture, Area.LOG
    for blocker in filter(is_forbidden, capture.blockers):
        yield not_looked_at(area, "log store", blocker)
    found = tuple(find_in_log(without_forbidden(capture), server))
    of_slot = [finding for finding in found if finding.subject.startswith("slot")]
    of_publication = [finding for finding in found if finding.subject == "publication"]
    others = [finding for finding in found if finding not in of_slot + of_publication]
    blockers = [finding.subject for finding in found if finding.severity is Severity.STOPS]
    if isinstance(log.reading, Unread):
        yield not_looked_at(area, "log reader", log.reading.error)
    elif capture.state is not None or blockers:
        yield from judge_reading(log.reading, run_reader(capture), blockers)
    else:
        yield _unknown(area, "log reader", "how far the log is read")
    name = capture.source.slot
    yield from settle(area, of_slot, subject=f"slot {name}", well=_describe_slot(capture))
    well = "it publishes what it was made for, and was not altered"
    yield from settle(area, of_publication, subject=f"publication {capture.source.publication}", well=well)
    yield from judge_findings(area, others)
    yield from _judge_capture(log)
    yield from _judge_delivery(log)
    for place in log.places:
        yield from judge_place(place)


def _judge_capture(log: LogFacts) -> Iterator[Judgement]:
    capture, area = log.capture, Area.CAPTURE
    if isinstance(log.capturing, Unread):
        yield not_looked_at(area, "capture", log.capturing.error)
    elif log.capturing is not None:
        yield from judge_capturing(log.capturing)
        yield from judge_snapshots(log.capturing)
    elif capture.is_enabled:
        yield _unknown(area, "capture", "how far it is")
    if isinstance(log.outdated, Unread):
        yield not_looked_at(area, "snapshots", log.outdated.error)
    else:
        yield from judge_outdated(log.outdated)
    if isinstance(log.lost_keys, Unread):
        yield not_looked_at(area, "keys", log.lost_keys.error)
    else:
        yield from judge_lost_keys(log.lost_keys)
    if isinstance(log.rows_left, Unread):
        yield not_looked_at(area, "disabled instances", log.rows_left.error)
    else:
        yield from judge_rows_left(log.rows_left)
    of_members = tuple(find_in_members(capture.members, CAPTURE))
    if capture.instances and capture.state is None:
        # As they were enabled, they are in the log store.
        yield from judge_findings(area, (*find_in_instances(capture, log.tables), *of_members))
    elif capture.instances or of_members:
        well = f"{len(capture.instances)} are captured as they were enabled"
        found = (*find_in_instances(capture, log.tables), *of_members)
        yield from settle(area, found, subject="instances", well=well)
    if capture.consumers:
        well = f"{len(capture.consumers)} have time before cleanup passes them"
        yield from settle(area, find_in_consumers(capture), subject="consumers", well=well)
    if isinstance(log.targets, Unread):
        yield not_looked_at(area, "targets", log.targets.error)
    else:
        yield from judge_targets(log.targets)
    if isinstance(log.cleanup, Unread):
        yield not_looked_at(area, "cleanup", log.cleanup.error)
    elif log.cleanup is not None:
        yield from judge_cleanup(log.cleanup)


def _judge_delivery(log: LogFacts) -> Iterator[Judgement]:
    if isinstance(log.delivery, Unread):
        yield not_looked_at(Area.REPLICATION, "subscriptions", log.delivery.error)
    elif log.delivery is not None:
        yield from judge_delivery(log.delivery)
    elif log.capture.state is None and any(member.feature == REPLICATION for member in log.capture.members):
        yield _unknown(Area.REPLICATION, "subscriptions", "what waits for them")
    if isinstance(log.articles, Unread):
        yield not_looked_at(Area.REPLICATION, "articles", log.articles.error)
    else:
        yield from _judge_articles(log.articles, log.capture)


def _unknown(area: Area, subject: str, what: str) -> Judgement:
    fact = f"{what}, is in the log store, which was not read"
    return Judgement(area, subject, State.NOT_LOOKED_AT, fact, Advice("First do what is said of the log store."))


def _judge_articles(articles: ArticlesStatus, capture: CaptureFacts) -> Iterator[Judgement]:
    area, subject = Area.REPLICATION, "articles"
    if articles.unread and capture.log_reader is None:
        fact = f"the log reader has not read yet that they were published: {format_names(articles.unread)}"
        yield Judgement(area, subject, State.WARNING, fact, run_reader(capture))
    if articles.dropped:
        fact = f"{format_names(articles.dropped)} is published and was dropped: nothing of it is delivered any more"
        yield Judgement(area, subject, State.WARNING, fact, Advice(PublishedTableDropped.hint))
    if articles.stored:
        fact = (
            f"{format_names(articles.stored)} was generated when its table was published and is an ordinary column "
            "now: its values are not delivered, and subscribers compute it still"
        )
        yield Judgement(
            area, subject, State.WARNING, fact, Advice("Reinitialize the subscription: its rows are copied.")
        )
    for name, column in articles.unwritable:
        fact = (
            f"the server refuses updates and deletes of {name}: column {column} is virtual, its replica identity full"
        )
        mend = Sql((f"alter table {name} replica identity default;",), AS_OWNER)
        yield Judgement(area, subject, State.FAILING, fact, mend)
    if articles.rekeyed:
        fact = (
            f"{format_names(articles.rekeyed)} has another primary key than when it was published: subscribers still "
            "find its rows by the earlier one, and refuse rows that have it twice"
        )
        yield Judgement(
            area, subject, State.WARNING, fact, Advice("Reinitialize the subscription: its rows are copied.")
        )
    for error in articles.unidentified:
        mend = Sql((f"alter table {error.quoted} replica identity full;",), AS_OWNER)
        yield Judgement(area, subject, State.WARNING, error.filled_fact, mend)
    for column in articles.left_out:
        fact = f"a column is not delivered that was added to a published table: {column}"
        yield Judgement(
            area, subject, State.WARNING, fact, Advice("Reinitialize the subscription: its rows are copied.")
        )
    for column in articles.kept:
        fact = f"a column was dropped from a published table, and a subscriber keeps it: {column}"
        yield Judgement(area, subject, State.WARNING, fact, Advice("Drop there what uses it, and then the column."))
    yield from judge_findings(area, find_in_members(capture.members, REPLICATION))


def _judge_delivered(delivered: tuple[str, ...] | Unread) -> Iterator[Judgement]:
    if isinstance(delivered, Unread):
        yield not_looked_at(Area.REPLICATION, "deliveries into this database", delivered.error)
    elif delivered:
        fact = f"{format_names(delivered)} is delivered here; how that stands, its publisher's health says"
        yield Judgement(Area.REPLICATION, "subscriber", State.WELL, fact)


def _judge_left_prepared(left: tuple[str, ...] | Unread) -> Iterator[Judgement]:
    if isinstance(left, Unread):
        yield not_looked_at(Area.REPLICATION, "prepared transactions", left.error)
    elif left:
        fact = f"delivery prepared {format_names(left)} more than a minute ago; until it ends, it keeps its locks"
        advice = Advice("Run `rowtide replication recover` with this database's URL, or start the agent again.")
        yield Judgement(Area.REPLICATION, "prepared transactions", State.WARNING, fact, advice)


def _judge_tracking(tracking: TrackingFacts | Unread) -> Iterator[Judgement]:
    if isinstance(tracking, Unread):
        yield not_looked_at(Area.TRACKING, "tracking", tracking.error)
    elif not tracking.is_readable:
        fact = "this role may not read the schema rowtide_tracking"
        advice = Advice("Ask as the role that tracks the tables.")
        yield Judgement(Area.TRACKING, "tracking", State.NOT_LOOKED_AT, fact, advice)
    else:
        tables = [(table.base, tuple(find_losses(table))) for table in tracking.tables]
        yield from judge_tracking(find_outdated(tracking.forms, FORM), tables)


def _is_tracked(tracking: TrackingFacts | Unread) -> bool:
    return isinstance(tracking, Unread) or not tracking.is_readable or bool(tracking.tables or tracking.forms)


def _describe_slot(capture: CaptureFacts) -> str:
    slot = capture.slot
    if slot is None:
        return "it is there"
    kept = f", the server keeps {format_bytes(slot.kept_bytes)} of WAL for it" if slot.kept_bytes is not None else ""
    left = f", {format_bytes(slot.safe_bytes)} before it is lost" if slot.safe_bytes is not None else ""
    return f"{slot.wal_status}{kept}{left}"
