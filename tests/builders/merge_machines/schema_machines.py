"""A state machine of schema changes: a hub alters its tables, programs write everywhere, devices synchronise."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from builders.merge.merged_databases import PUBLICATION, Member, Merge, ServerMember
from builders.merge_machines.merge_machine_base import KEYS, TEXTS, MergeMachine
from rowtide.merge.errors.publishing import MergedTableAltered
from rowtide.merge.session.history import Summary

DEFINITIONS = (
    "create table customer (id integer primary key, name varchar(10))",
    (
        "create table orders (id integer primary key, customer_id integer references customer (id), c0 varchar(10), "
        "n0 integer)"
    ),
    "create table visit (id integer primary key, customer_id integer references customer (id), place varchar(10))",
)
DEVICES = 2
MEMBERS = st.integers(0, DEVICES)
NUMBERS = st.integers(1, 3) | st.none()
NAMES = st.sampled_from(["c0", "c1", "c2", "n0", "n1", "n2"])
"""Names with c are of texts, those with n of numbers."""
CLAUSES = st.sampled_from(["", " default {}", " not null default {}"])
_OWN = ("id", "customer_id", "rowguid")


class _RebuiltMerge(Merge):
    """A merge in which a device whose program rebuilt its table is reinitialized, as the error says."""

    def sync(self, number: int = 0) -> Summary:
        try:
            return super().sync(number)
        except MergedTableAltered:
            self.merge.reinitialize(self.publication, self.subscribers[number].url, upload_first=True)
            return super().sync(number)

    def cut_sync(self, number: int, commits: int, *, is_before: bool) -> bool:
        try:
            return super().cut_sync(number, commits, is_before=is_before)
        except MergedTableAltered:
            # The table stays rebuilt until it is synchronised whole.
            return False


class ChangingSchemas(MergeMachine):
    """Orders get, lose, rename and retype columns; the article of visits comes and goes; devices rebuild orders."""

    def make(self, members: Sequence[Member]) -> Merge:
        return _RebuiltMerge(members[0], members[1 : DEVICES + 1])

    def begin(self) -> None:
        options = {"compensate_for_errors": True} | self.options
        self.merge.begin(*DEFINITIONS, customer=options, orders=options)
        self.visits = "outside"
        self.written = 0

    @rule(member=MEMBERS, key=KEYS, name=TEXTS)
    def insert_customer(self, member: int, key: int, name: str | None) -> None:
        self.attempt(member, f"insert into customer (id, name) values ({key}, {_literal('c', name)})")

    @rule(member=MEMBERS, key=KEYS)
    def delete_customer(self, member: int, key: int) -> None:
        self.attempt(member, f"delete from customer where id = {key}")

    @rule(member=MEMBERS, key=KEYS, customer=KEYS)
    def insert_order(self, member: int, key: int, customer: int) -> None:
        self.attempt(member, f"insert into orders (id, customer_id) values ({key}, {customer})")

    @rule(member=MEMBERS, key=KEYS)
    def delete_order(self, member: int, key: int) -> None:
        self.attempt(member, f"delete from orders where id = {key}")

    @rule(member=MEMBERS, key=KEYS, name=NAMES, text=TEXTS, number=NUMBERS)
    def update_order(self, member: int, key: int, name: str, text: str | None, number: int | None) -> None:
        if name in self._columns(member):
            value = _literal(name, text if name[0] == "c" else number)
            self.attempt(member, f"update orders set {name} = {value} where id = {key}")

    @rule(name=NAMES, clause=CLAUSES, is_told=st.booleans())
    def add_column(self, name: str, clause: str, is_told: bool) -> None:  # noqa: FBT001 - of the rule
        if name not in self._columns(0):
            default = _literal(name, "d" if name[0] == "c" else 7)
            self._alter(f"add column {name} {_type(name)}{clause.format(default)}", is_told=is_told)

    @rule(name=NAMES)
    def drop_column(self, name: str) -> None:
        if name in self._columns(0):
            self._alter(f"drop column {name}", is_told=True)

    @rule(name=st.sampled_from(["c0", "c1", "c2"]), number=st.integers(1, DEVICES), key=KEYS)
    def drop_column_with_unsent_value(self, name: str, number: int, key: int) -> None:
        """What a device wrote to a column arrives with the next synchronisation, or both ends list it."""
        device = self.merge.members[number]
        if name not in self._columns(0) & self._columns(number):
            return
        self.written += 1
        text = f"w{self.written}."
        if not self.attempt(number, f"insert into orders (id, {name}) values ({key}, '{text}')"):
            self.attempt(number, f"update orders set {name} = '{text}' where id = {key}")
        if (text,) not in device.execute(f"select {name} from orders"):
            return
        self._alter(f"drop column {name}", is_told=True)
        self.merge.sync(number - 1)
        cells = {value for row in self.merge.hub.execute("select * from orders") for value in row}
        if text not in cells:
            for member in (self.merge.hub, device):
                assert text in str(self.merge.conflicts(member)), (member.url, text)

    @rule(name=NAMES, to=NAMES, is_told=st.booleans())
    def rename_column(self, name: str, to: str, is_told: bool) -> None:  # noqa: FBT001 - of the rule
        columns = self._columns(0)
        if name in columns and to not in columns and name[0] == to[0]:
            self._alter(f"rename column {name} to {to}", is_told=is_told)

    @rule(name=NAMES, length=st.integers(11, 14))
    def retype_column(self, name: str, length: int) -> None:
        if isinstance(self.merge.hub, ServerMember) and name in self._columns(0):
            type_text = f"varchar({length})" if name[0] == "c" else "bigint"
            self._alter(f"alter column {name} type {type_text}", is_told=False)

    @rule(name=NAMES, is_set=st.booleans())
    def change_default(self, name: str, is_set: bool) -> None:  # noqa: FBT001 - of the rule
        if isinstance(self.merge.hub, ServerMember) and name in self._columns(0):
            default = _literal(name, "e" if name[0] == "c" else 8)
            self._alter(f"alter column {name} {'set default ' + default if is_set else 'drop default'}", is_told=False)

    @rule(number=st.integers(1, DEVICES))
    def add_own_column(self, number: int) -> None:
        if "mine" not in self._columns(number):
            self.attempt(number, "alter table orders add column mine varchar(10)")

    @rule(number=st.integers(1, DEVICES))
    def rebuild_orders(self, number: int) -> None:
        """As a migration does: the triggers are gone."""
        device = self.merge.members[number]
        if isinstance(device, ServerMember):
            return
        ((definition,),) = device.execute("select sql from sqlite_schema where type = 'table' and name = 'orders'")
        copied = ", ".join(_columns(device, "orders"))
        device.execute(
            re.sub(r'^create table "?orders"?', "create table rebuilt", definition, flags=re.IGNORECASE),
            f"insert into rebuilt ({copied}) select {copied} from orders",
            "drop table orders",
            "alter table rebuilt rename to orders",
        )

    @precondition(lambda self: self.visits == "outside")
    @rule()
    def add_visits(self) -> None:
        self.merge.merge.add_article(PUBLICATION, "visit", compensate_for_errors=True)
        self.visits = "published"

    @precondition(lambda self: self.visits == "published")
    @rule()
    def drop_visits(self) -> None:
        self.merge.merge.drop_article(PUBLICATION, "visit")
        self.visits = "dropped"

    @rule(member=MEMBERS, key=KEYS, customer=KEYS, place=TEXTS)
    def insert_visit(self, member: int, key: int, customer: int, place: str | None) -> None:
        if member == 0 or _columns(self.merge.members[member], "visit"):
            values = f"{key}, {customer}, {_literal('c', place)}"
            self.attempt(member, f"insert into visit (id, customer_id, place) values ({values})")

    def come_to_rest(self) -> None:
        """After quiet rounds all have the same rows, foreign keys hold, and two more rounds move nothing."""
        self.require_quiet(3)
        tables = ["customer", "orders", *(["visit"] if self.visits == "published" else [])]
        for table in tables:
            columns = ", ".join(sorted(_columns(self.merge.hub, table) - {"rowguid"}))
            self.merge.require_equal(table, columns=f"{columns}, cast(rowguid as varchar(36))")
        self.require_valid()
        self.require_nothing_moves()

    def _alter(self, clause: str, *, is_told: bool) -> None:
        if is_told:
            self.merge.merge.alter_article(PUBLICATION, "orders", clause)
        else:
            self.merge.hub.execute(f"alter table orders {clause}")

    def _columns(self, member: int) -> set[str]:
        return _columns(self.merge.members[member], "orders") - set(_OWN)


def _columns(member: Member, table: str) -> set[str]:
    if isinstance(member, ServerMember):
        listed = f"select attname::text from pg_attribute where attrelid = to_regclass('{table}') and attnum > 0"
        return {name for (name,) in member.execute(f"{listed} and not attisdropped")}
    return {name for (name,) in member.execute(f"select name from pragma_table_info('{table}')")}


def _type(name: str) -> str:
    return "varchar(10)" if name[0] == "c" else "integer"


def _literal(name: str, value: str | int | None) -> str:
    if value is None:
        return "null"
    return f"'{value}'" if name[0] == "c" else str(value)
