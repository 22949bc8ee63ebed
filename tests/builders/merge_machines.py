"""State machines of merging: any work at a hub and three subscribers, with any synchronisations, cut anywhere."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from builders.merge_interruptions import nothing_applied_ahead
from builders.merged_databases import (
    PUBLICATION,
    FileMember,
    Member,
    Merge,
    ServerMember,
    open_file_member,
    open_server_member,
)
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.articles import Partition

TABLES = ("region", "customer", "orders", "item")
DEFINITIONS = (
    "create table region (id integer primary key, name text unique)",
    "create table customer (id integer primary key, region_id integer references region (id), name text, note text)",
    (
        "create table orders (id integer primary key, customer_id integer not null references customer (id), "
        "before_id integer references orders (id), qty integer)"
    ),
    (
        "create table item (order_id integer references orders (id) on delete cascade, number integer, label text, "
        "primary key (order_id, number))"
    ),
)
VALUES = {
    "region": ("name",),
    "customer": ("region_id", "name", "note"),
    "orders": ("customer_id", "before_id", "qty"),
    "item": ("label",),
}
MEMBERS = st.integers(0, 3)
KEYS = st.integers(1, 4)
VERBS = ["insert", "insert or replace", "insert or ignore"]
REGIONS = ("n", "s", "e")
ANY_REGION = st.sampled_from([*REGIONS, "w", None])
PARTITIONED = (
    "create table customer (id integer primary key, region varchar(5))",
    "create table orders (id integer primary key, customer_id integer references customer (id), qty integer)",
    "create table visit (id integer primary key, customer_id integer, place varchar(5))",
)
FOLLOWING = ("orders", "visit")
TEXTS = st.sampled_from(["a", "b", "c", None])


WITHOUT_READERS = st.sampled_from([0, 1, 3])
"""Those at which a program may write while an agent reads: not the file with a journal."""
COMMITS = st.integers(1, 12)
COLUMNS = {
    "region": "id, name",
    "customer": "id, region_id, name, note",
    "orders": "id, customer_id, before_id, qty",
    "item": "order_id, number, label",
}
Opening = Callable[[ExitStack], Sequence[Member]]


class Merging(RuleBasedStateMachine):
    """Programs write at all nodes as they please; what their own constraints refuse does not happen."""

    opening: ClassVar[Opening]
    """Opens the hub and the subscribers, for one example."""
    options: ClassVar[dict[str, Any]] = {}
    """Of all articles."""
    resolvers: ClassVar[dict[str, str]] = {}
    """Of some tables."""

    def __init__(self) -> None:
        super().__init__()
        self._opened = ExitStack()
        members = type(self).opening(self._opened)
        self.merge = Merge(members[0], members[1:])
        self.begin()

    def begin(self) -> None:
        shared = {"compensate_for_errors": True} | self.options
        articles: dict[str, Any] = {
            table: shared | {"resolver": self.resolvers.get(table, "priority")} for table in TABLES
        }
        self.merge.begin(*DEFINITIONS, **articles)

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self._opened.close()

    @rule(member=MEMBERS, key=KEYS, name=TEXTS, verb=st.sampled_from(VERBS))
    def insert_region(self, member: int, key: int, name: str | None, verb: str) -> None:
        if isinstance(self.merge.members[member], ServerMember):
            verb = VERBS[0]
        self._try(member, f"{verb} into region (id, name) values ({key}, {_text(name)})")

    @rule(member=MEMBERS, key=KEYS, region=KEYS, name=TEXTS)
    def insert_customer(self, member: int, key: int, region: int, name: str | None) -> None:
        self._try(member, f"insert into customer (id, region_id, name) values ({key}, {region}, {_text(name)})")

    @rule(member=MEMBERS, key=KEYS, customer=KEYS, before=KEYS)
    def insert_order(self, member: int, key: int, customer: int, before: int) -> None:
        last = f"(select id from orders where id = {before})"
        self._try(member, f"insert into orders (id, customer_id, before_id, qty) values ({key}, {customer}, {last}, 1)")

    @rule(member=MEMBERS, order=KEYS, number=st.integers(1, 2), label=TEXTS)
    def insert_item(self, member: int, order: int, number: int, label: str | None) -> None:
        self._try(member, f"insert into item (order_id, number, label) values ({order}, {number}, {_text(label)})")

    @rule(member=MEMBERS, table=st.sampled_from(TABLES), key=KEYS, place=st.integers(0, 2), value=TEXTS, number=KEYS)
    def update(self, member: int, table: str, key: int, place: int, value: str | None, number: int) -> None:
        column = VALUES[table][place % len(VALUES[table])]
        written = str(number) if column.endswith("_id") or column == "qty" else _text(value)
        self._try(member, f"update {table} set {column} = {written} where {_key(table)} = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(TABLES[:3]), key=KEYS, to=KEYS)
    def change_key(self, member: int, table: str, key: int, to: int) -> None:
        self._try(member, f"update {table} set id = {to} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(TABLES), key=KEYS)
    def delete(self, member: int, table: str, key: int) -> None:
        self._try(member, f"delete from {table} where {_key(table)} = {key}")

    @rule(number=st.integers(0, 2), is_applied=st.booleans())
    def synchronise(self, number: int, is_applied: bool) -> None:  # noqa: FBT001 - of the rule
        with nullcontext() if is_applied else nothing_applied_ahead():
            self.merge.sync(number)

    @rule(number=st.integers(0, 2), commits=COMMITS, is_before=st.booleans())
    def synchronise_cut(self, number: int, commits: int, is_before: bool) -> None:  # noqa: FBT001 - of the rule
        self.merge.cut_sync(number, commits, is_before=is_before)

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, key=KEYS, name=TEXTS)
    def synchronise_beside_updates(self, number: int, commits: int, member: int, key: int, name: str | None) -> None:
        update = f"update customer set name = {_text(name)} where id = {key}"
        self.merge.sync_beside(number, commits, lambda: self._try(member, update))

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, key=KEYS)
    def synchronise_beside_deletes(self, number: int, commits: int, member: int, key: int) -> None:
        deletion = f"delete from item where order_id = {key}"
        self.merge.sync_beside(number, commits, lambda: self._try(member, deletion))

    def come_to_rest(self) -> None:
        """After quiet rounds all have the same rows, foreign keys hold, and two more rounds move nothing."""
        self.merge.settle(4)
        for table in TABLES:
            self.merge.require_equal(table, columns=f"{COLUMNS[table]}, cast(rowguid as varchar(36))")
        require_foreign_keys(self.merge)
        assert all(summary.is_quiet for summary in self.merge.settle(2))

    def _try(self, member: int, statement: str) -> None:
        attempt(self.merge.members[member], statement)


class MergingPartitions(RuleBasedStateMachine):
    """Customers by region, orders and visits where their customers are, visits by their place too."""

    opening: ClassVar[Opening]
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self._opened = ExitStack()
        members = type(self).opening(self._opened)
        self.merge = Merge(members[0], members[1:])
        merge, options = self.merge.merge, {"compensate_for_errors": True} | self.options
        members[0].execute(*PARTITIONED)
        merge.add_publication(PUBLICATION)
        merge.add_article(PUBLICATION, "customer", where="region = host_name()", **options)
        merge.add_article(PUBLICATION, "orders", **options)
        merge.add_article(PUBLICATION, "visit", where="place = host_name()", **options)
        for table in FOLLOWING:
            merge.add_filter(PUBLICATION, table, "customer", f"{table}.customer_id = customer.id")
        for subscriber, region in zip(members[1:], REGIONS, strict=True):
            merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(region))

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self._opened.close()

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def insert_customer(self, member: int, key: int, region: str | None) -> None:
        attempt(self.merge.members[member], f"insert into customer (id, region) values ({key}, {_text(region)})")

    @rule(member=MEMBERS, table=st.sampled_from(FOLLOWING), key=KEYS, customer=KEYS)
    def insert_following(self, member: int, table: str, key: int, customer: int) -> None:
        attempt(self.merge.members[member], f"insert into {table} (id, customer_id) values ({key}, {customer})")

    @rule(member=MEMBERS, key=KEYS, place=ANY_REGION)
    def move_visit(self, member: int, key: int, place: str | None) -> None:
        attempt(self.merge.members[member], f"update visit set place = {_text(place)} where id = {key}")

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def move_customer(self, member: int, key: int, region: str | None) -> None:
        attempt(self.merge.members[member], f"update customer set region = {_text(region)} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(FOLLOWING), key=KEYS, customer=st.none() | KEYS)
    def move_following(self, member: int, table: str, key: int, customer: int | None) -> None:
        parent = "null" if customer is None else str(customer)
        attempt(self.merge.members[member], f"update {table} set customer_id = {parent} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(["customer", *FOLLOWING]), key=KEYS, to=KEYS)
    def change_key(self, member: int, table: str, key: int, to: int) -> None:
        attempt(self.merge.members[member], f"update {table} set id = {to} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(["customer", *FOLLOWING]), key=KEYS)
    def delete(self, member: int, table: str, key: int) -> None:
        attempt(self.merge.members[member], f"delete from {table} where id = {key}")

    @rule(number=st.integers(0, 2), is_applied=st.booleans())
    def synchronise(self, number: int, is_applied: bool) -> None:  # noqa: FBT001 - of the rule
        with nullcontext() if is_applied else nothing_applied_ahead():
            self.merge.sync(number)

    @rule(number=st.integers(0, 2), commits=COMMITS, is_before=st.booleans())
    def synchronise_cut(self, number: int, commits: int, is_before: bool) -> None:  # noqa: FBT001 - of the rule
        self.merge.cut_sync(number, commits, is_before=is_before)

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, key=KEYS, region=ANY_REGION)
    def synchronise_beside_moves(self, number: int, commits: int, member: int, key: int, region: str | None) -> None:
        move = f"update customer set region = {_text(region)} where id = {key}"
        self.merge.sync_beside(number, commits, lambda: attempt(self.merge.members[member], move))

    @rule()
    def clean_up(self) -> None:
        self.merge.merge.cleanup()

    def come_to_rest(self) -> None:
        """After quiet rounds each has its partition's rows, foreign keys hold, and two more rounds move nothing."""
        self.merge.settle(4)
        for subscriber in self.merge.subscribers:
            compared = self.merge.merge.validate(PUBLICATION, subscriber.url, checksum=True)
            assert all(row.is_equal for row in compared), compared
        require_foreign_keys(self.merge)
        assert all(summary.is_quiet for summary in self.merge.settle(2))


def require_foreign_keys(merge: Merge) -> None:
    for member in merge.members:
        if isinstance(member, FileMember):
            assert member.execute("pragma foreign_key_check") == []


def attempt(member: Member, statement: str) -> None:
    """Let a program do something that its own database may refuse."""
    try:
        member.execute(statement)
    except (sqlite3.IntegrityError, psycopg.IntegrityError):
        return


def open_files(opened: ExitStack) -> list[Member]:
    """Open a hub and three subscribers, all files, one of them with a journal."""
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
    return [
        opened.enter_context(open_file_member(folder / f"{number}.db", journal=journal))
        for number, journal in enumerate(["wal", "wal", "delete", "wal"])
    ]


def open_mixed(opened: ExitStack, server: EmbeddedServer, at: Sequence[int]) -> list[Member]:
    """Open a hub and three subscribers: databases of a server at some places, from 0, files at the others."""
    return [
        opened.enter_context(open_server_member(opened.enter_context(fresh_database(server)))) if place in at else file
        for place, file in enumerate(open_files(opened))
    ]


def _text(value: str | None) -> str:
    return "null" if value is None else f"'{value}'"


def _key(table: str) -> str:
    return "order_id" if table == "item" else "id"
