"""State machines of a shop: three join levels, products that follow the lines, records of orders, added columns, cuts.

What a program of a node inserted and no program deleted is at the hub in the end, or in a conflict's record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import rule

from builders.merge_machine_base import COMMITS, KEYS, MEMBERS, TEXTS, WITHOUT_READERS, MergeMachine, written
from builders.merged_databases import PUBLICATION, Member
from rowtide.merge.articles import FilterType, Partition

REGIONS = ("n", "s", "n")
"""Of the subscribers: two share a partition."""
ANY_REGION = st.sampled_from(["n", "s", "w", None])
DEFINITIONS = (
    "create table customer (id integer primary key, region varchar(5), note varchar(5))",
    "create table product (id integer primary key, name varchar(5) unique)",
    (
        "create table orders (id integer primary key, customer_id integer not null references customer (id), "
        "note varchar(5))"
    ),
    (
        "create table line (order_id integer not null references orders (id), number integer, "
        "product_id integer references product (id), qty integer, primary key (order_id, number))"
    ),
    (
        "create table parcel (id integer primary key, order_id integer not null, number integer not null, "
        "note varchar(5), foreign key (order_id, number) references line (order_id, number))"
    ),
)
TABLES = ("customer", "product", "orders", "line", "parcel")
NOTED = ("customer", "orders", "parcel")
COLUMNS = {
    "customer": "id, region, note",
    "product": "id, name",
    "orders": "id, customer_id, note",
    "line": "order_id, number, product_id, qty",
    "parcel": "id, order_id, number, note",
}
FILTERS = (
    ("orders", "customer", "orders.customer_id = customer.id", False),
    ("line", "orders", "line.order_id = orders.id", True),
    ("parcel", "line", "parcel.order_id = line.order_id and parcel.number = line.number", True),
    ("product", "line", "line.product_id = product.id", False),
)
"""Child, parent, condition, and whether both are parts of a logical record."""
NUMBERS = st.integers(1, 2)
ROWS = (
    "insert into customer values (1, 'n', 'a'), (2, 's', 'b')",
    "insert into product values (1, 'x'), (2, 'y')",
    "insert into orders values (1, 1, 'a'), (2, 2, 'b')",
    "insert into line values (1, 1, 1, 1), (1, 2, 2, 2), (2, 1, 1, 3)",
    "insert into parcel values (1, 1, 1, 'a')",
)


class MergingShop(MergeMachine):
    """Programs write at all nodes as they please; what their own constraints refuse does not happen."""

    record_options: ClassVar[dict[str, Any] | None] = None
    """Of the orders, if these are logical records; else they are numbered anew where two have one key."""

    def begin(self) -> None:
        self.regions = list(REGIONS)
        self.added: list[str] = []
        """The tables that have got a column, `extra`, at the hub."""
        self.inserted: dict[str, str] = {}
        """The tables of the rows that programs inserted."""
        self.deleted: set[str] = set()
        """The rows that a program deleted, anywhere."""
        self._publish(self.merge.members)

    def _publish(self, members: Sequence[Member]) -> None:
        merge = self.merge.merge
        members[0].execute(*DEFINITIONS, *ROWS)
        merge.add_publication(PUBLICATION)
        for table in TABLES:
            options = {"compensate_for_errors": True, **self.options}
            if table == "customer":
                options["where"] = "region = host_name()"
            if table == "orders":
                options |= {"renumber": True} if self.record_options is None else self.record_options
            merge.add_article(PUBLICATION, table, **options)
        for child, parent, condition, is_link in FILTERS:
            kind = FilterType.BOTH if is_link and self.record_options is not None else FilterType.JOIN
            merge.add_filter(PUBLICATION, child, parent, condition, filter_type=kind)
        for subscriber, region in zip(members[1:], REGIONS, strict=True):
            merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(region))

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def insert_customer(self, member: int, key: int, region: str | None) -> None:
        self._insert(member, "customer", f"{key}, {written(region)}, 'c{member}'", f"id = {key}")

    @rule(member=MEMBERS, key=KEYS, name=TEXTS)
    def insert_product(self, member: int, key: int, name: str | None) -> None:
        self._insert(member, "product", f"{key}, {written(name)}", f"id = {key}")

    @rule(member=MEMBERS, key=KEYS, customer=KEYS)
    def insert_order(self, member: int, key: int, customer: int) -> None:
        self._insert(member, "orders", f"{key}, {customer}, 'o{member}'", f"id = {key}")

    @rule(member=MEMBERS, order=KEYS, number=NUMBERS, product=st.none() | KEYS)
    def insert_line(self, member: int, order: int, number: int, product: int | None) -> None:
        of_product = "null" if product is None else f"(select id from product where id = {product})"
        values = f"{order}, {number}, {of_product}, {member}"
        self._insert(member, "line", values, f"order_id = {order} and number = {number}")

    @rule(member=MEMBERS, key=KEYS, order=KEYS, number=NUMBERS)
    def insert_parcel(self, member: int, key: int, order: int, number: int) -> None:
        self._insert(member, "parcel", f"{key}, {order}, {number}, 'p{member}'", f"id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(NOTED), key=KEYS, note=TEXTS)
    def update_note(self, member: int, table: str, key: int, note: str | None) -> None:
        self.attempt(member, f"update {table} set note = {written(note)} where id = {key}")

    @rule(member=MEMBERS, order=KEYS, number=NUMBERS, qty=KEYS)
    def update_line(self, member: int, order: int, number: int, qty: int) -> None:
        self.attempt(member, f"update line set qty = {qty} where order_id = {order} and number = {number}")

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def move_customer(self, member: int, key: int, region: str | None) -> None:
        self.attempt(member, f"update customer set region = {written(region)} where id = {key}")

    @rule(member=MEMBERS, key=KEYS, customer=KEYS)
    def move_order(self, member: int, key: int, customer: int) -> None:
        self.attempt(member, f"update orders set customer_id = {customer} where id = {key}")

    @rule(member=MEMBERS, order=KEYS, number=NUMBERS, to=KEYS)
    def move_line(self, member: int, order: int, number: int, to: int) -> None:
        self.attempt(member, f"update line set order_id = {to} where order_id = {order} and number = {number}")

    @rule(member=MEMBERS, key=KEYS, order=KEYS, number=NUMBERS)
    def move_parcel(self, member: int, key: int, order: int, number: int) -> None:
        self.attempt(member, f"update parcel set order_id = {order}, number = {number} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(("customer", "product", "orders", "parcel")), key=KEYS, to=KEYS)
    def change_key(self, member: int, table: str, key: int, to: int) -> None:
        self.attempt(member, f"update {table} set id = {to} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(("customer", "product", "orders", "parcel")), key=KEYS)
    def delete(self, member: int, table: str, key: int) -> None:
        self._delete(member, table, f"id = {key}")

    @rule(member=MEMBERS, order=KEYS, number=NUMBERS)
    def delete_line(self, member: int, order: int, number: int) -> None:
        self._delete(member, "line", f"order_id = {order} and number = {number}")

    @rule(member=MEMBERS, key=KEYS)
    def delete_order_whole(self, member: int, key: int) -> None:
        for table in ("parcel", "line", "orders"):
            self._delete(member, table, f"{'id' if table == 'orders' else 'order_id'} = {key}")

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, order=KEYS, qty=KEYS)
    def synchronise_beside_updates(self, number: int, commits: int, member: int, order: int, qty: int) -> None:
        update = f"update line set qty = {qty} where order_id = {order}"
        self.beside(number, commits, member, update)

    @rule(number=st.integers(0, 2), region=st.sampled_from(["n", "s"]))
    def move_device(self, number: int, region: str) -> None:
        if region != self.regions[number]:
            self.merge.merge.change_subscription(
                PUBLICATION, self.merge.subscribers[number].url, partition=Partition(region)
            )
            self.regions[number] = region

    @rule(table=st.sampled_from(NOTED))
    def add_column(self, table: str) -> None:
        if table not in self.added:
            self.merge.hub.execute(f"alter table {table} add column extra varchar(5)")
            self.added.append(table)

    @rule(member=MEMBERS, table=st.sampled_from(NOTED), key=KEYS, note=TEXTS)
    def set_added(self, member: int, table: str, key: int, note: str | None) -> None:
        with suppress(sqlite3.OperationalError, psycopg.errors.UndefinedColumn):
            self.attempt(member, f"update {table} set extra = {written(note)} where id = {key}")

    @rule()
    def clean_up(self) -> None:
        self.merge.merge.cleanup()

    def come_to_rest(self) -> None:
        """After quiet rounds each has its partition's rows, foreign keys hold, and two more rounds move nothing."""
        self.require_quiet(4)
        self.require_valid()
        self._require_same_answers()
        self._require_nothing_lost()
        self.require_nothing_moves()

    def _require_same_answers(self) -> None:
        """Nodes answer their programs alike, as far as their rows go."""
        for subscriber, region in zip(self.merge.subscribers, self.regions, strict=True):
            of_region = {
                "customer": f"region = '{region}'",
                "orders": f"customer_id in (select id from customer where region = '{region}')",
                "line": "order_id in (select o.id from orders o join customer c on c.id = o.customer_id "
                f"where c.region = '{region}')",
            }
            for table, condition in of_region.items():
                query = f"select {COLUMNS[table]} from {table} where {condition} order by 1, 2"
                assert subscriber.execute(query) == self.merge.hub.execute(query), table

    def _require_nothing_lost(self) -> None:
        there = {str(row[0]) for table in TABLES for row in self.merge.hub.execute(f"select rowguid from {table}")}
        recorded = {row[4] for row in self.merge.conflicts()}
        lost = {rowguid: table for rowguid, table in self.inserted.items() if rowguid not in there | recorded}
        lost = {rowguid: table for rowguid, table in lost.items() if rowguid not in self.deleted}
        assert not lost, lost

    def _insert(self, member: int, table: str, values: str, condition: str) -> None:
        if self.attempt(member, f"insert into {table} ({COLUMNS[table]}) values ({values})"):
            for rowguid in self._rowguids(member, table, condition):
                self.inserted[rowguid] = table

    def _delete(self, member: int, table: str, condition: str) -> None:
        rowguids = self._rowguids(member, table, condition)
        if self.attempt(member, f"delete from {table} where {condition}"):
            self.deleted.update(rowguids)

    def _rowguids(self, member: int, table: str, condition: str) -> list[str]:
        found = self.merge.members[member].execute(f"select rowguid from {table} where {condition}")
        return [str(row[0]) for row in found]
