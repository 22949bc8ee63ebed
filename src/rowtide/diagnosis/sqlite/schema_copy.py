"""The effects of three additional columns on a file's own triggers and views, tried on a copy of its schema in memory.

SQLite itself says which statements it would refuse, and which triggers an update asks: nothing is read out of texts.
Statements that need what the copy cannot have, such as functions or modules of the program, are refused with and
without the columns: they are not reported.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from rowtide.actions.entries import TABLE as ACTIONS
from rowtide.core.values import frozen
from rowtide.databases.sqlite.catalogue import find_table, list_relations
from rowtide.databases.sqlite.sql_text import quote
from rowtide.tracking.options import TrackingOptions
from rowtide.tracking.sqlite.stamps import SqliteRowStamps
from rowtide.tracking.sqlite.tracked_tables import CHANGE_BSN, SqliteSubject

_GENERATED = (2, 3)
OTHER_FEATURES = ("msmerge_", "sysmerge", "msreplication_", "mssnapshot_")
"""Prefixes of names of merge, and of delivery into the file."""
_PREFIXES = ("__sys", ACTIONS, *OTHER_FEATURES)


def is_ours(name: str) -> bool:
    """Return whether a name is one that rowtide gives."""
    return name.lower().startswith(_PREFIXES)


@frozen
class ColumnEffects:
    """What three columns more in a table do to its file's own triggers and views, by their names.

    `broken` triggers and views are an error from then on, `widened` views show the columns, `asked` triggers are of
    any update of a row, of the one that stamps it too.
    """

    broken: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


@frozen
class _Trigger:
    name: str
    relation: str
    sql: str


class SchemaCopy:
    """Tables, indexes and views of a file, without rows and without what tracking made of them."""

    def __init__(self, copy: sqlite3.Connection, triggers: tuple[_Trigger, ...]) -> None:
        self._copy = copy
        self._triggers = triggers
        self._writes = {trigger.relation: tuple(self._write(trigger.relation)) for trigger in triggers}
        self._refusals = {trigger: self._refuse_writes(trigger) for trigger in triggers}
        self._views = self._read_views()

    def find_effects(self, table: str) -> ColumnEffects:
        """Return what stamps in the rows of a table would do."""
        found = find_table(self._copy, table)
        if found is None or not (self._triggers or self._views):
            return ColumnEffects()
        self._copy.execute("begin")
        try:
            for statement in SqliteRowStamps(SqliteSubject(found, (), TrackingOptions.ALL)).creations():
                self._copy.execute(statement)
            return self._compare(table)
        finally:
            self._copy.execute("rollback")

    def _compare(self, table: str) -> ColumnEffects:
        views, refusals = self._read_views(), {trigger: self._refuse_writes(trigger) for trigger in self._triggers}
        changed = [name for name, columns in self._views.items() if columns is not None and views[name] != columns]
        broken = [
            trigger.name
            for trigger, before in self._refusals.items()
            if any(is_new and not was for was, is_new in zip(before, refusals[trigger], strict=True))
        ]
        return ColumnEffects(
            broken=(*broken, *(name for name in changed if views[name] is None)),
            widened=tuple(name for name in changed if views[name] is not None),
            asked=tuple(trigger.name for trigger in self._triggers if self._is_asked(trigger, table)),
        )

    def _read_views(self) -> dict[str, tuple[str, ...] | None]:
        """Return the columns of each view, None where SQLite cannot determine them."""
        names = [name for name, kind in list_relations(self._copy).items() if kind == "view"]
        return {name: self._read_columns(name) for name in names}

    def _read_columns(self, relation: str) -> tuple[str, ...] | None:
        if _refuses(self._copy, f"explain select * from {quote(relation)}"):
            return None
        return tuple(row[1] for row in self._copy.execute(f"pragma main.table_xinfo({quote(relation)})"))

    def _write(self, relation: str) -> Iterator[str]:
        """Yield statements that between them ask every trigger of a table or view."""
        if self._read_columns(relation) is None:
            return
        described = self._copy.execute(f"pragma main.table_xinfo({quote(relation)})").fetchall()
        columns = [quote(name) for _, name, _, _, _, _, hidden in described if hidden not in _GENERATED]
        yield f"insert into {quote(relation)} ({columns[0]}) values (null)"
        yield f"update {quote(relation)} set {', '.join(f'{column} = null' for column in columns)}"
        yield f"delete from {quote(relation)}"

    def _refuse_writes(self, trigger: _Trigger) -> tuple[bool, ...]:
        """Return which of the writes SQLite refuses while there is this trigger alone."""
        with self._made(trigger):
            return tuple(_refuses(self._copy, f"explain {write}") for write in self._writes[trigger.relation])

    def _is_asked(self, trigger: _Trigger, table: str) -> bool:
        """Whether SQLite takes a trigger into the statement that stamps rows."""
        taken: set[str | None] = set()

        def note(_action: int, _one: str | None, _two: str | None, _database: str | None, within: str | None) -> int:
            taken.add(within)
            return sqlite3.SQLITE_OK

        with self._made(trigger):
            self._copy.set_authorizer(note)
            _refuses(self._copy, f"explain update {quote(table)} set {CHANGE_BSN} = 1")
            self._copy.set_authorizer(None)
        return trigger.name in taken

    @contextmanager
    def _made(self, trigger: _Trigger) -> Iterator[None]:
        _refuses(self._copy, trigger.sql)
        try:
            yield
        finally:
            self._copy.execute(f"drop trigger if exists {quote(trigger.name)}")


@contextmanager
def copied_schema(connection: sqlite3.Connection) -> Iterator[SchemaCopy]:
    """Yield a copy of the schema of a file."""
    statement = "select type, name, tbl_name, sql from main.sqlite_schema where sql is not null order by rowid"
    made: dict[str, list[tuple[str, str, str]]] = {"table": [], "index": [], "view": [], "trigger": []}
    shadows = {name for name, kind in list_relations(connection).items() if kind == "shadow"}
    for kind, name, relation, sql in connection.execute(statement):
        if not (is_ours(name) or name.startswith("sqlite_") or name in shadows):
            made[kind].append((name, relation, sql))
    # Without cached statements: what SQLite made of a text before is not what it makes of it now.
    with closing(sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)) as copy:
        for kind in ("table", "index"):
            _create(copy, made[kind])
        for name, _, _ in made["table"]:
            _remove_stamps(copy, name)
        _create(copy, made["view"])
        yield SchemaCopy(copy, tuple(_Trigger(*trigger) for trigger in made["trigger"]))


def _create(copy: sqlite3.Connection, made: list[tuple[str, str, str]]) -> None:
    for _, _, sql in made:
        _refuses(copy, sql)


def _remove_stamps(copy: sqlite3.Connection, name: str) -> None:
    table = find_table(copy, name)
    if table is not None:
        for statement in SqliteRowStamps(SqliteSubject(table, (), TrackingOptions.ALL)).removals():
            _refuses(copy, statement)


def _refuses(copy: sqlite3.Connection, statement: str) -> bool:
    """Run a statement; return whether SQLite refuses it."""
    try:
        copy.execute(statement).close()
    except sqlite3.DatabaseError:
        return True
    return False
