"""A replica that is built from enumerations alone equals the SQLite table at every synchronisation.

And no change comes twice or without need: an insert is of a row that the replica lacks, an update or delete of one
that it has.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sized
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import hypothesis.strategies as st
from hypothesis import assume, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from builders.tracking.tracking_replicas import Replica, Row, images
from rowtide.core.anchors import UnknownAnchor
from rowtide.tracking import ChangeTracking, NetOperation, PurgeType, Storage
from rowtide.tracking.errors import AnchorTooOld, TrackingKeyShared

TABLES = {
    "rowid key": "create table t (k integer primary key, u text unique, v integer)",
    "text key": "create table t (k text primary key collate nocase, u text, v integer, packed text default 't61');"
    "create unique index t_u on t (lower(u), v desc) where v > 1",
    "two columns without rowid": "create table t (k text, j integer, u text unique on conflict replace, v integer,"
    "primary key (k, j)) without rowid",
    "shadowed rowid": "create table t (rowid integer, k blob not null, u text not null default 'a' unique, v any,"
    "primary key (k)) strict",
    "any key": "create table t (k any primary key, u text unique, v integer) strict",
    "integer key with nulls": "create table t (k integer primary key desc, u text unique, v integer)",
    "generated unique": "create table t (k integer primary key, u text, v integer, low text as (lower(u)) unique)",
}
KEYS = {form: ("k", "j") if form == "two columns without rowid" else ("k",) for form in TABLES}
VALUES = {
    "rowid key": st.integers(1, 4),
    "text key": st.sampled_from(["a", "A", "b", "\x00", "é", "", None]),
    "two columns without rowid": st.sampled_from(["a", "b"]),
    "shadowed rowid": st.sampled_from([b"", b"\x00", b"a"]),
    "any key": st.sampled_from([1, "1", 1.5, "a", b"a"]),
    "integer key with nulls": st.sampled_from([1, 2, None]),
    "generated unique": st.integers(1, 4),
}
CONFLICTS = st.sampled_from(["", "or replace", "or ignore", "or fail", "or abort", "or rollback"])
TEXTS = st.sampled_from(["a", "A", "b", None])
SMALL = st.integers(1, 3)


class Tracked(RuleBasedStateMachine):
    """Programs that know nothing of rowtide write; replicas synchronise at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "file.db"
        self.backups = 0

    def teardown(self) -> None:
        self.program.close()
        self.connection.close()
        shutil.rmtree(self.folder)

    @initialize(
        form=st.sampled_from(sorted(TABLES)),
        storage=st.sampled_from(Storage),
        journal=st.sampled_from(["wal", "delete"]),
        is_recursive=st.booleans(),
    )
    def enable(self, form: str, storage: Storage, journal: str, is_recursive: bool) -> None:  # noqa: FBT001
        self.form, self.storage, self.is_recursive = form, storage, is_recursive
        self.key = KEYS[form]
        self.open()
        self.program.execute(f"pragma journal_mode = {journal}")
        self.program.executescript(TABLES[form])
        self.tracking.enable_tracking("t", storage=storage)
        self.replicas = [Replica(self.tracking, self.key, context) for context in (None, None, uuid4())]

    def open(self) -> None:
        self.program = sqlite3.connect(self.path, isolation_level=None, timeout=0)
        self.program.execute(f"pragma recursive_triggers = {self.is_recursive}")
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.tracking = ChangeTracking(self.connection)

    def run(self, statement: str, *values: object) -> None:
        """Let a program run a statement; a constraint may stop it, whatever it was."""
        with suppress(sqlite3.IntegrityError):
            self.program.execute(statement, values)

    def insert(self, data: st.DataObject) -> None:
        names = (*self.key, "u", "v")
        conflict = data.draw(CONFLICTS)
        self.run(f"insert {conflict} into t ({', '.join(names)}) values ({places(names)})", *self.row(data))

    def upsert(self, data: st.DataObject) -> None:
        self.run(self.upsert_statement, *self.row(data))

    def update(self, data: st.DataObject) -> None:
        values = data.draw(TEXTS), data.draw(SMALL), data.draw(VALUES[self.form])
        self.run(f"update {data.draw(CONFLICTS)} t set u = ?, v = ? where k = ?", *values)

    def update_some(self, data: st.DataObject) -> None:
        self.run(f"update {data.draw(CONFLICTS)} t set v = v + 1 where v >= ?", data.draw(SMALL))

    def change_key(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(["k", "rowid", "_rowid_"])) if self.form == "rowid key" else "k"
        values = data.draw(VALUES[self.form]), data.draw(VALUES[self.form])
        self.run(f"update {data.draw(CONFLICTS)} t set {name} = ? where k = ?", *values)

    def change_rowid(self, data: st.DataObject) -> None:
        if self.form in ("text key", "shadowed rowid"):
            values = data.draw(st.integers(1, 4)), data.draw(VALUES[self.form])
            self.run(f"update {data.draw(CONFLICTS)} t set _rowid_ = ? where k = ?", *values)

    def delete(self, data: st.DataObject) -> None:
        self.run("delete from t where k = ?", data.draw(VALUES[self.form]))

    def delete_all(self, data: st.DataObject) -> None:
        self.run("delete from t")

    WRITES = (insert, insert, insert, upsert, update, update, update_some, change_key, change_rowid, delete, delete_all)

    def row(self, data: st.DataObject) -> tuple[object, ...]:
        more = [data.draw(SMALL)] if len(self.key) == 2 else []
        return data.draw(VALUES[self.form]), *more, data.draw(TEXTS), data.draw(SMALL)

    @property
    def upsert_statement(self) -> str:
        names = (*self.key, "u", "v")
        return (
            f"insert into t ({', '.join(names)}) values ({places(names)}) "
            f"on conflict ({', '.join(self.key)}) do update set u = excluded.u, v = excluded.v"
        )

    @rule(data=st.data(), writes=st.lists(st.sampled_from(WRITES), min_size=1, max_size=4))
    def write(self, data: st.DataObject, writes: list[Callable[[Tracked, st.DataObject], None]]) -> None:
        """Write in transactions of their own."""
        for write in writes:
            write(self, data)

    @rule(
        data=st.data(),
        kept=st.lists(st.sampled_from(WRITES), max_size=3),
        undone=st.lists(st.sampled_from(WRITES), max_size=2),
        last=st.sampled_from(["commit", "commit", "rollback"]),
    )
    def write_at_once(
        self,
        data: st.DataObject,
        kept: list[Callable[[Tracked, st.DataObject], None]],
        undone: list[Callable[[Tracked, st.DataObject], None]],
        last: str,
    ) -> None:
        """Write in one transaction, with a part that is undone; `or rollback` may have ended it before."""
        self.program.execute("begin")
        for write in kept:
            write(self, data)
        if self.program.in_transaction:
            self.program.execute("savepoint s")
        for write in undone:
            write(self, data)
        if self.program.in_transaction:
            self.program.execute("rollback to s")
            self.program.execute(last)

    @rule(data=st.data(), operation=st.sampled_from(NetOperation))
    def upload(self, data: st.DataObject, operation: NetOperation) -> None:
        """The replica with a context writes to the table what it writes to its own copy, and leaves that out later."""
        replica = self.replicas[2]
        assume(replica.anchor is not None)
        row = dict(zip((*self.key, "u", "v"), self.row(data), strict=True))
        key = [row[name] for name in self.key]
        # Of rows that share a key the reader that wrote one could not tell which is left.
        assume(None not in key)
        where = f"where {' and '.join(f'{name} = ?' for name in self.key)} returning *"
        try:
            with self.tracking.transaction(replica.context, seen=replica.anchor) as transaction:
                match operation:
                    case NetOperation.DELETE:
                        gone = self.rows(self.connection.execute(f"delete from t {where}", key))
                        replica.drop(map(replica.key_of, gone))
                    case NetOperation.UPDATE:
                        changed = self.rows(self.connection.execute(f"update t set v = ? {where}", [row["v"], *key]))
                        for image in changed:
                            replica.amend([replica.key_of(image)], {"v": image["v"]})
                    case NetOperation.INSERT:
                        statement = f"{self.upsert_statement} returning *"
                        replica.put(self.rows(self.connection.execute(statement, [*row.values()])))
        except sqlite3.IntegrityError:
            return
        except UnknownAnchor:
            replica.anchor = None
        else:
            replica.anchor = transaction.anchor

    def read(self) -> list[Row]:
        return self.rows(self.program.execute("select * from t"))

    def rows(self, cursor: sqlite3.Cursor) -> list[Row]:
        rows = cursor.fetchall()
        return images((name for name, *_ in cursor.description), rows)

    @rule(number=st.integers(0, 2))
    def synchronise(self, number: int) -> None:
        replica = self.replicas[number]
        try:
            replica.synchronise()
        except (AnchorTooOld, UnknownAnchor):
            replica.anchor = None
            return
        except TrackingKeyShared:
            keys = [replica.key_of(row) for row in self.read()]
            assert len(set(keys)) < len(keys)
            return
        replica.assert_equals(self.read())
        anchor = replica.anchor
        assert replica.synchronise() == 0
        assert replica.anchor == anchor

    def purge(self, data: st.DataObject) -> None:
        purges = [(PurgeType.TIME_BASED, 0), (PurgeType.CSN_BASED, 3), (PurgeType.CSN_BASED, 6)]
        self.tracking.purge_tombstone_table_data("t", *data.draw(st.sampled_from(purges)))

    def enable_again(self, data: st.DataObject) -> None:
        self.tracking.disable_tracking("t")
        self.tracking.enable_tracking("t", storage=self.storage)

    def back_up(self, data: st.DataObject) -> None:
        self.backups += 1
        with closing(sqlite3.connect(self.folder / f"backup-{self.backups}")) as copy:
            self.program.backup(copy)

    def restore(self, data: st.DataObject) -> None:
        if self.backups:
            with closing(sqlite3.connect(self.folder / f"backup-{data.draw(st.integers(1, self.backups))}")) as backup:
                before = self.added
                backup.backup(self.program)
            if self.added != before:
                for replica in self.replicas:
                    replica.anchor = None

    @property
    def added(self) -> list[str]:
        """The columns that the table did not have at first."""
        columns = self.program.execute("select name from pragma_table_info('t') where name like 'added%'")
        return [name for (name,) in columns]

    def add_column(self, data: st.DataObject) -> None:
        """Existing rows get the default, as they would in the replicas' own tables."""
        name, value = f"added{len(self.added)}", data.draw(SMALL)
        self.program.execute(f"alter table t add column {name} integer default {value}")
        for replica in self.replicas:
            replica.amend([*replica.rows], {name: value})

    def set_column(self, data: st.DataObject) -> None:
        for name in self.added:
            self.run(f"update t set {name} = ? where v >= ?", data.draw(SMALL), data.draw(SMALL))

    def rename_column(self, data: st.DataObject) -> None:
        for name in self.added[:1]:
            self.program.execute(f"alter table t rename column {name} to {name}x")
            for row in (row for replica in self.replicas for row in replica.rows.values()):
                row[f"{name}x"] = row.pop(name)

    def drop_column(self, data: st.DataObject) -> None:
        for name in self.added[-1:]:
            self.program.execute(f"alter table t drop column {name}")
            for row in (row for replica in self.replicas for row in replica.rows.values()):
                del row[name]

    ALTERATIONS = (add_column, set_column, set_column, rename_column, drop_column)

    @rule(data=st.data(), event=st.sampled_from([purge, enable_again, back_up, restore, *ALTERATIONS]))
    def let_happen(self, data: st.DataObject, event: Callable[[Tracked, st.DataObject], None]) -> None:
        event(self, data)


def places(values: Sized) -> str:
    return ", ".join("?" * len(values))


TestTracked = Tracked.TestCase
TestTracked.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
