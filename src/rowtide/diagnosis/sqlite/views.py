"""`check` and `health` of a SQLite file."""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import Table, find_table, list_relations
from rowtide.databases.sqlite.connect import IN_MEMORY, open_url, path_of
from rowtide.databases.sqlite.errors import translated
from rowtide.diagnosis.codes import ALL_AREAS, Area, Code
from rowtide.diagnosis.errors import NotAPublisher, NothingForLake
from rowtide.diagnosis.merge import MergeFacts, check_merge, read_merge
from rowtide.diagnosis.places import ANYONE_ELSE, Place, check_room, read_place
from rowtide.diagnosis.result import (
    Advice,
    Checked,
    CheckResult,
    Remediation,
    ShellCommand,
    Sql,
    Unread,
    attempt,
    by_state,
    failing,
    format_names,
    if_read,
    note,
    nothing_enabled,
    warning,
)
from rowtide.diagnosis.sqlite.schema_copy import OTHER_FEATURES, ColumnEffects, SchemaCopy, copied_schema, is_ours
from rowtide.diagnosis.tracked_tables import (
    NO_TOMBSTONES,
    OLD_DAYS,
    Tombstones,
    TrackedFacts,
    TrackingLoss,
    check_format,
    check_tracked,
    check_tracked_tables,
    enable,
    move_beside,
)
from rowtide.merge.definitions import publications, replinfo
from rowtide.replication.targets.sqlite.progress import SUBSCRIPTIONS
from rowtide.rights.purpose import Purpose
from rowtide.tracking.errors import TableToTrackNotFound
from rowtide.tracking.options import Storage, TrackedTable, TrackingKeyType
from rowtide.tracking.sqlite import system_tables
from rowtide.tracking.sqlite.system_tables import TOMBSTONES, find_loss, find_refusal, list_tracked
from rowtide.tracking.sqlite.tracked_tables import key_of

_TABLE = "table"
_VIRTUAL = "virtual"


@frozen
class SqliteTableFacts:
    """A table that is tracked or may come to be; `tracked` says how, None while it is not."""

    table: Table
    tracked: TrackedTable | None
    effects: ColumnEffects


@frozen
class FileFacts:
    """Everything that is checked.

    `refusal` says why this build does not use what is tracked. `untrackable` are relations that the
    user named, with their kinds; `virtual_tables` are looked at where nobody named any. `journal_mode` is None of a
    database in memory. Others than its user may read the file at `path` by its `mode`, None of a database in memory;
    one that `is_subscriber`, of a publication or of merge, was made by rowtide as a rule.
    """

    path: str
    mode: int | None
    is_subscriber: bool
    journal_mode: str | None
    refusal: RowtideError | None
    tracked: tuple[TrackedFacts, ...]
    tables: tuple[SqliteTableFacts, ...]
    untrackable: Mapping[str, str]
    virtual_tables: tuple[str, ...]


def read_file(connection: sqlite3.Connection, names: Sequence[str]) -> FileFacts:
    """Return what is to be checked: of the named tables, else of the tracked ones, before enabling of all.

    Of a file that is merged or delivered into, and not tracked, none: nobody asked for tracking.
    Raises `TableToTrackNotFound`.
    """
    relations = list_relations(connection)
    refusal = find_refusal(connection)
    tracked = {one.name: one for one in list_tracked(connection)} if refusal is None else {}
    chosen = tuple(_choose(names, relations, tracked))
    is_named = bool(names)
    path = path_of(connection)
    return FileFacts(
        path=path,
        mode=Path(path).stat().st_mode if path != IN_MEMORY else None,
        is_subscriber=_is_subscriber(connection, relations),
        journal_mode=_read_journal_mode(connection),
        refusal=refusal,
        tracked=tuple(_read_tracked(connection, [one for one in tracked.values() if one.name in chosen])),
        tables=tuple(_read_tables(connection, [name for name in chosen if relations.get(name) == _TABLE], tracked)),
        untrackable={name: relations[name] for name in chosen if is_named and relations.get(name, _TABLE) != _TABLE},
        virtual_tables=tuple(name for name, kind in relations.items() if kind == _VIRTUAL and not (tracked or names)),
    )


def _is_subscriber(connection: sqlite3.Connection, relations: Collection[str]) -> bool:
    """Return whether changes are delivered into the file, or it merges with a hub that is another node."""
    if SUBSCRIPTIONS in relations:
        return True
    if not {publications.name, replinfo.name} <= set(relations):
        return False
    hubs = f"select 1 from {publications.name} where publisher not in (select nickname from {replinfo.name})"
    return connection.execute(hubs).fetchone() is not None


def read_all_tracked(connection: sqlite3.Connection) -> tuple[TrackedFacts, ...]:
    """Return the facts of all tracked tables, which have a format that this build reads."""
    return tuple(_read_tracked(connection, list_tracked(connection)))


def _choose(names: Sequence[str], relations: Collection[str], tracked: Collection[str]) -> Iterator[str]:
    """Yield the names of the tables to look at as the file has them; a tracked one may have been dropped."""
    known = {name.lower(): name for name in (*tracked, *relations) if not is_ours(name)}
    for name in names:
        if name.lower() not in known:
            raise TableToTrackNotFound(name)
        yield known[name.lower()]
    if not names and (tracked or not _is_used_otherwise(relations)):
        yield from tracked or known.values()


def _is_used_otherwise(names: Iterable[str]) -> bool:
    """Return whether the tables of a file say that it is merged, or that changes are delivered into it."""
    return any(name.lower().startswith(OTHER_FEATURES) for name in names)


def _read_journal_mode(connection: sqlite3.Connection) -> str | None:
    if path_of(connection) == IN_MEMORY:
        return None
    return str(connection.execute("pragma main.journal_mode").fetchone()[0])


def _read_tracked(connection: sqlite3.Connection, tracked: Sequence[TrackedTable]) -> Iterator[TrackedFacts]:
    tombstones = _read_tombstones(connection) if tracked else {}
    for one in tracked:
        yield TrackedFacts(one, _read_loss(connection, one), tombstones.get(one.name, NO_TOMBSTONES))


def _read_loss(connection: sqlite3.Connection, tracked: TrackedTable) -> TrackingLoss | None:
    now = find_loss(connection, replace(tracked, lost_time=None))
    if now is None and tracked.lost_time is None:
        return None
    table = find_table(connection, tracked.name)
    return TrackingLoss(
        why=now.what if now is not None else "what was missing is there again, but it has not been resumed",
        since=tracked.lost_time,
        is_dropped=table is None,
        lacks_key=table is not None and not key_of(table, tracked.key_type),
    )


def _read_tombstones(connection: sqlite3.Connection) -> dict[str, Tombstones]:
    ages = f"select __sysTN as name, julianday('now') - __sysDeletedTime as days from {TOMBSTONES}"
    statement = f"select name, count(*), sum(days >= {OLD_DAYS}), max(days) from ({ages}) group by name"
    return {name: Tombstones(*counted) for name, *counted in connection.execute(statement)}


def _read_tables(
    connection: sqlite3.Connection, names: Sequence[str], tracked: dict[str, TrackedTable]
) -> Iterator[SqliteTableFacts]:
    with copied_schema(connection) as copy:
        for table in filter(None, (find_table(connection, name) for name in names)):
            how = tracked.get(table.name)
            yield SqliteTableFacts(table, how, _find_effects(copy, table, how))


def _find_effects(copy: SchemaCopy, table: Table, tracked: TrackedTable | None) -> ColumnEffects:
    """Return what columns do that are there, or would be."""
    is_beside = tracked is not None and tracked.storage is Storage.SIDE
    return ColumnEffects() if is_beside else copy.find_effects(table.name)


def check_table(facts: SqliteTableFacts) -> Iterator[CheckResult]:
    """Check one table, whose tracking is not lost."""
    key_type = _key_type(facts)
    subject = f"table {facts.table.name}"
    if key_type is None or (facts.tracked is None and key_type is TrackingKeyType.ROWGUID):
        message = "it has no primary key, which would identify its rows"
        yield warning(Code.TRACKING_KEY_MISSING, subject, message, _remediate_key(facts, key_type))
    if key_type is None:
        return
    nullable = tuple(column.name for column in key_of(facts.table, key_type) if column.is_nullable)
    if nullable:
        yield _check_nulls(subject, nullable)
    if facts.effects != ColumnEffects():
        felt = "; ".join(_describe_effects(facts.effects))
        message = f"the columns that tracking adds to a table are felt here: {felt}"
        yield warning(Code.TRACKING_COLUMNS_FELT, subject, message, _keep_beside(facts, key_type))


def _key_type(facts: SqliteTableFacts) -> TrackingKeyType | None:
    """Return by what a table is tracked, or could be, the primary key first."""
    if facts.tracked is not None:
        return facts.tracked.key_type
    return next((key_type for key_type in TrackingKeyType if key_of(facts.table, key_type)), None)


def _remediate_key(facts: SqliteTableFacts, key_type: TrackingKeyType | None) -> Remediation:
    if key_type is not None:
        return _keep_beside(facts, key_type) if facts.effects != ColumnEffects() else _enable(facts, key_type)
    advice = (
        "Re-create the table with a primary key; or give it a unique column rowguid, not null, that every program "
        "fills, and track it with --key rowguid."
    )
    return Advice(advice)


def _check_nulls(subject: str, columns: tuple[str, ...]) -> CheckResult:
    message = f"its key may be null ({format_names(columns)}): rows with a null in it cannot be identified"
    advice = "Re-create the table with a key that is not null, if programs leave it out."
    return warning(Code.TRACKING_KEY_NULLABLE, subject, message, advice)


def _describe_effects(effects: ColumnEffects) -> Iterator[str]:
    if effects.broken:
        names = format_names(effects.broken)
        yield f"SQLite refuses statements of {names}, which rely on the number of its columns"
    if effects.widened:
        yield f"{format_names(effects.widened)} would show them, with select *"
    if effects.asked:
        yield f"{format_names(effects.asked)}, a trigger of every update, is asked when a row is stamped too"


def _keep_beside(facts: SqliteTableFacts, key_type: TrackingKeyType) -> ShellCommand:
    if facts.tracked is not None:
        return move_beside(facts.tracked, facts.table.name)
    return enable(facts.table.name, key_type=key_type, storage=Storage.SIDE)


def _enable(facts: SqliteTableFacts, key_type: TrackingKeyType) -> ShellCommand:
    return enable(facts.table.name, key_type=key_type)


_WRITE_AHEAD = (None, "wal")
_KINDS = {"view": "a view", "virtual": "a virtual table", "shadow": "where a virtual table keeps its rows"}


def check_file(facts: FileFacts) -> Iterator[CheckResult]:
    """Check the file and its tables."""
    yield from _check_untrackable(facts)
    yield from _check_journal(facts)
    yield from _check_mode(facts)
    yield from check_format(facts.refusal)
    for tracked in facts.tracked:
        yield from check_tracked(tracked)
    lost = {tracked.tracked.name for tracked in facts.tracked if tracked.loss is not None}
    for table in facts.tables:
        if table.table.name not in lost and facts.refusal is None:
            yield from check_table(table)


def _check_untrackable(facts: FileFacts) -> Iterator[CheckResult]:
    for name, kind in facts.untrackable.items():
        message = f"it cannot be tracked: it is {_KINDS[kind]}, on which SQLite has no triggers of rows"
        yield failing(Code.TRACKING_REFUSED, f"table {name}", message, "Track the tables that its rows come from.")
    if facts.virtual_tables:
        message = f"{format_names(facts.virtual_tables)} cannot be tracked: SQLite has no triggers on virtual tables"
        yield note(Code.VIRTUAL_TABLES, "virtual tables", message)


def _check_mode(facts: FileFacts) -> Iterator[CheckResult]:
    """Warn of a subscriber, which is a copy, that every user of the machine may read; of another file report it."""
    if facts.mode is not None and facts.mode & ANYONE_ELSE:
        as_bad = warning if facts.is_subscriber else note
        message = f"every user of this machine can read {facts.path}: its mode is {facts.mode & 0o777:o}"
        yield as_bad(Code.PLACE_PUBLIC, "file", message, ShellCommand(f"chmod o= {shlex.quote(facts.path)}"))


def _check_journal(facts: FileFacts) -> Iterator[CheckResult]:
    if facts.journal_mode not in _WRITE_AHEAD:
        message = (
            f"its journal is of the mode {facts.journal_mode}: programs that write wait while changes are enumerated, "
            "until these are in a temporary table"
        )
        when = "at a moment when no other program has it open; not for files on network file systems"
        yield warning(Code.FILE_JOURNAL, "file", message, Sql(("pragma journal_mode = wal;",), when))


@frozen
class SqliteWorkFacts:
    """What rowtide does in a file; `place` is its folder, None for a database in memory."""

    refusal: RowtideError | None
    tracked: tuple[TrackedFacts, ...]
    merge: MergeFacts | Unread | None
    place: Place | None


def read_health(url: str, _areas: Collection[Area] = ALL_AREAS) -> tuple[CheckResult, ...]:
    """Return how what is tracked and merged in a file works, and its disk. Raises `FileNotOpened`, `SqliteTooOld`."""
    return tuple(check_work(read_work(url)))


def read_work(url: str) -> SqliteWorkFacts:
    """Return what rowtide does in a file. Raises `FileNotOpened`, `SqliteTooOld`."""
    with _opened(url) as connection:
        refusal = system_tables.find_refusal(connection)
        tracked = read_all_tracked(connection) if refusal is None else ()
        path = path_of(connection)
    return _complete(url, path, refusal, tracked)


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
