"""Any work at a hub and three subscribers, with any synchronisations, cut anywhere: all come to the same rows."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from builders.merged_databases import Member, Merge, open_file_member

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
TEXTS = st.sampled_from(["a", "b", "c", None])


class Merging(RuleBasedStateMachine):
    """Programs write at all nodes as they please; what their own constraints refuse does not happen."""

    column_tracking = False

    def __init__(self) -> None:
        super().__init__()
        self._opened = ExitStack()
        folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory()))
        members: list[Member] = [
            self._opened.enter_context(open_file_member(folder / f"{number}.db", journal=journal))
            for number, journal in enumerate(["wal", "wal", "delete", "wal"])
        ]
        self.merge = Merge(members[0], members[1:])
        options = {"compensate_for_errors": True, "column_tracking": self.column_tracking}
        articles: dict[str, Any] = dict.fromkeys(TABLES, options)
        self.merge.begin(*DEFINITIONS, **articles)

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self._opened.close()

    @rule(member=MEMBERS, key=KEYS, name=TEXTS, verb=st.sampled_from(VERBS))
    def insert_region(self, member: int, key: int, name: str | None, verb: str) -> None:
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

    @rule(number=st.integers(0, 2))
    def synchronise(self, number: int) -> None:
        self.merge.sync(number)

    @rule(number=st.integers(0, 2), commits=st.integers(1, 12), is_before=st.booleans())
    def synchronise_cut(self, number: int, commits: int, is_before: bool) -> None:  # noqa: FBT001 - of the rule
        self.merge.cut_sync(number, commits, is_before=is_before)

    def come_to_rest(self) -> None:
        """After quiet rounds all have the same rows, foreign keys hold, and two more rounds move nothing."""
        self.merge.settle(4)
        self.merge.require_equal(*TABLES)
        for member in self.merge.members:
            assert member.execute("pragma foreign_key_check") == []
        assert all(summary.is_quiet for summary in self.merge.settle(2))

    def _try(self, member: int, statement: str) -> None:
        try:
            self.merge.members[member].execute(statement)
        except sqlite3.IntegrityError:
            return  # the program's own database does not take it


class MergingColumns(Merging):
    """As above, with the changes of columns tracked."""

    column_tracking = True


def _text(value: str | None) -> str:
    return "null" if value is None else f"'{value}'"


def _key(table: str) -> str:
    return "order_id" if table == "item" else "id"


@pytest.mark.parametrize("machine", [Merging, MergingColumns])
def test_all_nodes_come_to_the_same_rows(machine: type[Merging]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=30, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
