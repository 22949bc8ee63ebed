"""A state machine of schema changes: a hub alters its tables, programs write everywhere, devices synchronise."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from builders.merge_machines import Opening, attempt, require_foreign_keys
from builders.merged_databases import PUBLICATION, Member, Merge, ServerMember

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
KEYS = st.integers(1, 4)
TEXTS = st.sampled_from(["a", "b", "c", None])
NUMBERS = st.integers(1, 3) | st.none()
NAMES = st.sampled_from(["c0", "c1", "c2", "n0", "n1", "n2"])
"""Names with c are of texts, those with n of numbers."""
CLAUSES = st.sampled_from(["", " default {}", " not null default {}"])
COMMITS = st.integers(1, 14)
_OWN = ("id", "customer_id", "rowguid")


class ChangingSchemas(RuleBasedStateMachine):
    """Orders get, lose, rename and retype columns; the article of visits comes and goes."""

    opening: ClassVar[Opening]
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self._opened = ExitStack()
        members = type(self).opening(self._opened)
        self.merge = Merge(members[0], members[1 : DEVICES + 1])
        options = {"compensate_for_errors": True} | self.options
        self.merge.begin(*DEFINITIONS, customer=options, orders=options)
        self.visits = "outside"

    def teardown(self) -> None:
        try:
            self.come_to_rest()
        finally:
            self._opened.close()

    @rule(member=MEMBERS, key=KEYS, name=TEXTS)
    def insert_customer(self, member: int, key: int, name: str | None) -> None:
        self._try(member, f"insert into customer (id, name) values ({key}, {_literal('c', name)})")

    @rule(member=MEMBERS, key=KEYS)
    def delete_customer(self, member: int, key: int) -> None:
        self._try(member, f"delete from customer where id = {key}")

    @rule(member=MEMBERS, key=KEYS, customer=KEYS)
    def insert_order(self, member: int, key: int, customer: int) -> None:
        self._try(member, f"insert into orders (id, customer_id) values ({key}, {customer})")

    @rule(member=MEMBERS, key=KEYS)
    def delete_order(self, member: int, key: int) -> None:
        self._try(member, f"delete from orders where id = {key}")

    @rule(member=MEMBERS, key=KEYS, name=NAMES, text=TEXTS, number=NUMBERS)
    def update_order(self, member: int, key: int, name: str, text: str | None, number: int | None) -> None:
        if name in self._columns(member):
            value = _literal(name, text if name[0] == "c" else number)
            self._try(member, f"update orders set {name} = {value} where id = {key}")

    @rule(name=NAMES, clause=CLAUSES, is_told=st.booleans())
    def add_column(self, name: str, clause: str, is_told: bool) -> None:  # noqa: FBT001 - of the rule
        if name not in self._columns(0):
            default = _literal(name, "d" if name[0] == "c" else 7)
            self._alter(f"add column {name} {_type(name)}{clause.format(default)}", is_told=is_told)

    @rule(name=NAMES)
    def drop_column(self, name: str) -> None:
        if name in self._columns(0):
            self._alter(f"drop column {name}", is_told=True)

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
            self._try(number, "alter table orders add column mine varchar(10)")

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
            self._try(member, f"insert into visit (id, customer_id, place) values ({values})")

    @rule(number=st.integers(0, DEVICES - 1))
    def synchronise(self, number: int) -> None:
        self.merge.sync(number)

    @rule(number=st.integers(0, DEVICES - 1), commits=COMMITS, is_before=st.booleans())
    def synchronise_cut(self, number: int, commits: int, is_before: bool) -> None:  # noqa: FBT001 - of the rule
        self.merge.cut_sync(number, commits, is_before=is_before)

    def come_to_rest(self) -> None:
        """After quiet rounds all have the same rows, foreign keys hold, and two more rounds move nothing."""
        self.merge.settle(3)
        tables = ["customer", "orders", *(["visit"] if self.visits == "published" else [])]
        for table in tables:
            columns = ", ".join(sorted(_columns(self.merge.hub, table) - {"rowguid"}))
            self.merge.require_equal(table, columns=f"{columns}, cast(rowguid as varchar(36))")
        for subscriber in self.merge.subscribers:
            compared = self.merge.merge.validate(PUBLICATION, subscriber.url, checksum=True)
            assert all(row.is_equal for row in compared), compared
        require_foreign_keys(self.merge)
        assert all(summary.is_quiet for summary in self.merge.settle(2))

    def _alter(self, clause: str, *, is_told: bool) -> None:
        if is_told:
            self.merge.merge.alter_article(PUBLICATION, "orders", clause)
        else:
            self.merge.hub.execute(f"alter table orders {clause}")

    def _columns(self, member: int) -> set[str]:
        return _columns(self.merge.members[member], "orders") - set(_OWN)

    def _try(self, member: int, statement: str) -> None:
        attempt(self.merge.members[member], statement)


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
