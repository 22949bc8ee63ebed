"""Commands with listed errors are skipped and reported; the rest of their transactions is applied."""

from __future__ import annotations

import pytest

from builders.commands.command_lines import rowtide_process
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile
from rowtide.replication.distribution.run_context import SkippedCommand, Watchers
from rowtide.replication.errors.delivery import BatchRefused, CommandRefused, RowNotFound

ORDERS = "create table orders (id int primary key, qty int not null)"


def run(replicated: ReplicatedDatabase | ReplicatedFile, skip_errors: str = "") -> list[SkippedCommand]:
    """Deliver what is committed; return what was omitted."""
    skipped: list[SkippedCommand] = []
    watchers = Watchers(on_skipped=skipped.append)
    replicated.replication.run(once=True, watchers=watchers, skip_errors=skip_errors)
    return skipped


def test_listed_error_skips_only_its_command_in_the_transaction(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.publisher.execute("insert into orders select i, 0 from generate_series(1, 300) i")
    run(replicated)
    replicated.subscriber.execute("delete from orders where id = 100", "insert into orders values (301, 0)")
    with replicated.writer() as writer:
        writer.execute("update orders set qty = 1")
        writer.execute("insert into orders values (301, 5), (302, 5)")
    skipped = run(replicated, "20598:2627")

    assert replicated.subscriber.execute(
        "select count(*) filter (where qty = 1), count(*) filter (where qty = 5) from orders"
    ) == [(299, 1)]
    assert [type(command.error) for command in skipped] == [RowNotFound, CommandRefused]
    assert "id = 100" in str(skipped[0].error)
    assert "id = 301" in str(skipped[1].error)
    assert skipped[0].error.lsn == skipped[1].error.lsn
    written = replicated.replication.list_errors()
    assert [(error.error_code, error.xact_seqno, error.command_id) for error in written] == [
        ("7114", skipped[1].error.lsn, 301),
        ("20598", skipped[0].error.lsn, 100),
    ]


@pytest.mark.parametrize(
    ("at_the_subscriber", "number"),
    [
        ("alter table orders add check (qty <> 7)", "547"),
        ("alter table orders add check (qty <> 7)", "23514"),
        ("insert into orders values (7, 0)", "2601"),
        (
            (
                "create table known (qty int primary key); insert into known select i from generate_series(1, 20) i "
                "where i <> 7; alter table orders add foreign key (qty) references known"
            ),
            "547",
        ),
    ],
)
def test_every_number_stands_for_its_constraint(
    replicated: ReplicatedDatabase, at_the_subscriber: str, number: str
) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute(at_the_subscriber)
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 20) i")
    skipped = run(replicated, number)

    assert ["id = 7" in str(command.error) for command in skipped] == [True]
    assert replicated.subscriber.execute("select count(*) from orders where qty > 0 and id <> 7") == [(19,)]


def test_an_error_that_is_not_listed_stops_delivery_as_before(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("insert into orders values (2, 0), (5, 0)")
    replicated.publisher.execute(*(f"insert into orders values ({key}, 1)" for key in range(1, 7)))
    with pytest.raises(CommandRefused, match="key id = 2 .23505."):
        run(replicated, "20598:547:515")

    assert replicated.subscriber.execute("select count(*) from orders") == [(2,)]


def test_deferred_constraint_failure_at_commit_is_not_skipped(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute(
        "create table known (qty int primary key)",
        "alter table orders add foreign key (qty) references known deferrable initially deferred",
    )
    replicated.publisher.execute("insert into orders values (1, 1)")
    with pytest.raises(BatchRefused, match="refused to commit a batch .23503."):
        run(replicated, "547")

    assert replicated.subscriber.execute("table orders") == []


@pytest.mark.exhaustive
def test_a_file_is_given_all_but_what_has_a_listed_error(replicated_file: ReplicatedFile) -> None:
    replicated_file.subscriber.execute(ORDERS)
    replicated_file.publish(ORDERS, orders={})
    replicated_file.subscribe()
    replicated_file.subscriber.execute("insert into orders values (2, 0)")
    with replicated_file.publisher.transaction() as writer:
        writer.execute("insert into orders values (1, 1), (2, 1), (3, 1)")
    with pytest.raises(CommandRefused, match="key id = 2 "):
        run(replicated_file, "515")
    skipped = run(replicated_file, "2627")

    assert ["id = 2" in str(command.error) for command in skipped] == [True]
    assert replicated_file.subscriber.execute("select * from orders order by id") == [(1, 1), (2, 0), (3, 1)]


@pytest.mark.exhaustive
def test_the_command_line_prints_what_was_left_out(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ORDERS, orders={})
    replicated.subscriber.execute("insert into orders values (2, 0)")
    replicated.publisher.execute("insert into orders values (1, 1), (2, 1)")
    options = ("replication", "run", "--once", "--db", replicated.publisher.url, "--skip-errors")
    refused = rowtide_process(*options, "2627,515")
    ran = rowtide_process(*options, "2627")

    assert "RT-7170" in refused.errors
    assert ran.code == 0, ran
    assert "skipped: RT-7114: the subscriber refused insert of public.orders with key id = 2 (23505)" in ran.errors
