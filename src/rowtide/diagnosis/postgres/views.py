"""`check` and `health` of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from rowtide.cdc.errors.capturing import DefinitionsIncomplete
from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.databases.postgres.clock import SCHEMA as TRACKING_SCHEMA
from rowtide.databases.postgres.errors import TextInvalid, translated
from rowtide.diagnosis.codes import ALL_AREAS, Area, Code
from rowtide.diagnosis.places import LAKE, Place, PlaceFacts, check_places, check_taken, read_place
from rowtide.diagnosis.postgres import access, access_facts, server_facts
from rowtide.diagnosis.postgres.capture import check_capture, without_forbidden
from rowtide.diagnosis.postgres.capture_facts import CaptureFacts, find_taken_log_store, read_capture, read_places
from rowtide.diagnosis.postgres.health import check_lake, check_work
from rowtide.diagnosis.postgres.reading import DatabaseFacts, complete_work, connected, read_lake, read_work
from rowtide.diagnosis.postgres.server import check_server
from rowtide.diagnosis.postgres.table_facts import choose_tables, read_foreign_tables, read_table_facts
from rowtide.diagnosis.postgres.tables import check_tables
from rowtide.diagnosis.postgres.tracking import check_tracking
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts, read_tracking
from rowtide.diagnosis.result import LOG, Checked, CheckResult, State, Unread, by_state, of_error, unread
from rowtide.log.catalogue import find_source
from rowtide.log.errors import DatabaseCopied
from rowtide.log.source_definition import SourceDefinition
from rowtide.merge.definitions import SCHEMA as MERGE_SCHEMA
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA as SUBSCRIBER_SCHEMA
from rowtide.rights.granting import find_monitor_gaps
from rowtide.rights.purpose import Purpose

_Check = Callable[[Connection, str, Sequence[str], str | None], Checked]

_ROLES_OF_PUBLISHERS = (None, Purpose.PUBLISHER)
"""For these, the right to replicate is tried, and what would be refused to them is found."""


def check(url: str, tables: Sequence[str] = (), lake: str | None = None, purpose: Purpose | None = None) -> Checked:
    """Return what is missing or worth knowing in a database; nothing in it is changed.

    Without `tables`: the captured and the tracked ones, before enabling all of the user's schemas; and how what rowtide
    does here works. Raises `TableNotFound` and what connecting raises.
    """
    try:
        with connected(url) as connection:
            return _CHECKS[purpose](connection, url, tables, lake)
    except TextInvalid:
        found = tuple(access.check_names(access_facts.read_names(url)))
        if not found:
            raise
        return Checked(found)


def read_health(url: str, areas: Collection[Area] = ALL_AREAS) -> tuple[CheckResult, ...]:
    """Return how what rowtide does in a database works, where it is of some areas. Raises what connecting raises."""
    with connected(url) as connection:
        return tuple(check_work(read_work(connection, url, areas)))


def check_facts(facts: DatabaseFacts, purpose: Purpose | None = None) -> tuple[CheckResult, ...]:
    """Return what the facts mean for a publisher, or a monitor. Pure."""
    if facts.copied is not None:
        in_copy = of_error(Code.DATABASE_COPIED, State.FAILING, "database", facts.copied)
        return by_state([in_copy, *check_tracking(facts)])
    check_log = _check_for_monitor if purpose is Purpose.MONITOR else _check_all
    in_merge = () if facts.merged is None else access.check_merged(facts.merged)
    in_log = check_log(facts) if facts.wants_capture else ()
    unread_parts = [unread(code, _UNREAD_SUBJECTS[code], error) for code, error in facts.unread.items()]
    return by_state([*unread_parts, *in_log, *check_tracking(facts), *in_merge])


def _check_all(facts: DatabaseFacts) -> Iterator[CheckResult]:
    yield from check_server(facts.server, facts.capture)
    yield from access.check_role(facts)
    yield from check_capture(facts)
    yield from check_places(facts.places)
    yield from check_taken(facts.place_blockers)
    yield from check_tables(facts)


def _check_for_monitor(facts: DatabaseFacts) -> Iterator[CheckResult]:
    """Check what there is; what enabling more would take is no concern of a monitor, nor that it may not write."""
    if facts.capture is None:
        return
    yield from check_server(facts.server, facts.capture)
    yield from check_capture(replace(facts, capture=without_forbidden(facts.capture)))
    yield from check_places(_look_only(place) for place in facts.places)
    yield from check_tables(facts)


def _look_only(place: Place) -> Place:
    is_forbidden = isinstance(place, PlaceFacts) and place.is_forbidden
    return replace(place, problem=None) if is_forbidden else place


def read_facts(
    url: str, tables: Sequence[str] = (), lake: str | None = None, purpose: Purpose | None = None
) -> DatabaseFacts:
    """Read everything that a check looks at. Raises `TableNotFound` and what connecting raises."""
    with connected(url) as connection:
        return _read(connection, url, tables, lake, purpose)


def _read(
    connection: Connection, url: str, tables: Sequence[str], lake: str | None, purpose: Purpose | None
) -> DatabaseFacts:
    tries_stream = purpose in _ROLES_OF_PUBLISHERS
    server = server_facts.read_server(connection, url, tries_stream=tries_stream)
    may_stream = tries_stream and server.refusal is None
    unread: dict[Code, RowtideError] = {}
    source: SourceDefinition | None = None
    copied: DatabaseCopied | None = None
    capture: CaptureFacts | None = None
    with _noting(unread, Code.LOG_UNKNOWN):
        source, copied = _find_source(connection)
        capture = read_capture(connection, source, url, may_stream=may_stream) if source is not None else None
    is_log_unread = bool(unread)
    captured = {instance.source_id for instance in capture.instances} if capture is not None else set()
    named = choose_tables(connection, tables, captured) if tables else ()
    tracking, merged = _UNREAD_TRACKING, None
    with _noting(unread, Code.TRACKING_UNKNOWN):
        tracking = read_tracking(connection, named, source.publication if source is not None else None)
    with _noting(unread, Code.MERGE_UNKNOWN):
        merged = None if tables else access_facts.read_merged(connection)
    is_used = tracking.is_there or (not tables and server_facts.is_used_otherwise(connection))
    is_asked = lake is not None or purpose is Purpose.PUBLISHER
    wants_capture = not is_log_unread and (capture is not None or is_asked or not is_used)
    tracked = {one.table.source_id for one in tracking.tables if one.table is not None}
    is_published_only = capture is not None and not capture.is_enabled
    # The check of delivery reports published tables; nobody asked to capture the others.
    knows_captured = not (is_published_only or is_log_unread or _are_instances_unread(capture))
    chosen = named or (choose_tables(connection, (), captured if wants_capture else tracked) if knows_captured else ())
    return DatabaseFacts(
        server=server,
        role=server_facts.read_role(connection, server.refusal),
        tables=read_table_facts(connection, chosen, named=bool(tables), captured=captured),
        foreign_tables=read_foreign_tables(connection) if not tables and capture is None else (),
        taken_schemas=server_facts.read_taken_schemas(connection) if capture is None and not is_log_unread else (),
        capture=capture,
        wants_capture=wants_capture,
        tracking=tracking,
        places=_read_places(capture, lake),
        copied=copied,
        merged=merged,
        unread=unread,
        place_blockers=find_taken_log_store(f"{lake}/log", server.identity) if lake and capture is None else (),
    )


def _read_work(connection: Connection, url: str, facts: DatabaseFacts) -> tuple[CheckResult, ...]:
    """Return how what rowtide does works, without reading again what the check has read."""
    capture: CaptureFacts | Unread | None = facts.capture
    log_unread = facts.copied or facts.unread.get(Code.LOG_UNKNOWN)
    if log_unread is not None:
        capture = Unread(log_unread)
    tracking_unread = facts.unread.get(Code.TRACKING_UNKNOWN)
    tracking = Unread(tracking_unread) if tracking_unread is not None else facts.tracking
    return tuple(check_work(complete_work(connection, url, facts.server, capture, tracking, facts.places)))


def _check_named_tables(connection: Connection, facts: DatabaseFacts) -> tuple[CheckResult, ...]:
    """Return the results for copies, keys and targets of the tables that the user named."""
    capture, named = facts.capture, {table.table.source_id for table in facts.tables}
    if capture is None:
        return ()
    names = {instance.name for instance in capture.instances if instance.source_id in named}
    return tuple(check_lake(read_lake(connection, capture).of(names))) if names else ()


def _check_as_publisher(
    purpose: Purpose | None, connection: Connection, url: str, tables: Sequence[str], lake: str | None
) -> Checked:
    facts = _read(connection, url, tables, lake, purpose)
    work = _check_named_tables(connection, facts) if tables else _read_work(connection, url, facts)
    return Checked(check_facts(facts, purpose), facts.role.others, work)


def _check_as_monitor(connection: Connection, url: str, tables: Sequence[str], lake: str | None) -> Checked:
    facts = _read(connection, url, tables, lake, Purpose.MONITOR)
    gaps = find_monitor_gaps(connection, facts.role.name)
    own = access.check_monitor(facts.role, gaps, sees_others=server_facts.sees_others(connection))
    found = (*check_facts(facts, Purpose.MONITOR), *own)
    work = _check_named_tables(connection, facts) if tables else _read_work(connection, url, facts)
    return Checked(found, facts.role.others, work)


def _check_as_reader(connection: Connection, url: str, tables: Sequence[str], _lake: str | None) -> Checked:
    role = server_facts.read_role(connection, None)
    facts = access_facts.read_reader(connection, role, tables)
    tracking = read_tracking(connection, facts.named, None)
    tracked = [one.table.source_id for one in tracking.tables if one.table is not None]
    found = access.check_reader(facts, tracking, access_facts.find_unreadable_tables(connection, tracked))
    return Checked(tuple(found), role.others, _check_work(connection, url, tables))


def _check_as_subscriber(connection: Connection, url: str, tables: Sequence[str], _lake: str | None) -> Checked:
    facts = access_facts.read_subscriber(
        connection, server_facts.read_role(connection, None), tables, SUBSCRIBER_SCHEMA
    )
    found = access.check_subscriber(facts, SUBSCRIBER_SCHEMA)
    return Checked(tuple(found), facts.role.others, _check_work(connection, url, tables))


def _check_as_node(connection: Connection, url: str, tables: Sequence[str], _lake: str | None) -> Checked:
    facts = access_facts.read_node(connection, server_facts.read_role(connection, None), tables, MERGE_SCHEMA)
    found = access.check_merge_node(facts, MERGE_SCHEMA)
    return Checked(tuple(found), facts.role.others, _check_work(connection, url, tables))


def _check_as_tracker(connection: Connection, url: str, tables: Sequence[str], _lake: str | None) -> Checked:
    facts = access_facts.read_node(connection, server_facts.read_role(connection, None), tables, TRACKING_SCHEMA)
    found = access.check_tracker(facts, TRACKING_SCHEMA)
    return Checked(tuple(found), facts.role.others, _check_work(connection, url, tables))


def _check_work(connection: Connection, url: str, tables: Sequence[str]) -> tuple[CheckResult, ...]:
    return () if tables else tuple(check_work(read_work(connection, url)))


_CHECKS: Mapping[Purpose | None, _Check] = {
    None: partial(_check_as_publisher, None),
    Purpose.MONITOR: _check_as_monitor,
    Purpose.READER: _check_as_reader,
    Purpose.PUBLISHER: partial(_check_as_publisher, Purpose.PUBLISHER),
    Purpose.SUBSCRIBER: _check_as_subscriber,
    Purpose.MERGE: _check_as_node,
    Purpose.GATEWAY: _check_as_node,
    Purpose.TRACKER: _check_as_tracker,
}


def _are_instances_unread(capture: CaptureFacts | None) -> bool:
    return capture is not None and any(isinstance(one, DefinitionsIncomplete) for one in capture.blockers)


@contextmanager
def _noting(unread: dict[Code, RowtideError], code: Code) -> Iterator[None]:
    """Keep what could not be read: one part of a database must not hide the others."""
    try:
        with translated():
            yield
    except RowtideError as error:
        unread[code] = error


_UNREAD_SUBJECTS = {Code.LOG_UNKNOWN: LOG, Code.TRACKING_UNKNOWN: "tracking", Code.MERGE_UNKNOWN: "merge"}
_UNREAD_TRACKING = TrackingFacts(
    is_there=True,
    is_readable=True,
    has_commit_times=True,
    whole_publications=(),
    refusal=None,
    tables=(),
    candidates=(),
)


def _find_source(connection: Connection) -> tuple[SourceDefinition | None, DatabaseCopied | None]:
    try:
        return find_source(connection, StoreFormat.require_readable), None
    except DatabaseCopied as copied:
        return None, copied


def _read_places(capture: CaptureFacts | None, lake: str | None) -> tuple[Place, ...]:
    if capture is not None:
        return read_places(capture)
    if lake is None:
        return ()
    return (read_place(LAKE, lake, was_made=False),)
