"""A shop of music whose sales representatives take their customers along, after the sample database Chinook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from builders.faults.failpoints import MERGE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from builders.merge_machines.join_machines import Match, belonging, require_rows, rows_of
from builders.merge_machines.merge_machine_base import attempt
from rowtide.merge.articles import Partition

COLUMNS = {
    "employee": ("id", "last_name", "reports_to"),
    "track": ("id", "name", "cents"),
    "customer": ("id", "last_name", "support_rep_id"),
    "invoice": ("id", "customer_id", "cents"),
    "invoice_line": ("id", "invoice_id", "track_id", "quantity"),
}
DEFINITIONS = (
    (
        "create table employee (id integer primary key, last_name varchar(20), "
        "reports_to integer references employee (id))"
    ),
    "create table track (id integer primary key, name varchar(20), cents integer not null)",
    (
        "create table customer (id integer primary key, last_name varchar(20), "
        "support_rep_id integer references employee (id))"
    ),
    (
        "create table invoice (id integer primary key, customer_id integer not null references customer (id), "
        "cents integer)"
    ),
    (
        "create table invoice_line (id integer primary key, invoice_id integer not null references invoice (id), "
        "track_id integer not null references track (id), quantity integer not null)"
    ),
)
JOINS = (
    # A representative's superiors come along, because the foreign key needs them.
    ("employee", "employee", "parent.reports_to = employee.id"),
    ("customer", "employee", "customer.support_rep_id = employee.id"),
    ("invoice", "customer", "invoice.customer_id = customer.id"),
    ("invoice_line", "invoice", "invoice_line.invoice_id = invoice.id"),
    ("track", "invoice_line", "invoice_line.track_id = track.id"),
)
MATCHES: tuple[Match, ...] = (
    ("employee", "id", "employee", "reports_to"),
    ("customer", "support_rep_id", "employee", "id"),
    ("invoice", "customer_id", "customer", "id"),
    ("invoice_line", "invoice_id", "invoice", "id"),
    ("track", "id", "invoice_line", "track_id"),
)
REPRESENTATIVES = (3, 4, 5)
_PROGRAM = f"""
import sys
from rowtide.merge.api import MergeReplication
MergeReplication(sys.argv[1]).sync({PUBLICATION!r}, sys.argv[2])
"""
_CUSTOMERS, _TRACKS = range(1, 13), range(1, 21)
ROWS = (
    (
        "insert into employee values (1, 'Adams', null), (2, 'Edwards', 1), (3, 'Peacock', 2), (4, 'Park', 2), "
        "(5, 'Johnson', 2), (6, 'Mitchell', 1)"
    ),
    f"insert into track values {', '.join(f'({n}, $t{n}$, 99)'.replace('$', chr(39)) for n in _TRACKS)}",
    f"insert into customer values {', '.join(f'({n}, null, {3 + n % 4})' for n in _CUSTOMERS)}",
    f"insert into invoice values {', '.join(f'({n}, {n}, 198)' for n in _CUSTOMERS)}",
    f"insert into invoice_line values {', '.join(f'({n}, {n}, {n}, 2)' for n in _CUSTOMERS)}",
)


@dataclass
class Shop:
    """The hub and the devices of three representatives, at work at random."""

    merged: Merge
    random: Random
    numbers: dict[int, int] = field(default_factory=dict)
    """The last number that each member gave to a row, in a range of its own."""
    cut: int = 0
    killed: int = 0

    def begin(self) -> None:
        merged = self.merged
        merged.hub.execute(*DEFINITIONS, *ROWS)
        merged.merge.add_publication(PUBLICATION)
        for table in COLUMNS:
            where = "id = cast(host_name() as int)" if table == "employee" else None
            merged.merge.add_article(PUBLICATION, table, where=where, column_tracking=table == "customer")
        for child, parent, condition in JOINS:
            merged.merge.add_filter(PUBLICATION, child, parent, condition)
        for subscriber, number in zip(merged.subscribers, REPRESENTATIVES, strict=True):
            merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(str(number)))

    def work(self, edits: int) -> None:
        """Edit at random nodes, and synchronise random devices, half of the times cut off or killed somewhere."""
        for _ in range(edits):
            self._edit(self.random.randrange(len(self.merged.members)))
            if self.random.random() < 0.25:
                number = self.random.randrange(len(self.merged.subscribers))
                ways: tuple[Callable[[int], object], ...] = (self._sync_cut, self._sync_killed, self.merged.sync)
                self.random.choice((*ways, self.merged.sync))(number)

    def _sync_cut(self, number: int) -> None:
        """Synchronise a device over a connection that breaks at a commit."""
        is_before = self.random.random() < 0.5
        self.cut += self.merged.cut_sync(number, self.random.randint(1, 9), is_before=is_before)

    def _sync_killed(self, number: int) -> None:
        """Synchronise a device in a process that is killed beside a commit of one of the ends."""
        arguments = self.merged.hub.url, self.merged.subscribers[number].url
        failpoint = f"{self.random.choice(MERGE_FAILPOINTS)}@{self.random.randint(1, 6)}"
        self.killed += run_program(_PROGRAM, *arguments, failpoint=failpoint) == KILLED

    def require_rest(self) -> None:
        """After quiet rounds each has what the model says, all references hold, and nothing more moves."""
        self.merged.settle(4)
        rows = rows_of(self.merged.hub, COLUMNS)
        for subscriber, number in zip(self.merged.subscribers, REPRESENTATIVES, strict=True):
            require_rows(subscriber, rows, belonging(rows, {"employee": {number}}, MATCHES))
            if isinstance(subscriber, FileMember):
                assert subscriber.execute("pragma foreign_key_check") == []
        assert all(summary.is_quiet for summary in self.merged.settle(2))

    def _edit(self, number: int) -> None:
        member = self.merged.members[number]
        edits = [
            lambda: self._sell(number),
            lambda: self._change(member, "invoice_line", "track_id", "track"),
            lambda: self._change(member, "invoice_line", "invoice_id", "invoice"),
            lambda: self._change(member, "invoice", "customer_id", "customer"),
            lambda: self._change(member, "customer", "support_rep_id", "employee"),
            lambda: self._run(member, "customer", f"update customer set last_name = 'n{self.random.randrange(99)}'"),
            lambda: self._run(member, "invoice_line", "delete from invoice_line"),
            lambda: self._run(member, "invoice", "delete from invoice"),
        ]
        if number == 0:
            edits += [
                lambda: self._change(member, "employee", "reports_to", "employee"),
                lambda: self._change(member, "customer", "support_rep_id", "employee"),
                lambda: self._run(member, "track", "update track set cents = cents + 10"),
            ]
        self.random.choice(edits)()

    def _sell(self, number: int) -> None:
        member = self.merged.members[number]
        customer, track = self._choose(member, "customer"), self._choose(member, "track")
        if customer is not None and track is not None:
            own = self.numbers[number] = self.numbers.get(number, 1000 * (number + 1)) + 1
            attempt(member, f"insert into invoice (id, customer_id, cents) values ({own}, {customer}, 99)")
            values = f"{own}, {own}, {track}, 1"
            attempt(member, f"insert into invoice_line (id, invoice_id, track_id, quantity) values ({values})")

    def _change(self, member: Member, table: str, column: str, to: str) -> None:
        chosen = self._choose(member, to)
        if chosen is not None:
            self._run(member, table, f"update {table} set {column} = {chosen}")

    def _run(self, member: Member, table: str, statement: str) -> None:
        chosen = self._choose(member, table)
        if chosen is not None:
            attempt(member, f"{statement} where id = {chosen}")

    def _choose(self, member: Member, table: str) -> int | None:
        known = member.rows(table, "id")
        return int(self.random.choice(known)[0]) if known else None
