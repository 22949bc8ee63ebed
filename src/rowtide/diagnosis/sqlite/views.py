"""`check` and `health` of a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.sqlite.connect import IN_MEMORY, open_url, path_of
from rowtide.databases.sqlite.errors import translated
from rowtide.diagnosis.codes import ALL_AREAS, Area, Code
from rowtide.diagnosis.errors import NotAPublisher, NothingForLake
from rowtide.diagnosis.merge import MergeFacts, check_merge, read_merge
from rowtide.diagnosis.places import Place, check_room, read_place
from rowtide.diagnosis.purpose import Checked, Purpose
from rowtide.diagnosis.result import CheckResult, Unread, attempt, by_state, if_read, nothing_enabled
from rowtide.diagnosis.sqlite.file_facts import read_all_tracked, read_file
from rowtide.diagnosis.sqlite.files import check_file
from rowtide.diagnosis.tracked_tables import TrackedFacts, check_format, check_tracked, check_tracked_tables
from rowtide.tracking.sqlite import system_tables


@frozen
class SqliteWorkFacts:
    """What rowtide does in a file; `place` is its folder, None for a database in memory."""

    refusal: RowtideError | None
    tracked: tuple[TrackedFacts, ...]
    merge: MergeFacts | Unread | None
    place: Place | None


def read_health(url: str, _areas: Collection[Area] = ALL_AREAS) -> tuple[CheckResult, ...]:
    """Return how what is tracked and merged in a file works, and its disk. Raises `FileNotOpened`, `SqliteTooOld`."""
    with _opened(url) as connection:
        refusal = system_tables.find_refusal(connection)
        tracked = read_all_tracked(connection) if refusal is None else ()
        path = path_of(connection)
    return tuple(check_work(_complete(url, path, refusal, tracked)))


def check(url: str, tables: Sequence[str] = (), lake: str | None = None, purpose: Purpose | None = None) -> Checked:
    """Return what is missing or worth knowing in a file, the worst first; nothing in it is changed.

    Without `tables`: the tracked ones, before enabling all; and how what rowtide does here works. With a purpose, what
    enabling tracking would do is omitted. Raises `TableToTrackNotFound`, `NothingForLake`, `NotAPublisher`,
    `FileNotOpened`, `SqliteTooOld`.
    """
    if lake is not None:
        raise NothingForLake(lake)
    with _opened(url) as connection:
        if purpose is Purpose.PUBLISHER:
            raise NotAPublisher(path_of(connection))
        facts = read_file(connection, tables)
    work = () if tables else tuple(check_work(_complete(url, facts.path, facts.refusal, facts.tracked)))
    if purpose is not None and not tables:
        tracked = {one.tracked.name for one in facts.tracked}
        tables_left = tuple(table for table in facts.tables if table.table.name in tracked)
        facts = replace(facts, tables=tables_left, virtual_tables=())
    return Checked(by_state(check_file(facts)), work=work)


def check_work(facts: SqliteWorkFacts) -> Iterator[CheckResult]:
    """Return how what rowtide does in a file works. Pure."""
    if not (facts.refusal or facts.tracked or facts.merge):
        yield nothing_enabled()
    tables = [(one, tuple(check_tracked(one))) for one in facts.tracked]
    yield from check_tracked_tables(check_format(facts.refusal), tables)
    yield from if_read(facts.merge, Code.MERGE_UNKNOWN, "merge", check_merge)
    if facts.place is not None:
        yield from check_room(facts.place)


@contextmanager
def _opened(url: str) -> Iterator[sqlite3.Connection]:
    """Yield a file in one transaction: what is read of it goes together."""
    with closing(open_url(url)) as connection, translated(path_of(connection)):
        connection.execute("begin")
        yield connection


def _complete(url: str, path: str, refusal: RowtideError | None, tracked: tuple[TrackedFacts, ...]) -> SqliteWorkFacts:
    folder = str(Path(path).parent) if path != IN_MEMORY else None
    return SqliteWorkFacts(
        refusal=refusal,
        tracked=tracked,
        merge=attempt(lambda: read_merge(url)),
        place=read_place("disk", folder, was_made=True) if folder is not None else None,
    )
