"""What users of change data capture suffer from elsewhere, as far as no other module is about it; without Spark.

`docs/explanation/pains.md` says of each pain what happens here, and which test watches it.
"""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from rowtide.core.operations import Operation
from rowtide.log.opening import open_log_reader

OF_SLOT = "from pg_replication_slots where active_pid is not null and database = current_database()"


def operations(logged: LoggedDatabase) -> Counter[int]:
    return Counter(row["operation"] for row in logged.records())


def test_enum_label_added_during_capture_arrives_with_its_row(logged: LoggedDatabase) -> None:
    logged.execute("create type mood as enum ('calm')", "create table item (id int primary key, mood mood)")
    logged.enable("item")
    logged.execute(
        "insert into item values (1, 'calm')",
        "alter type mood add value 'glad' before 'calm'",
        "insert into item values (2, 'glad')",
        "alter type mood rename value 'glad' to 'happy'",
        "insert into item values (3, 'happy')",
    )
    logged.read_log()
    assert logged.inserted(place=1) == ["calm", "glad", "happy"]


def test_deletes_beside_ddl_in_one_transaction_are_not_dropped(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key, gone text)", "insert into item values (1), (2), (3), (4)")
    logged.enable("item")
    with logged.transaction() as session:
        session.execute("delete from item where id = 1")
        session.execute("alter table item add column more int default 7")
        session.execute("delete from item where id = 2")
        session.execute("alter table item drop column gone")
        session.execute("delete from item where id = 3")
    logged.execute("delete from item where id = 4")
    logged.read_log()
    deleted = [row["before"][0] for row in logged.records() if row["operation"] == Operation.DELETE]
    assert deleted == ["1", "2", "3", "4"]


def test_delete_and_reinsert_of_a_key_keep_their_order(
    logged: LoggedDatabase,
) -> None:
    logged.execute("create table item (id int primary key, note text)", "insert into item values (1, 'a'), (2, 'a')")
    logged.enable("item")
    with logged.transaction() as session:
        session.execute("delete from item where id = 1")
        session.execute("insert into item values (1, 'b')")
    logged.execute("delete from item where id = 2", "insert into item values (2, 'b')")
    logged.read_log()
    found = [(row["operation"], (row["before"] or row["after"])[0], row["seqval"]) for row in logged.records()]
    delete, insert = int(Operation.DELETE), int(Operation.INSERT)
    assert found == [(delete, "1", 1), (insert, "1", 2), (delete, "2", 1), (insert, "2", 1)]


@pytest.mark.exhaustive
def test_table_is_added_under_load_without_a_restart(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)", "create table late (id int primary key)")
    logged.enable("item")
    with open_log_reader(logged.url) as reader:
        for number in range(30):
            logged.execute(f"insert into item values ({number}); insert into late values ({number})")
            if number == 10:
                logged.cdc.enable_table("late")
            reader.step()
        target = logged.mark()
        wait_until(lambda: reader.step() is not None and logged.manifest().state.position.log > target, what="the log")
    assert operations(logged) == {Operation.INSERT: 30 + 19}


def test_slot_of_a_vanished_reader_is_taken_over_once_released(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    stop = threading.Event()

    def hold() -> None:
        with open_log_reader(logged.url) as reader:
            while not stop.is_set():
                reader.step()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        wait_until(lambda: logged.execute(f"select count(*) {OF_SLOT}") == [(1,)], what="the first reader")
        logged.execute("insert into item values (1)")
    finally:
        stop.set()
        holder.join()
    # At once, whether or not the server has noticed that the first one has gone.
    logged.read_log()
    assert logged.inserted() == ["1"]
