"""State machine of filters over several joins, and which rows belong, by a model of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from builders.merge.merged_databases import PUBLICATION, Member, Merge
from builders.merge_machines.merge_machine_base import COMMITS, KEYS, MEMBERS, WITHOUT_READERS, MergeMachine, written
from rowtide.merge.articles import Partition

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
Match = tuple[str, str, str, str]
"""The columns that are equal in a join: child, its column, parent, its column."""
REGIONS = ("n", "s", "e")
ANY_REGION = st.sampled_from([*REGIONS, "w", None])
COLUMNS = {
    "employee": ("id", "manager_id", "region"),
    "customer": ("id", "employee_id"),
    "orders": ("id", "customer_id"),
    "line": ("id", "order_id", "employee_id", "product_id"),
    "product": ("id", "name"),
}
DEFINITIONS = (
    "create table employee (id integer primary key, manager_id integer, region varchar(5))",
    "create table customer (id integer primary key, employee_id integer)",
    "create table orders (id integer primary key, customer_id integer references customer (id))",
    "create table product (id integer primary key, name varchar(5))",
    (
        "create table line (id integer primary key, order_id integer, employee_id integer, "
        "product_id integer references product (id))"
    ),
)
JOINS = (
    ("employee", "employee", "employee.manager_id = parent.id"),
    ("customer", "employee", "customer.employee_id = employee.id"),
    ("orders", "customer", "orders.customer_id = customer.id"),
    ("line", "orders", "line.order_id = orders.id"),
    ("line", "employee", "line.employee_id = employee.id"),
    ("product", "line", "line.product_id = product.id"),
)
MATCHES: Sequence[Match] = (
    ("employee", "manager_id", "employee", "id"),
    ("customer", "employee_id", "employee", "id"),
    ("orders", "customer_id", "customer", "id"),
    ("line", "order_id", "orders", "id"),
    ("line", "employee_id", "employee", "id"),
    ("product", "id", "line", "product_id"),
)
MOVES = [(table, column) for table, columns in COLUMNS.items() for column in columns if column.endswith("_id")]


def belonging(rows: Rows, roots: Mapping[str, set[int]], matches: Sequence[Match] = MATCHES) -> dict[str, set[int]]:
    """Return the ids of the rows that belong to a partition: the least fixed point of the filters, above `roots`."""
    found = {table: set(roots.get(table, ())) for table in rows}
    while True:
        before = sum(map(len, found.values()))
        for child, column, parent, other in matches:
            values = {row[other] for row in rows[parent] if row["id"] in found[parent]} - {None}
            found[child] |= {row["id"] for row in rows[child] if row[column] in values}
        if sum(map(len, found.values())) == before:
            return found


def rows_of(member: Member, columns: Mapping[str, Sequence[str]]) -> dict[str, list[Row]]:
    """Return a member's rows, by table."""
    return {
        table: [dict(zip(names, row, strict=True)) for row in member.rows(table, ", ".join(names))]
        for table, names in columns.items()
    }


def require_rows(subscriber: Member, rows: Rows, expected: Mapping[str, set[int]]) -> None:
    """A subscriber has those of the hub's rows that are expected, and no others."""
    there = rows_of(subscriber, {table: list(listed[0]) for table, listed in rows.items() if listed})
    for table, listed in there.items():
        belong = [row for row in rows[table] if row["id"] in expected[table]]
        assert listed == belong, table


def publish(merged: Merge, *statements: str, **options: Any) -> None:
    """Make the tables with their rows, publish them with the joins, and subscribe each region."""
    merged.hub.execute(*statements)
    merged.merge.add_publication(PUBLICATION)
    for table in COLUMNS:
        where = "region = host_name()" if table == "employee" else None
        merged.merge.add_article(PUBLICATION, table, where=where, **options)
    for child, parent, condition in JOINS:
        merged.merge.add_filter(PUBLICATION, child, parent, condition)
    for subscriber, region in zip(merged.subscribers, REGIONS, strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(region))


def require_belonging(merged: Merge) -> None:
    """Each subscriber has the hub's rows that belong to its region, as the model says."""
    rows = rows_of(merged.hub, COLUMNS)
    for subscriber, region in zip(merged.subscribers, REGIONS, strict=True):
        roots = {"employee": {row["id"] for row in rows["employee"] if row["region"] == region}}
        require_rows(subscriber, rows, belonging(rows, roots))


class MergingTrees(MergeMachine):
    """Employees by region or below such, their customers, these' orders, lines of both, and the lines' products."""

    def begin(self) -> None:
        publish(self.merge, *DEFINITIONS, **{"compensate_for_errors": True} | self.options)

    @rule(member=MEMBERS, key=KEYS, manager=st.none() | KEYS, region=ANY_REGION)
    def insert_employee(self, member: int, key: int, manager: int | None, region: str | None) -> None:
        values = f"{key}, {written(manager)}, {written(region)}"
        self.attempt(member, f"insert into employee (id, manager_id, region) values ({values})")

    @rule(member=MEMBERS, key=KEYS, employee=KEYS, order=KEYS, product=KEYS)
    def insert_chain(self, member: int, key: int, employee: int, order: int, product: int) -> None:
        self.attempt(member, f"insert into customer (id, employee_id) values ({key}, {employee})")
        self.attempt(member, f"insert into orders (id, customer_id) values ({order}, {key})")
        self.attempt(member, f"insert into product (id) values ({product})")
        self.attempt(member, f"insert into line (id, order_id, product_id) values ({order}, {order}, {product})")

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def move_employee(self, member: int, key: int, region: str | None) -> None:
        self.attempt(member, f"update employee set region = {written(region)} where id = {key}")

    @rule(member=MEMBERS, place=st.sampled_from(MOVES), key=KEYS, to=st.none() | KEYS)
    def move(self, member: int, place: tuple[str, str], key: int, to: int | None) -> None:
        table, column = place
        self.attempt(member, f"update {table} set {column} = {written(to)} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(list(COLUMNS)), key=KEYS, to=KEYS)
    def change_key(self, member: int, table: str, key: int, to: int) -> None:
        self.attempt(member, f"update {table} set id = {to} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(list(COLUMNS)), key=KEYS)
    def delete(self, member: int, table: str, key: int) -> None:
        self.attempt(member, f"delete from {table} where id = {key}")

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, place=st.sampled_from(MOVES), key=KEYS)
    def synchronise_beside_moves(
        self, number: int, commits: int, member: int, place: tuple[str, str], key: int
    ) -> None:
        statement = f"update {place[0]} set {place[1]} = {key % 4 + 1} where id = {key}"
        self.beside(number, commits, member, statement)

    @rule()
    def clean_up(self) -> None:
        self.merge.merge.cleanup()

    def come_to_rest(self) -> None:
        """After quiet rounds each has what the model says, foreign keys hold, and two more rounds move nothing."""
        self.require_quiet(4)
        require_belonging(self.merge)
        self.require_nothing_moves()
