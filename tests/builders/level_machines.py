"""State machine of everything at once: three join levels, a hub that publishes again, and a file that comes prepared.

A regional hub subscribes to the hub and publishes the same tables to a device of its own. Another file leaves, its
program goes on, and it subscribes again with the tables and rows that it has.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from builders.join_machines import Match, belonging, require_rows, rows_of
from builders.merge_machine_base import (
    COMMITS,
    KEYS,
    MEMBERS,
    TEXTS,
    MergeMachine,
    attempt,
    require_foreign_keys,
    written,
)
from builders.merged_databases import PUBLICATION, Member, Merge
from rowtide.merge.articles import Partition, SubscriberType
from rowtide.merge.errors.subscribing import ChangesNotUploaded
from rowtide.merge.publishing.prepared import Existing

DEFINITIONS = (
    "create table customer (id integer primary key, region varchar(5), note varchar(5))",
    (
        "create table orders (id integer primary key, customer_id integer not null references customer (id), "
        "note varchar(5))"
    ),
    "create table line (id integer primary key, order_id integer not null references orders (id), note varchar(5))",
)
ROWS = (
    "insert into customer values (1, 'n', 'a'), (2, 's', 'b')",
    "insert into orders values (1, 1, 'a'), (2, 2, 'b')",
    "insert into line values (1, 1, 'a'), (2, 2, 'b')",
)
COLUMNS = {
    "customer": ("id", "region", "note"),
    "orders": ("id", "customer_id", "note"),
    "line": ("id", "order_id", "note"),
}
MATCHES: Sequence[Match] = (("orders", "customer_id", "customer", "id"), ("line", "order_id", "orders", "id"))
FILTERS = (
    ("orders", "customer", "orders.customer_id = customer.id"),
    ("line", "orders", "line.order_id = orders.id"),
)
REGION = "n"
DEVICES = "region"
"""The publication of the regional hub."""
ANY_REGION = st.sampled_from([REGION, "s"])
TABLES = st.sampled_from(list(COLUMNS))


class MergingLevels(MergeMachine):
    """The hub, number 0; a regional hub, 1; a file that comes and goes, 2; and a device of the regional hub, 3."""

    def make(self, members: Sequence[Member]) -> Merge:
        self.everyone, self.file = members, members[2]
        self.lower = Merge(members[1], members[3:], DEVICES)
        return Merge(members[0], members[1:3])

    def begin(self) -> None:
        self.is_away = False
        merge, below = self.merge.merge, self.lower.merge
        self.merge.hub.execute(*DEFINITIONS, *ROWS)
        merge.add_publication(PUBLICATION)
        for table in COLUMNS:
            where = "region = host_name()" if table == "customer" else None
            merge.add_article(PUBLICATION, table, where=where, compensate_for_errors=True, **self.options)
        for child, parent, condition in FILTERS:
            merge.add_filter(PUBLICATION, child, parent, condition)
        region, file = self.merge.subscribers
        server = SubscriberType.SERVER
        merge.add_subscription(PUBLICATION, region.url, subscriber_type=server, partition=Partition(REGION))
        below.add_publication(DEVICES)
        for table in COLUMNS:
            below.add_article(DEVICES, table, compensate_for_errors=True, **self.options)
        below.add_subscription(DEVICES, self.lower.subscribers[0].url)
        file.execute(*DEFINITIONS, ROWS[0])
        merge.subscribe_existing(PUBLICATION, file.url, Existing.KEEP, partition=Partition(REGION))

    def attempt(self, member: int, statement: str) -> bool:
        return attempt(self.everyone[member], statement)

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION, note=TEXTS)
    def insert_customer(self, member: int, key: int, region: str, note: str | None) -> None:
        values = f"{key}, {written(region)}, {written(note)}"
        self.attempt(member, f"insert into customer (id, region, note) values ({values})")

    @rule(member=MEMBERS, key=KEYS, customer=KEYS, line=KEYS)
    def insert_order(self, member: int, key: int, customer: int, line: int) -> None:
        self.attempt(member, f"insert into orders (id, customer_id) values ({key}, {customer})")
        self.attempt(member, f"insert into line (id, order_id) values ({line}, {key})")

    @rule(member=MEMBERS, table=TABLES, key=KEYS, note=TEXTS)
    def update(self, member: int, table: str, key: int, note: str | None) -> None:
        self.attempt(member, f"update {table} set note = {written(note)} where id = {key}")

    @rule(member=MEMBERS, key=KEYS, region=ANY_REGION)
    def move_customer(self, member: int, key: int, region: str) -> None:
        self.attempt(member, f"update customer set region = {written(region)} where id = {key}")

    @rule(member=MEMBERS, match=st.sampled_from(MATCHES), key=KEYS, to=KEYS)
    def move(self, member: int, match: Match, key: int, to: int) -> None:
        table, column, _, _ = match
        self.attempt(member, f"update {table} set {column} = {to} where id = {key}")

    @rule(member=MEMBERS, table=TABLES, key=KEYS)
    def delete(self, member: int, table: str, key: int) -> None:
        self.attempt(member, f"delete from {table} where id = {key}")

    @rule()
    def synchronise_below(self) -> None:
        self.lower.sync()

    @rule(commits=COMMITS, is_before=st.booleans())
    def synchronise_below_cut(self, commits: int, is_before: bool) -> None:  # noqa: FBT001 - of the rule
        self.lower.cut_sync(0, commits, is_before=is_before)

    @precondition(lambda self: not self.is_away)
    @rule()
    def leave(self) -> None:
        """End the file's subscription; its program goes on."""
        try:
            self.merge.merge.drop_subscription(PUBLICATION, self.file.url, upload_first=True)
        except ChangesNotUploaded:
            return
        self.is_away = True
        self.merge.subscribers = self.merge.subscribers[:1]

    @precondition(lambda self: self.is_away)
    @rule(existing=st.sampled_from(Existing))
    def come_back(self, existing: Existing) -> None:
        """Subscribe with what the file has."""
        partition = Partition(REGION)
        self.merge.merge.subscribe_existing(PUBLICATION, self.file.url, existing, partition=partition)
        self.merge.subscribers = [*self.merge.subscribers, self.file]
        self.is_away = False

    def come_to_rest(self) -> None:
        """After quiet rounds each has what the model says, foreign keys hold, and two more rounds move nothing."""
        if self.is_away:
            self.come_back(Existing.KEEP)
        for _ in range(3):
            self._synchronise_all()
        rows = rows_of(self.merge.hub, COLUMNS)
        roots = {"customer": {row["id"] for row in rows["customer"] if row["region"] == REGION}}
        for member in (*self.merge.subscribers, *self.lower.subscribers):
            require_rows(member, rows, belonging(rows, roots, MATCHES))
        self.require_valid()
        for merge in (self.merge, self.lower):
            require_foreign_keys(merge)
        assert not any(self._synchronise_all() for _ in range(2))

    def _synchronise_all(self) -> bool:
        """Synchronise from the lowest up and down again; return whether anything moved."""
        done = [*self.lower.settle(1), *self.merge.settle(2), *self.lower.settle(1)]
        return not all(summary.is_quiet for summary in done)
