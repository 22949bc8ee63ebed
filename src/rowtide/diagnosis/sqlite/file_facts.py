"""What a check knows of a SQLite file, and reading it."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import Table, find_table, list_relations
from rowtide.databases.sqlite.connect import IN_MEMORY, path_of
from rowtide.diagnosis.sqlite.schema_copy import OTHERS, ColumnEffects, SchemaCopy, copied_schema, is_ours
from rowtide.diagnosis.tracked_tables import NO_TOMBSTONES, OLD_DAYS, Tombstones, TrackedFacts, TrackingLoss
from rowtide.merge.definitions import publications, replinfo
from rowtide.replication.targets.sqlite.progress import SUBSCRIPTIONS
from rowtide.tracking.errors import TableToTrackNotFound
from rowtide.tracking.options import Storage, TrackedTable
from rowtide.tracking.sqlite.subjects import key_of
from rowtide.tracking.sqlite.system_tables import TOMBSTONES, find_refusal, list_tracked
from rowtide.tracking.sqlite.triggers import find_loss

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
    """Tell whether changes are delivered into the file, or it merges with a hub that is another node."""
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
    """Tell whether the tables of a file say that it is merged, or that changes are delivered into it."""
    return any(name.lower().startswith(OTHERS) for name in names)


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
