"""A table is altered between the rows between which the publisher altered it, whatever waits to be checked there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase, list_left_out
from builders.replication.replicated_files import ReplicatedFile
from builders.servers.ddl import forget_triggers
from rowtide.log import reader
from rowtide.replication.subscription_settings import SubscriptionSettings, SyncType

TABLES = ("orders", "lines", "notes", "parts")
DEFINITIONS = (
    "create table orders (id int primary key, customer text)",
    "create table lines (id int primary key, of int references orders on update cascade on delete cascade, qty int)",
    "create table notes (id int primary key, about int references orders on update cascade on delete set null)",
    """create table parts (id int primary key, whole int references parts deferrable initially deferred,
    of int not null references orders on update cascade deferrable initially deferred)""",
)
ROWS = (
    "insert into orders select i, 'c' || i from generate_series(1, 6) i",
    "insert into lines select i, 1 + i % 6, i from generate_series(1, 12) i",
    "insert into notes select i, 1 + i % 6 from generate_series(1, 6) i",
    "insert into parts select i, nullif(i - 1, 0), 6 from generate_series(1, 6) i",
)
MOVED = "update orders set id = id + 10"

TRANSACTIONS = {
    "keys on both sides": (MOVED, "alter table lines add note text default 'n'", MOVED),
    "keys on all sides": (
        MOVED,
        "alter table lines add note text",
        MOVED,
        "alter table orders rename customer to buyer",
        MOVED,
        "alter table notes add note text",
        MOVED,
    ),
    "rows that go": (
        "delete from orders where id = 1",
        "alter table lines drop qty",
        "delete from orders where id = 2",
        "alter table notes add note text",
        "delete from orders where id = 3",
        "set constraints all immediate",
        "alter table orders add more int default 7",
        "insert into orders values (9, 'new', 8)",
        "insert into lines values (99, 9)",
        "delete from orders where id = 4",
    ),
    "all of a table": (
        MOVED,
        "alter table lines rename to positions",
        "insert into positions values (91, 11, 1)",
        MOVED,
        "alter table positions alter qty type bigint",
        "insert into positions values (92, 21, 5000000000)",
        "update positions set qty = -qty where id < 4",
        MOVED,
        "alter table positions drop qty, add kind text default 'k'",
        "insert into positions values (93, 31, 'own')",
        "alter table positions rename to lines",
        "delete from orders where id = 32",
    ),
    "a key of another type": (
        MOVED,
        "alter table lines alter of type bigint",
        MOVED,
        "set constraints all immediate",
        "alter table orders alter id type bigint",
        "alter table parts alter of type bigint",
        MOVED,
        "alter table notes drop about",
        "update orders set id = id + 5000000000",
    ),
    "checks that wait elsewhere": (
        "insert into parts values (20, 21, 1), (22, null, 77)",
        "alter table lines add note text",
        "insert into lines values (50, 2, 1, 'n')",
        "alter table notes rename to remarks",
        "insert into parts values (21, null, 1)",
        "alter table remarks rename to notes",
        "insert into orders values (77, 'late')",
    ),
    "checks that have been made": (
        "insert into parts values (20, 21, 1), (21, null, 1)",
        "set constraints all immediate",
        "alter table parts add note text",
        "set constraints all deferred",
        "insert into parts values (30, 31, 1, 'n')",
        "insert into parts values (31, null, 1, 'm')",
    ),
    "nulls": (
        "update parts set of = 2 where id = 1",
        "set constraints all immediate",
        "alter table parts alter of drop not null",
        "insert into parts values (9, null, null)",
        "update parts set of = null where id = 3",
        "set constraints all immediate",
        "update parts set of = 1 where of is null",
        "set constraints all immediate",
        "alter table parts alter of set not null",
    ),
    "what was taken back": (
        MOVED,
        "savepoint one",
        "alter table lines add note text",
        "insert into lines values (50, 12, 1, 'n')",
        MOVED,
        "rollback to one",
        "alter table lines add remark text default 'r'",
        "savepoint two",
        MOVED,
        "alter table notes add remark text",
        "release two",
        MOVED,
    ),
}


def begin(replicated: ReplicatedDatabase | ReplicatedFile, **options: Any) -> None:
    """Publish tables with keys that cascade, and copy them."""
    replicated.publish(*DEFINITIONS, *ROWS, **{table: {} for table in TABLES})
    replicated.subscribe(SyncType.AUTOMATIC, **options)
    replicated.deliver()
    replicated.deliver()


def write(replicated: ReplicatedDatabase | ReplicatedFile, statements: Sequence[str]) -> None:
    """Run statements in one transaction."""
    with replicated.publisher.transaction() as writer:
        for statement in statements:
            writer.execute(statement.encode())


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_tables_are_altered_where_the_log_has_it(replicated: ReplicatedDatabase, name: str) -> None:
    begin(replicated)
    write(replicated, TRANSACTIONS[name])
    replicated.deliver()

    assert list_left_out(replicated) == ()
    replicated.require_equal(*TABLES)


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_tables_of_a_file_are_altered_there(replicated_file: ReplicatedFile, name: str) -> None:
    begin(replicated_file)
    write(replicated_file, TRANSACTIONS[name])
    replicated_file.deliver()

    replicated_file.require_equal(*TABLES)


@pytest.mark.parametrize("name", TRANSACTIONS)
def test_tables_are_altered_beside_streams(replicated: ReplicatedDatabase, name: str) -> None:
    begin(replicated, settings=SubscriptionSettings(streams=4))
    write(replicated, TRANSACTIONS[name])
    replicated.deliver()

    assert list_left_out(replicated) == ()
    replicated.require_equal(*TABLES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TRANSACTIONS)
def test_a_transaction_in_parts_is_followed(
    replicated: ReplicatedDatabase, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(replicated)
    monkeypatch.setattr(reader, "MAX_BATCH_MESSAGES", 5)
    write(replicated, TRANSACTIONS[name])
    replicated.deliver()

    assert list_left_out(replicated) == ()
    replicated.require_equal(*TABLES)


FOLLOWED = ("keys on both sides", "keys on all sides", "rows that go", "what was taken back")
"""Transactions that are told by the rows' forms alone."""


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_is_inferred_has_a_place(replicated: ReplicatedDatabase, name: str) -> None:
    begin(replicated)
    forget_triggers(replicated.publisher)
    write(replicated, TRANSACTIONS[name])
    replicated.deliver()

    assert list_left_out(replicated) == ()
    replicated.require_equal(*TABLES)


def test_what_fits_no_place_is_copied(replicated: ReplicatedDatabase) -> None:
    """Cascades of its own rows come after the first possible place, those that bring it rows before the last one."""
    tables = ("orders", "lines", "details")
    replicated.publish(
        "create table orders (id int primary key)",
        "create table lines (id int primary key, of int references orders on update cascade)",
        "create table details (id int primary key, line int references lines on delete cascade)",
        "insert into orders select generate_series(1, 3)",
        "insert into lines select i, i from generate_series(1, 3) i",
        "insert into details select i, i from generate_series(1, 3) i",
        **{table: {} for table in tables},
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    forget_triggers(replicated.publisher)
    write(replicated, (MOVED, "delete from lines where id = 1", "alter table lines add note text", MOVED))
    replicated.publisher.execute("update lines set note = 'n' where id = 2")
    # Keys stay until the copy begins, and other tables wait for it: both at once.
    replicated.replication.run(once=True)

    assert list_left_out(replicated) == ()
    replicated.require_equal(*tables)


def test_a_partitioned_table_is_altered_in_order(replicated: ReplicatedDatabase) -> None:
    replicated.publish(
        "create table orders (id int primary key)",
        """create table lines (id int primary key, of int references orders on update cascade on delete cascade)
        partition by range (id)""",
        "create table lines_1 partition of lines for values from (1) to (100)",
        "create table lines_rest partition of lines default",
        "insert into orders values (1), (2), (3)",
        "insert into lines select i * 40, i from generate_series(1, 3) i",
        orders={},
        lines={},
    )
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    replicated.deliver()
    write(
        replicated,
        (
            MOVED,
            "alter table lines add note text default 'n'",
            MOVED,
            "alter table lines rename note to remark",
            "delete from orders where id = 22",
            "insert into lines values (7, 21, 'own'), (200, 21, null)",
            MOVED,
        ),
    )
    replicated.deliver()

    query = "select id, of, remark from lines order by id"
    assert replicated.subscriber.execute(query) == replicated.publisher.execute(query)
