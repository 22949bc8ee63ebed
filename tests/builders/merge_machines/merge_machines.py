"""State machines of merging: any work at a hub and three subscribers, with any synchronisations, cut anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

from builders.merge.merged_databases import PUBLICATION, ServerMember
from builders.merge_machines.merge_machine_base import (
    COMMITS,
    KEYS,
    MEMBERS,
    TEXTS,
    WITHOUT_READERS,
    MergeMachine,
    written,
)
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
VERBS = ["insert", "insert or replace", "insert or ignore"]
WAYS = st.sampled_from(["replace", "ignore", "upsert", "do nothing", "again"])
"""In which a program writes a row that may be there."""
REGIONS = ("n", "s", "e")
ANY_REGION = st.sampled_from([*REGIONS, "w", None])
PARTITIONED = (
    "create table customer (id integer primary key, region varchar(5))",
    "create table orders (id integer primary key, customer_id integer references customer (id), qty integer)",
    "create table visit (id integer primary key, customer_id integer, place varchar(5))",
)
FOLLOWING = ("orders", "visit")


COLUMNS = {
    "region": "id, name",
    "customer": "id, region_id, name, note",
    "orders": "id, customer_id, before_id, qty",
    "item": "order_id, number, label",
}


class Merging(MergeMachine):
    """Programs write at all nodes as they please; what their own constraints refuse does not happen."""

    resolvers: ClassVar[dict[str, str]] = {}
    """Of some tables."""
    functions: ClassVar[Sequence[str]] = ()
    """Statements that make the functions that resolvers name, once the tables are there."""

    def begin(self) -> None:
        shared = {"compensate_for_errors": True} | self.options
        articles: dict[str, Any] = {
            table: shared | {"resolver": self.resolvers.get(table, "priority")} for table in TABLES
        }
        self.merge.begin(*DEFINITIONS, *self.functions, **articles)

    @rule(member=MEMBERS, key=KEYS, name=TEXTS, verb=st.sampled_from(VERBS))
    def insert_region(self, member: int, key: int, name: str | None, verb: str) -> None:
        if isinstance(self.merge.members[member], ServerMember):
            verb = VERBS[0]
        self.attempt(member, f"{verb} into region (id, name) values ({key}, {written(name)})")

    @rule(member=MEMBERS, key=KEYS, region=KEYS, name=TEXTS)
    def insert_customer(self, member: int, key: int, region: int, name: str | None) -> None:
        self.attempt(member, f"insert into customer (id, region_id, name) values ({key}, {region}, {written(name)})")

    @rule(member=MEMBERS, key=KEYS, customer=KEYS, before=KEYS)
    def insert_order(self, member: int, key: int, customer: int, before: int) -> None:
        last = f"(select id from orders where id = {before})"
        values = f"{key}, {customer}, {last}, 1"
        self.attempt(member, f"insert into orders (id, customer_id, before_id, qty) values ({values})")

    @rule(member=MEMBERS, order=KEYS, number=st.integers(1, 2), label=TEXTS)
    def insert_item(self, member: int, order: int, number: int, label: str | None) -> None:
        self.attempt(member, f"insert into item (order_id, number, label) values ({order}, {number}, {written(label)})")

    @rule(member=MEMBERS, table=st.sampled_from(TABLES), key=KEYS, place=st.integers(0, 2), value=TEXTS, number=KEYS)
    def update(self, member: int, table: str, key: int, place: int, value: str | None, number: int) -> None:
        column = VALUES[table][place % len(VALUES[table])]
        set_to = written(number if column.endswith("_id") or column == "qty" else value)
        self.attempt(member, f"update {table} set {column} = {set_to} where {_key(table)} = {key}")

    @rule(member=MEMBERS, way=WAYS, table=st.sampled_from(TABLES), key=KEYS, number=KEYS, value=TEXTS)
    def write_again(self, member: int, way: str, table: str, key: int, number: int, value: str | None) -> None:
        values = {
            "region": f"{key}, {written(value)}",
            "customer": f"{key}, {number}, {written(value)}, null",
            "orders": f"{key}, {number}, null, {len(value or '')}",
            "item": f"{key}, {number % 2 + 1}, {written(value)}",
        }
        has_replace = not isinstance(self.merge.members[member], ServerMember)
        self.attempt(member, *_writing(way, table, values[table], has_replace=has_replace))

    @rule(member=MEMBERS, is_on=st.booleans())
    def fire_recursive_triggers(self, member: int, is_on: bool) -> None:  # noqa: FBT001 - of the rule
        if not isinstance(self.merge.members[member], ServerMember):
            self.attempt(member, f"pragma recursive_triggers = {is_on}")

    @rule(member=MEMBERS, table=st.sampled_from(TABLES[:3]), key=KEYS, to=KEYS, replaces=st.booleans())
    def change_key(self, member: int, table: str, key: int, to: int, replaces: bool) -> None:  # noqa: FBT001 - of the rule
        has_replace = replaces and not isinstance(self.merge.members[member], ServerMember)
        verb = "update or replace" if has_replace else "update"
        self.attempt(member, f"{verb} {table} set id = {to} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(TABLES), key=KEYS)
    def delete(self, member: int, table: str, key: int) -> None:
        self.attempt(member, f"delete from {table} where {_key(table)} = {key}")

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, key=KEYS, name=TEXTS)
    def synchronise_beside_updates(self, number: int, commits: int, member: int, key: int, name: str | None) -> None:
        update = f"update customer set name = {written(name)} where id = {key}"
        self.beside(number, commits, member, update)

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, key=KEYS)
    def synchronise_beside_deletes(self, number: int, commits: int, member: int, key: int) -> None:
        deletion = f"delete from item where order_id = {key}"
        self.beside(number, commits, member, deletion)

    def come_to_rest(self) -> None:
        """After quiet rounds all have the same rows, foreign keys hold, and two more rounds move nothing."""
        self.require_quiet(4)
        for table in TABLES:
            self.merge.require_equal(table, columns=f"{COLUMNS[table]}, cast(rowguid as varchar(36))")
        self.require_nothing_moves()


class MergingPartitions(MergeMachine):
    """Customers by region, orders and visits where their customers are, visits by their place too."""

    def begin(self) -> None:
        members = self.merge.members
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

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def insert_customer(self, member: int, key: int, region: str | None) -> None:
        self.attempt(member, f"insert into customer (id, region) values ({key}, {written(region)})")

    @rule(member=MEMBERS, table=st.sampled_from(FOLLOWING), key=KEYS, customer=KEYS)
    def insert_following(self, member: int, table: str, key: int, customer: int) -> None:
        self.attempt(member, f"insert into {table} (id, customer_id) values ({key}, {customer})")

    @rule(member=MEMBERS, key=KEYS, place=ANY_REGION)
    def move_visit(self, member: int, key: int, place: str | None) -> None:
        self.attempt(member, f"update visit set place = {written(place)} where id = {key}")

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def move_customer(self, member: int, key: int, region: str | None) -> None:
        self.attempt(member, f"update customer set region = {written(region)} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(FOLLOWING), key=KEYS, customer=st.none() | KEYS)
    def move_following(self, member: int, table: str, key: int, customer: int | None) -> None:
        parent = "null" if customer is None else str(customer)
        self.attempt(member, f"update {table} set customer_id = {parent} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(["customer", *FOLLOWING]), key=KEYS, to=KEYS)
    def change_key(self, member: int, table: str, key: int, to: int) -> None:
        self.attempt(member, f"update {table} set id = {to} where id = {key}")

    @rule(member=MEMBERS, table=st.sampled_from(["customer", *FOLLOWING]), key=KEYS)
    def delete(self, member: int, table: str, key: int) -> None:
        self.attempt(member, f"delete from {table} where id = {key}")

    @rule(number=st.integers(0, 2), commits=COMMITS, member=WITHOUT_READERS, key=KEYS, region=ANY_REGION)
    def synchronise_beside_moves(self, number: int, commits: int, member: int, key: int, region: str | None) -> None:
        move = f"update customer set region = {written(region)} where id = {key}"
        self.beside(number, commits, member, move)

    @rule()
    def clean_up(self) -> None:
        self.merge.merge.cleanup()

    def come_to_rest(self) -> None:
        """After quiet rounds each has its partition's rows, foreign keys hold, and two more rounds move nothing."""
        self.require_quiet(4)
        self.require_valid()
        self._require_same_answers()
        self.require_nothing_moves()

    def _require_same_answers(self) -> None:
        """Subscribers have what the hub answers about their regions."""
        for subscriber, region in zip(self.merge.subscribers, REGIONS, strict=True):
            followed = f"customer_id in (select id from customer where region = '{region}')"
            belonging = {
                "customer": f"select id, region from customer where region = '{region}' order by id",
                "orders": f"select id, customer_id, qty from orders where {followed} order by id",
                "visit": f"select id, customer_id, place from visit where place = '{region}' or {followed} order by id",
            }
            for table, query in belonging.items():
                expected = self.merge.hub.execute(query)
                assert subscriber.execute(query) == expected, table
                assert len(subscriber.rows(table)) == len(expected), table


def _writing(way: str, table: str, values: str, *, has_replace: bool) -> list[str]:
    """Return the statements that write a row that may be there; REPLACE is an upsert where there is none."""
    columns = COLUMNS[table].split(", ")
    keys = columns[: 2 if table == "item" else 1]
    insertion = f"into {table} ({COLUMNS[table]}) values ({values})"
    settings = ", ".join(f"{name} = excluded.{name}" for name in columns[len(keys) :])
    on_conflict = f"insert {insertion} on conflict ({', '.join(keys)}) do"
    same = " and ".join(f"{key} = {value}" for key, value in zip(keys, values.split(", "), strict=False))
    if way in ("replace", "ignore") and has_replace:
        return [f"insert or {way} {insertion}"]
    if way == "again":
        return ["begin", f"delete from {table} where {same}", f"insert {insertion}", "commit"]
    return [f"{on_conflict} nothing" if way in ("ignore", "do nothing") else f"{on_conflict} update set {settings}"]


def _key(table: str) -> str:
    return "order_id" if table == "item" else "id"
