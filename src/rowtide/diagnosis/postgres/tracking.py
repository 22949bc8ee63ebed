"""Checks of change tracking in a PostgreSQL database. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rowtide.databases.postgres.quoting import quote
from rowtide.databases.source_table import SourceTable
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.postgres.access import check_owners
from rowtide.diagnosis.postgres.reading import DatabaseFacts
from rowtide.diagnosis.postgres.tracking_facts import (
    CandidateFacts,
    Readers,
    StampFacts,
    TrackedTableFacts,
    TrackingFacts,
)
from rowtide.diagnosis.result import (
    AS_OWNER,
    Advice,
    CheckResult,
    Remediation,
    ShellCommand,
    Sql,
    State,
    failing,
    format_bytes,
    format_names,
    note,
    of_error,
    quote_table,
    set_and_restart,
    shell,
    sizes,
    table_subject,
    unknown,
    warning,
)
from rowtide.diagnosis.tracked_tables import (
    TrackingLoss,
    check_format,
    check_tracked,
    enable,
    move_beside,
    remediate_loss,
    subject_of,
)
from rowtide.tracking.errors import TableToTrackNotFound
from rowtide.tracking.options import StampIndex, Storage, TrackedTable, TrackingKeyType
from rowtide.tracking.postgres.stamps import find_blocker
from rowtide.tracking.postgres.tracked_tables import CHANGE_BSN

BIG_TABLE_BYTES = 1 << 30
"""Smaller tables are not checked: all their ranges are read quickly."""
LOW_CORRELATION = 0.5
"""Below, each range of blocks has stamps of any age, so that a BRIN index excludes few ranges."""


def check_tracking(facts: DatabaseFacts) -> Iterator[CheckResult]:
    """Check what is tracked, and tables that were named and may come to be."""
    tracking = facts.tracking
    if not tracking.is_readable:
        yield tracking_unreadable()
    if tracking.tables:
        yield from _check_server(facts, tracking)
    if tracking.tables or tracking.candidates:
        yield from _check_whole_publications(tracking)
    yield from check_format(tracking.refusal)
    for table in tracking.tables:
        yield from _check_tracked(table)
    for candidate in tracking.candidates:
        yield from _check_candidate(candidate, tracking)
    if not facts.wants_capture:
        yield from _check_rights(facts)


def tracking_unreadable() -> CheckResult:
    """Return the result for a role that may not read the tracking schema."""
    message = "this role may not read the schema rowtide_tracking"
    advice = "Ask as the role that tracks the tables."
    return unknown(Code.TRACKING_UNREADABLE, "tracking", message, advice)


def _check_server(facts: DatabaseFacts, tracking: TrackingFacts) -> Iterator[CheckResult]:
    if facts.server.identity.in_recovery:
        message = (
            "it is a standby: it gives no anchors, because its snapshots do not know what is in progress (RT-1108)"
        )
        yield note(Code.TRACKING_ON_STANDBY, "server", message, "Enumerate changes on its primary.")
    if not tracking.has_commit_times:
        message = (
            "track_commit_timestamp is off: transactions that committed between two anchors have their CSNs "
            "in the order of their BSNs, not in that of their commits"
        )
        yield note(Code.COMMIT_TIMES_OFF, "server", message, set_and_restart("track_commit_timestamp", "on"))


def _check_whole_publications(tracking: TrackingFacts) -> Iterator[CheckResult]:
    """Wherever the stamps are kept: tombstones are in a table of their own."""
    for name in tracking.whole_publications:
        message = (
            "it is for all tables, those in which tracking writes too (schema rowtide_tracking): "
            "a subscriber that lacks them stops"
        )
        advice = "Publish tables or schemas by their names, or make that schema at the subscriber, too."
        yield warning(Code.TRACKING_PUBLISHED, f"publication {name}", message, advice)


def check_losses(facts: TrackedTableFacts) -> Iterator[CheckResult]:
    """Check whether a table is tracked still, and its tombstones."""
    tracked = facts.base.tracked
    if facts.lost_names and facts.base.loss is not None:
        yield _check_lost_names(tracked, facts.lost_names, facts.base.loss)
    else:
        yield from check_tracked(facts.base)


def _check_tracked(facts: TrackedTableFacts) -> Iterator[CheckResult]:
    tracked = facts.base.tracked
    yield from check_losses(facts)
    if facts.table is not None and facts.stamps is not None:
        name = quote_table(facts.table)
        yield from _check_stamps(tracked, name, facts.stamps)
        if tracked.storage is Storage.ROW:
            beside = move_beside(tracked, name, _index(tracked))
            yield from _check_readers(subject_of(tracked), facts.readers, _keep_beside(facts.table, beside))


def _check_lost_names(tracked: TrackedTable, names: tuple[str, ...], loss: TrackingLoss) -> CheckResult:
    what = "deletes" if tracked.storage is Storage.ROW else "all writes"
    message = (
        f"{what} of it fail: its triggers use {format_names(names)}, which no longer exist; "
        "its tracking is lost (RT-6106)"
    )
    return failing(Code.TRACKED_WRITES_FAIL, subject_of(tracked), message, remediate_loss(tracked, loss))


def _check_stamps(tracked: TrackedTable, table: str, stamps: StampFacts) -> Iterator[CheckResult]:
    if not stamps.has_whole_index:
        message = "the index on its stamps is missing or half built: each enumeration reads the whole table"
        yield warning(
            Code.TRACKING_INDEX_MISSING, subject_of(tracked), message, shell("rowtide", "tracking", "enable", table)
        )
    is_big = stamps.byte_count >= BIG_TABLE_BYTES
    is_scattered = stamps.correlation is not None and abs(stamps.correlation) < LOW_CORRELATION
    if tracked.index is StampIndex.BRIN and is_big and is_scattered and not stamps.has_row_index:
        yield _check_scattered(tracked, stamps)


def _check_scattered(tracked: TrackedTable, stamps: StampFacts) -> CheckResult:
    """Building one more index blocks no writers and keeps anchors valid, unlike enabling again with --index btree."""
    stamp = quote(CHANGE_BSN)
    message = (
        f"changes are scattered over the {format_bytes(stamps.byte_count)} of its stamps (correlation "
        f"{stamps.correlation:.2f}): by ranges of pages an enumeration reads much that did not change; "
        "enabled with --index btree it would have an index of rows, which can be added too"
    )
    statement = f"create index concurrently on {stamps.holder} ({stamp}) where {stamp} is not null;"
    index, measures = Sql((statement,), AS_OWNER), sizes(stamp_bytes=stamps.byte_count)
    return note(Code.TRACKING_SCATTERED, subject_of(tracked), message, index, measures)


def _check_candidate(facts: CandidateFacts, tracking: TrackingFacts) -> Iterator[CheckResult]:
    """Check an untracked table: before anything is tracked, report only effects of enabling on other tables."""
    subject = table_subject(facts.table)
    if tracking.is_there and not facts.is_trackable:
        yield of_error(Code.TRACKING_REFUSED, State.FAILING, subject, TableToTrackNotFound(facts.table.qualified_name))
    if not facts.is_trackable:
        return
    if tracking.is_there and not facts.table.key_columns:
        message = "it has no primary key, which would identify its rows"
        yield warning(Code.TRACKING_KEY_MISSING, subject, message, _remediate_key(facts))
    key_type = TrackingKeyType.PRIMARY_KEY if facts.table.key_columns else TrackingKeyType.ROWGUID
    remediation = enable(quote_table(facts.table), key_type=key_type, storage=Storage.SIDE)
    yield from _check_readers(subject, facts.readers, _keep_beside(facts.table, remediation))


def _remediate_key(facts: CandidateFacts) -> Remediation:
    if facts.has_rowguid or facts.can_have_rowguid:
        return enable(quote_table(facts.table), key_type=TrackingKeyType.ROWGUID)
    return Advice("Give it one, or a column rowguid that is unique and not null.")


def _keep_beside(table: SourceTable, command: ShellCommand) -> Remediation:
    """Return the command by which stamps are beside the rows, or what to do where they cannot be."""
    if find_blocker(table, {column.name for column in table.key_columns}) is None:
        return command
    return Advice("Name its other columns in the publication, or give the three columns to its subscribers first.")


def _check_readers(subject: str, readers: Readers, beside: Remediation) -> Iterator[CheckResult]:
    """Columns in the row go wherever the row goes."""
    if readers.publications:
        message = (
            f"publication {format_names(readers.publications)} sends all its columns, tracking's in the row too: "
            "a subscriber whose table lacks them stops"
        )
        yield warning(Code.TRACKING_COLUMNS_SENT, subject, message, beside)
    elif readers.is_captured:
        message = "it is captured: columns of tracking in the row are in the log of every change of it"
        yield note(Code.TRACKING_COLUMNS_CAPTURED, subject, message, beside)


def _check_rights(facts: DatabaseFacts) -> Iterator[CheckResult]:
    """Where capture is looked at, the role's rights are checked with it."""
    role, candidates = facts.role, {one.table.source_id for one in facts.tracking.candidates if one.is_trackable}
    if candidates and not role.may_create:
        grant = f"grant create on database {quote(facts.server.identity.database)} to {quote(role.name)};"
        message = f"it may not create in database {facts.server.identity.database}, which enabling begins with"
        yield failing(Code.CREATE_RIGHT_MISSING, f"role {role.name}", message, Sql((grant,), "as the database's owner"))
    tracked = {one.table.source_id for one in facts.tracking.tables if one.table is not None}
    tables = (replace(table, is_wanted=table.table.source_id in candidates) for table in facts.tables)
    concerned = tuple(table for table in tables if table.is_wanted or table.table.source_id in tracked)
    yield from check_owners(role.name, concerned)


def _index(tracked: TrackedTable) -> StampIndex | None:
    return tracked.index if tracked.index is not StampIndex.BRIN else None
