"""The check of a database: facts, then what they mean."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import TextInvalid, translated
from rowtide.findings.finding import Finding, Severity, by_severity, of_error
from rowtide.findings.place_facts import LAKE, Place, read_place
from rowtide.findings.place_findings import find_in_places, find_taken
from rowtide.findings.postgres.capture_facts import find_taken_log_store, read_capture, read_places
from rowtide.findings.postgres.capture_findings import find_in_capture
from rowtide.findings.postgres.facts import CaptureFacts, DatabaseFacts
from rowtide.findings.postgres.name_findings import find_in_names, read_names
from rowtide.findings.postgres.role_findings import find_in_role
from rowtide.findings.postgres.server_facts import is_used_otherwise, read_role, read_server, read_taken_schemas
from rowtide.findings.postgres.server_findings import find_in_server
from rowtide.findings.postgres.table_facts import choose_tables, read_foreign_tables, read_table_facts
from rowtide.findings.postgres.table_findings import find_in_tables
from rowtide.findings.postgres.tracking_facts import read_tracking
from rowtide.findings.postgres.tracking_findings import find_in_tracking
from rowtide.log.catalogue import find_source
from rowtide.log.errors import DatabaseCopied
from rowtide.log.source_definition import SourceDefinition


def check(url: str, tables: Sequence[str] = (), lake: str | None = None) -> tuple[Finding, ...]:
    """Return what is missing or worth knowing in a database, the worst first; nothing in it is changed.

    Without `tables`: the captured and the tracked ones, before enabling all of the user's schemas. Raises
    `TableNotFound` and what connecting raises.
    """
    try:
        return find(read_facts(url, tables, lake))
    except TextInvalid:
        found = tuple(find_in_names(read_names(url)))
        if not found:
            raise
        return found


def find(facts: DatabaseFacts) -> tuple[Finding, ...]:
    """Return what the facts mean. Pure."""
    if facts.copied is not None:
        in_copy = of_error(Severity.STOPS, "database", facts.copied)
        return by_severity([in_copy, *find_in_tracking(facts)])
    in_capture = [
        *find_in_server(facts.server, facts.capture),
        *find_in_role(facts),
        *find_in_capture(facts),
        *find_in_places(facts.places),
        *find_taken(facts.place_blockers),
        *find_in_tables(facts),
    ]
    return by_severity([*(in_capture if facts.wants_capture else ()), *find_in_tracking(facts)])


def read_facts(url: str, tables: Sequence[str] = (), lake: str | None = None) -> DatabaseFacts:
    """Read everything that is judged. Raises `TableNotFound` and what connecting raises."""
    engine = open_engine(url, application_name="rowtide check")
    with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        return _read(connection, url, tables, lake)


def _read(connection: Connection, url: str, tables: Sequence[str], lake: str | None) -> DatabaseFacts:
    server = read_server(connection, url)
    source, copied = _find_source(connection)
    capture = read_capture(connection, source, url, may_stream=server.refusal is None) if source is not None else None
    captured = {instance.source_id for instance in capture.instances} if capture is not None else set()
    named = choose_tables(connection, tables, captured) if tables else ()
    tracking = read_tracking(connection, named, source.publication if source is not None else None)
    is_used = tracking.is_there or (not tables and is_used_otherwise(connection))
    wants_capture = capture is not None or lake is not None or not is_used
    tracked = {one.table.source_id for one in tracking.tables if one.table is not None}
    is_published_only = capture is not None and not capture.is_enabled
    # Of tables that are published delivery tells; that others cannot be captured is of no concern.
    chosen = named or (
        choose_tables(connection, (), captured if wants_capture else tracked) if not is_published_only else ()
    )
    return DatabaseFacts(
        server=server,
        role=read_role(connection),
        tables=read_table_facts(connection, chosen, named=bool(tables), captured=captured),
        foreign_tables=read_foreign_tables(connection) if not tables and capture is None else (),
        taken_schemas=read_taken_schemas(connection) if capture is None else (),
        capture=capture,
        wants_capture=wants_capture,
        tracking=tracking,
        places=_read_places(capture, lake),
        copied=copied,
        place_blockers=find_taken_log_store(f"{lake}/log", server.identity) if lake and capture is None else (),
    )


def _find_source(connection: Connection) -> tuple[SourceDefinition | None, DatabaseCopied | None]:
    try:
        return find_source(connection), None
    except DatabaseCopied as copied:
        return None, copied


def _read_places(capture: CaptureFacts | None, lake: str | None) -> tuple[Place, ...]:
    if capture is not None:
        return read_places(capture)
    if lake is None:
        return ()
    return (read_place(LAKE, lake, was_made=False),)
