"""A replica that is built from enumerations alone equals the PostgreSQL table at every synchronisation.

Sessions that know nothing of rowtide have their transactions open at once, and commit in any order. No change comes
twice or without need, anchors' numbers rise, and a transaction's number says before which anchors it committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from itertools import count
from typing import ClassVar
from uuid import UUID, uuid4

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import Phase, assume, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from psycopg.errors import (
    CheckViolation,
    DeadlockDetected,
    LockNotAvailable,
    ObjectInUse,
    SerializationFailure,
    UniqueViolation,
)
from psycopg.pq import TransactionStatus

from builders.tracking.tracking_replicas import Replica, Row, images
from fixtures.tracked import POSTGRES_STORAGES
from rowtide.core.anchors import UnknownAnchor
from rowtide.databases.postgres import alterations, connect
from rowtide.databases.postgres.errors import LockNotObtained, UnexpectedSqlError
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS
from rowtide.tracking import Anchor, ChangeTracking, PurgeType, Storage, TrackingKeyType
from rowtide.tracking.errors import AnchorTooOld, TrackingLost

REFUSED = (CheckViolation, DeadlockDetected, LockNotAvailable, ObjectInUse, SerializationFailure, UniqueViolation)
"""What ends a transaction that is in another's way, or in its own by a constraint that waits; else it is a fault."""
LOCK_TIMEOUT = "5ms"
SMALL = st.integers(1, 3)
TOMBSTONES = 'select "__sysDeleteTxBsn" as bsn from rowtide_tracking."__sysOCSDeletedRows"'
ROWS = 'select "__sysChangeTxBsn" from t where "__sysChangeTxBsn" is not null'
MISPLACED = """
with numbered as (
    select bsn, coalesce("__sysTxCsn", bsn) as csn
    from ({stamps}) s left join rowtide_tracking."__sysTxCommitSequence" on bsn = "__sysTxBsn")
select * from numbered, rowtide_tracking."__sysAnchors" a
where pg_visible_in_snapshot(bsn::text::xid8, (
    select "__sysSnapshot" from rowtide_tracking."__sysAnchors" order by "__sysCsn" desc limit 1))
and pg_visible_in_snapshot(bsn::text::xid8, a."__sysSnapshot") <> (csn <= a."__sysCsn")
"""
"""Transactions, of those that have their numbers, that are on the wrong side of an anchor."""


@dataclass(frozen=True)
class Form:
    """A kind of table: its key comes first, then `u` and `v`; `relations` are where it is written."""

    ddl: str
    key: dict[str, st.SearchStrategy[object]]
    others: dict[str, st.SearchStrategy[object]] = field(default_factory=dict)
    relations: tuple[str, ...] = ("t",)
    key_type: TrackingKeyType = TrackingKeyType.PRIMARY_KEY

    @property
    def columns(self) -> dict[str, st.SearchStrategy[object]]:
        return {**self.key, **self.others, "u": st.sampled_from(["a", "A", "b", None]), "v": SMALL}


FORMS = {
    "one column": Form(
        "create table t (k int primary key, u text unique, v int, packed text[] default '{1}')",
        {"k": st.integers(1, 4)},
    ),
    "constraint checked at commit": Form(
        "create table t (k int primary key, u text unique deferrable initially deferred, v int)",
        {"k": st.integers(1, 4)},
    ),
    "text": Form(
        "create table t (k text primary key, u text unique, v int)",
        {"k": st.sampled_from(["a", "A", "b", "", "é", "a,\"{}\\'"])},
    ),
    "numbers of one value and two texts": Form(
        "create table t (k numeric primary key, u text, v int, unique (u, v))",
        {"k": st.sampled_from([Decimal("1.0"), Decimal("1.00"), Decimal(2)])},
    ),
    "two columns": Form(
        "create table t (k text, j int, u text unique, v int, primary key (k, j))",
        {"k": st.sampled_from(["a", "b"]), "j": SMALL},
    ),
    "partitions": Form(
        "create table t (k int, j int, u text, v int, primary key (k, j)) partition by list (j);"
        "create table t1 partition of t for values in (1); create table t2 partition of t for values in (2);"
        "create table t3 partition of t for values in (3) partition by hash (k);"
        "create table t3a partition of t3 for values with (modulus 2, remainder 0);"
        "create table t3b partition of t3 for values with (modulus 2, remainder 1)",
        {"k": st.integers(1, 3), "j": SMALL},
        relations=("t", "t", "t1", "t2", "t3", "t3a"),
    ),
    "rowguid": Form(
        "create table t (rowguid uuid not null unique, id int primary key, u text, v int)",
        {"rowguid": st.sampled_from([UUID(int=number) for number in (1, 2, 3)])},
        {"id": SMALL},
        key_type=TrackingKeyType.ROWGUID,
    ),
}


@dataclass
class Session:
    """A connection of a program's."""

    connection: psycopg.Connection
    has_savepoint: bool = False

    @property
    def is_open(self) -> bool:
        return self.connection.info.transaction_status is not TransactionStatus.IDLE

    def run(self, statement: str, *values: object) -> None:
        """Run a statement. Where it is refused, the transaction goes back to its savepoint, or all the way."""
        try:
            self.connection.execute(statement.encode(), values or None)
        except REFUSED:
            if self.is_open:
                self.connection.execute("rollback to s" if self.has_savepoint else "rollback")

    def end(self, statement: str) -> None:
        """End the transaction; a constraint that is checked only now may refuse it."""
        self.has_savepoint = False
        self.run(statement)


Action = Callable[["Tracked", Session, st.DataObject], None]


class Tracked(RuleBasedStateMachine):
    """Three sessions write; three replicas synchronise at any time, one of which writes as well."""

    url: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.sessions = [Session(self.connect()) for _ in range(3)]
        self.program = self.connect()
        self.tracking = ChangeTracking(self.program)
        self.prepared: list[str] = []
        self.last: Anchor | None = None
        self.added: list[str] = []
        self.names = (f"p{number}" for number in count())
        self.keeps_transactions = True

    def connect(self) -> psycopg.Connection:
        # A prepared `select *` would fail once the table has another column.
        return psycopg.connect(self.url, autocommit=True, prepare_threshold=None)

    def teardown(self) -> None:
        for session in self.sessions:
            session.connection.close()
        for name in self.prepared:
            self.program.execute(f"rollback prepared '{name}'".encode())
        self.program.execute(
            "set lock_timeout = 0; drop table if exists t; drop schema if exists rowtide_tracking cascade"
        )
        self.program.close()

    @initialize(form=st.sampled_from(sorted(FORMS)), storage=st.sampled_from(POSTGRES_STORAGES), data=st.data())
    def enable(self, form: str, storage: Storage, data: st.DataObject) -> None:
        self.form = FORMS[form]
        # Stamps of partitioned tables are in the row.
        self.storage = Storage.ROW if len(self.form.relations) > 1 else storage
        self.program.execute(self.form.ddl.encode())
        for row in data.draw(st.lists(st.tuples(*self.form.columns.values()), max_size=3)):
            Session(self.program).run(self.insertion("t"), *row)
        self.tracking.enable_tracking("t", self.form.key_type, storage=self.storage)
        contexts = (None, None, uuid4())
        self.replicas = [Replica(self.tracking, tuple(self.form.key), context) for context in contexts]

    def insertion(self, relation: str, rest: str = "") -> str:
        names = self.form.columns
        return f"insert into {relation} ({', '.join(names)}) values ({places(names)}) {rest}"

    def upsertion(self, relation: str, rest: str = "") -> str:
        key = ", ".join(self.form.key)
        update = f"on conflict ({key}) do update set u = excluded.u, v = excluded.v {rest}"
        return self.insertion(relation, update)

    @property
    def has_key(self) -> str:
        return " and ".join(f"{name} = %s" for name in self.form.key)

    def draw(self, data: st.DataObject, *names: str) -> list[object]:
        return [data.draw(self.form.columns[name]) for name in names]

    def draw_relation(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(self.form.relations))

    def draw_part_of_key(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([name for name in self.form.columns if name not in ("u", "v")]))

    def insert(self, session: Session, data: st.DataObject) -> None:
        conflict = data.draw(st.sampled_from(["", f"on conflict ({', '.join(self.form.key)}) do nothing"]))
        session.run(self.insertion(self.draw_relation(data), conflict), *self.draw(data, *self.form.columns))

    def upsert(self, session: Session, data: st.DataObject) -> None:
        session.run(self.upsertion(self.draw_relation(data)), *self.draw(data, *self.form.columns))

    def update(self, session: Session, data: st.DataObject) -> None:
        values = self.draw(data, "u", "v", *self.form.key)
        session.run(f"update {self.draw_relation(data)} set u = %s, v = %s where {self.has_key}", *values)

    def update_some(self, session: Session, data: st.DataObject) -> None:
        session.run(f"update {self.draw_relation(data)} set v = v + 1 where v >= %s", *self.draw(data, "v"))

    def change_key(self, session: Session, data: st.DataObject) -> None:
        name = self.draw_part_of_key(data)
        values = self.draw(data, name, *self.form.key)
        session.run(f"update {self.draw_relation(data)} set {name} = %s where {self.has_key}", *values)

    def delete(self, session: Session, data: st.DataObject) -> None:
        session.run(f"delete from {self.draw_relation(data)} where {self.has_key}", *self.draw(data, *self.form.key))

    def delete_some(self, session: Session, data: st.DataObject) -> None:
        session.run(f"delete from {self.draw_relation(data)} where v = %s", *self.draw(data, "v"))

    def replace(self, session: Session, data: st.DataObject) -> None:
        row = self.draw(data, *self.form.columns)
        session.run(f"delete from t where {self.has_key}", *row[: len(self.form.key)])
        session.run(self.insertion("t"), *row)

    def merge(self, session: Session, data: st.DataObject) -> None:
        names = ", ".join(self.form.columns)
        session.run(
            f"merge into t using (values ({places(self.form.columns)})) s ({names}) "
            f"on {' and '.join(f't.{name} = s.{name}' for name in self.form.key)} "
            f"when matched and t.v = s.v then delete when matched then update set v = s.v "
            f"when not matched then insert ({names}) values ({', '.join(f's.{name}' for name in self.form.columns)})",
            *self.draw(data, *self.form.columns),
        )

    def truncate(self, session: Session, data: st.DataObject) -> None:
        """Truncate, and go: a transaction that stays open after it is in everybody's way."""
        is_last = data.draw(st.sampled_from([True, True, False]))
        session.run(f"truncate {self.draw_relation(data)}")
        if is_last:
            self.commit(session, data)

    def begin(self, session: Session, data: st.DataObject) -> None:
        isolation = data.draw(st.sampled_from(["read committed", "repeatable read", "serializable"]))
        if not session.is_open:
            # Its snapshot is of now, where it is kept.
            session.connection.execute(f"begin isolation level {isolation}; select 1".encode())

    def save(self, session: Session, data: st.DataObject) -> None:
        if session.is_open and not session.has_savepoint:
            session.connection.execute("savepoint s")
            session.has_savepoint = True

    def end_savepoint(self, session: Session, data: st.DataObject) -> None:
        how = data.draw(st.sampled_from(["rollback to", "release"]))
        if session.has_savepoint:
            session.connection.execute(f"{how} s".encode())
            session.has_savepoint = how != "release"

    def commit(self, session: Session, data: st.DataObject) -> None:
        if session.is_open:
            session.end("commit")

    def roll_back(self, session: Session, data: st.DataObject) -> None:
        if session.is_open:
            session.end("rollback")

    def prepare(self, session: Session, data: st.DataObject) -> None:
        if session.is_open and len(self.prepared) < 3:
            name = next(self.names)
            session.end(f"prepare transaction '{name}'")
            if self.program.execute("select from pg_prepared_xacts where gid = %s", [name]).fetchone() is not None:
                self.prepared.append(name)

    WRITES = (insert, insert, upsert, update, update_some, change_key, delete, delete_some, replace, merge, truncate)
    ACTIONS = (*WRITES, begin, begin, save, end_savepoint, commit, commit, commit, commit, roll_back, prepare)
    WHO_DOES_WHAT = st.tuples(st.integers(0, 2), st.sampled_from(ACTIONS))

    @rule(data=st.data(), actions=st.lists(WHO_DOES_WHAT, min_size=2, max_size=8))
    def let_programs_work(self, data: st.DataObject, actions: list[tuple[int, Action]]) -> None:
        """Let sessions do something, one after the other; most writes are in a transaction that stays open."""
        for number, action in actions:
            if action in self.WRITES and data.draw(st.sampled_from([True, True, False])):
                self.begin(self.sessions[number], data)
            action(self, self.sessions[number], data)

    @precondition(lambda self: self.prepared)
    @rule(number=st.integers(0, 2), how=st.sampled_from(["commit", "commit", "rollback"]))
    def end_prepared(self, number: int, how: str) -> None:
        name = self.prepared.pop(number % len(self.prepared))
        self.program.execute(f"{how} prepared '{name}'".encode())

    @rule(
        number=st.integers(0, 2),
        data=st.data(),
        before=st.lists(WHO_DOES_WHAT, max_size=8),
        meanwhile=st.lists(WHO_DOES_WHAT, max_size=3),
    )
    def synchronise(
        self, number: int, data: st.DataObject, before: list[tuple[int, Action]], meanwhile: list[tuple[int, Action]]
    ) -> None:
        """Take an anchor; programs continue before the changes are read."""
        self.let_programs_work(data, before)
        replica = self.replicas[number]
        expected: list[Row] = []

        def go_on() -> None:
            expected.extend(self.read())
            self.let_programs_work(data, meanwhile)

        with self.unless_locked():
            try:
                replica.synchronise(go_on)
            except (AnchorTooOld, UnknownAnchor):
                replica.anchor = None
                return
            replica.assert_equals(expected)
            self.check_numbers(replica.anchor)
            if not meanwhile:
                anchor = replica.anchor
                assert replica.synchronise() == 0
                assert replica.anchor == anchor

    def read(self, condition: str = "", *values: object) -> list[Row]:
        return as_rows(self.program.execute(f"select * from t {condition}".encode(), values or None))

    def check_numbers(self, anchor: Anchor | None) -> None:
        """A later anchor has a higher number; a transaction's is above those of the anchors that do not see it."""
        assert anchor is not None
        assert self.last is None or anchor == self.last or anchor.csn > self.last.csn
        self.last = anchor
        stamps = TOMBSTONES + (f" union {ROWS}" if self.keeps_transactions and self.storage is Storage.ROW else "")
        assert self.program.execute(MISPLACED.format(stamps=stamps).encode()).fetchall() == []

    @rule(
        data=st.data(),
        writes=st.lists(st.sampled_from(["insert", "update", "new key", "delete"]), min_size=1, max_size=3),
        before=st.lists(WHO_DOES_WHAT, max_size=3),
    )
    def upload(self, data: st.DataObject, writes: list[str], before: list[tuple[int, Action]]) -> None:
        """The replica with a context writes to the table what it writes to its own copy, and leaves that out later."""
        replica = self.replicas[2]
        name = self.draw_part_of_key(data)
        drawn = [(write, self.draw(data, *self.form.columns), self.draw(data, name)[0]) for write in writes]
        assume(replica.anchor is not None)
        repeats: list[Callable[[], None]] = []
        try:
            with self.tracking.transaction(replica.context, seen=replica.anchor) as transaction:
                self.let_programs_work(data, before)
                repeats += [self.write_as(replica, write, row, {name: value}) for write, row, value in drawn]
        except REFUSED:
            return
        except UnknownAnchor:
            replica.anchor = None
            return
        for repeat in repeats:
            repeat()
        replica.anchor = transaction.anchor

    def write_as(self, replica: Replica, write: str, row: list[object], new_key: Row) -> Callable[[], None]:
        """Write to the table as the owner of a replica; return what does the same to the replica."""
        key = row[: len(self.form.key)]
        found = [replica.key_of(row) for row in self.read(f"where {self.has_key}", *key)]
        match write:
            case "insert":
                cursor = self.program.execute(self.upsertion("t", "returning t.*").encode(), row)
                return partial(replica.put, as_rows(cursor))
            case "delete":
                self.program.execute(f"delete from t where {self.has_key}".encode(), key)
                return partial(replica.drop, found)
            case _:
                values = {"v": row[-1]} if write == "update" else new_key
                ((name, value),) = values.items()
                self.program.execute(f"update t set {name} = %s where {self.has_key}".encode(), [value, *key])
                return partial(replica.amend, found, values)

    def purge(self, data: st.DataObject) -> None:
        behind, purge = data.draw(st.integers(0, 8)), data.draw(st.sampled_from(PurgeType))
        table, is_of_transactions = data.draw(st.sampled_from(["t", None])), data.draw(st.booleans())
        value = 0 if purge is PurgeType.TIME_BASED or self.last is None else self.last.csn - behind
        with self.unless_locked():
            self.tracking.purge_tombstone_table_data(table, purge, value)
            if is_of_transactions:
                self.tracking.purge_transaction_sequence_data(purge, value)
                self.keeps_transactions = False

    def enable_again(self, data: st.DataObject) -> None:
        with self.unless_locked():
            self.tracking.disable_tracking("t")
            self.tracking.enable_tracking("t", self.form.key_type, storage=self.storage)
            self.last, self.keeps_transactions = None, True

    def lose_and_resume(self, data: st.DataObject) -> None:
        """An administrator disables a trigger; what is written then is seen by nobody."""
        session = Session(self.program)
        with self.unless_locked():
            self.program.execute('alter table t disable trigger "__sysTracking_update"')
            self.update(session, data)
            with pytest.raises(TrackingLost), self.tracking.changes(["t"]):
                pass
            self.tracking.resume_tracking("t")

    def add_column(self, data: st.DataObject) -> None:
        """Existing rows get the default, as they would in the replicas' own tables."""
        name, value = f"c{len(self.added)}", data.draw(SMALL)
        is_rewritten = data.draw(st.booleans())
        default = f"{value} + (random() * 0)::int" if is_rewritten else value
        with self.unless_locked():
            self.program.execute(f"alter table t add column {name} int default {default}".encode())
            self.added.append(name)
            for replica in self.replicas:
                replica.amend([*replica.rows], {name: value})

    def drop_column(self, data: st.DataObject) -> None:
        if self.added:
            with self.unless_locked():
                self.program.execute(f"alter table t drop column {self.added[-1]}".encode())
                name = self.added.pop()
                for row in (row for replica in self.replicas for row in replica.rows.values()):
                    del row[name]

    def truncate_alone(self, data: st.DataObject) -> None:
        """Truncate in a transaction that began earlier, perhaps, once nobody else has the table."""
        chosen = self.sessions[data.draw(st.integers(0, 2))]
        for session in self.sessions:
            if session is not chosen:
                self.commit(session, data)
        while self.prepared:
            self.end_prepared(0, "commit")
        chosen.run(f"truncate {self.draw_relation(data)}")
        self.commit(chosen, data)

    @contextmanager
    def unless_locked(self) -> Iterator[None]:
        """Let something happen that needs the table for itself, if no transaction is in its way."""
        try:
            yield
        except (LockNotAvailable, LockNotObtained):
            return
        except UnexpectedSqlError as error:
            if error.sqlstate != LockNotAvailable.sqlstate:
                raise

    EVENTS = (
        *(purge, purge, purge),
        *(truncate_alone, truncate_alone),
        add_column,
        drop_column,
        enable_again,
        lose_and_resume,
    )

    @rule(data=st.data(), event=st.sampled_from(EVENTS))
    def let_happen(self, data: st.DataObject, event: Callable[[Tracked, st.DataObject], None]) -> None:
        event(self, data)


def places(values: Sized) -> str:
    return ", ".join(["%s"] * len(values))


def as_rows(cursor: psycopg.Cursor[tuple[object, ...]]) -> list[Row]:
    return images((column.name for column in cursor.description or ()), cursor.fetchall())


@pytest.mark.parametrize(
    "examples",
    [2, pytest.param(15, marks=pytest.mark.exhaustive), pytest.param(1000, marks=pytest.mark.soak)],
)
def test_replicas_equal_the_table_in_any_order_of_commits(
    database: str, examples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alterations, "LOCK_TIMEOUT_S", 0.005)
    monkeypatch.setattr(alterations, "LOCK_ATTEMPTS", 1)
    # One thread plays all sessions: who waited for another would wait for ever.
    monkeypatch.setattr(connect, "PINNED_SETTINGS", PINNED_SETTINGS | {"lock_timeout": LOCK_TIMEOUT})
    with psycopg.connect(database, autocommit=True) as program:
        name = program.info.dbname
        program.execute(f"alter database {name} set lock_timeout = '{LOCK_TIMEOUT}'".encode())
    machine = type("TrackedThere", (Tracked,), {"url": database})
    phases = set(Phase) - {Phase.explain}
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples, stateful_step_count=30, deadline=None, phases=phases),
    )
