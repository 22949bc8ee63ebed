"""A gap that is bridged: what it changed in the captured tables is one transaction, and nobody starts again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.failpoints import LOG_BRIDGE_FAILPOINTS
from builders.lakes.base_tables import table_of
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.servers.standbys import standby_of
from builders.values.typed_tables import COLUMNS, TABLE, create_typed_table, input_of, read_texts
from fixtures.servers import SETTINGS
from rowtide.cdc.change_columns import pack_mask
from rowtide.cdc.errors.capturing import DifferenceImpossible
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect, open_lake
from rowtide.log.errors import HistoryDiverged, ServerPromoted, SlotInvalidated, SlotMissing
from rowtide.replication.subscription_settings import SyncType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = (
    """
    create table orders (id int primary key, customer text, total numeric(10, 2), is_paid bool, seen timestamptz,
                         price float8)
    """,
    """
    insert into orders select i, 'customer ' || i, i / 4.0, i % 2 = 0,
           timestamptz '2024-02-29 12:00:00.5+00' + i * interval '1 hour', i / 3.0 from generate_series(1, 100) i
    """,
)
GAP = (
    "delete from orders where id <= 3",
    "insert into orders values (2, 'came back', 'NaN', null, 'infinity', '-0')",
    "update orders set customer = 'x' where id = 50",
    "update orders set id = 500 where id = 60",
    "update orders set seen = seen where id = 70",
    """insert into orders select 600, e'odd, "text"\\n', 1.50, true, now(), 'NaN'""",
)


def begin(copied: CapturedDatabase, *tables: str) -> None:
    """Capture tables with their rows, and a change."""
    copied.enable(*tables, snapshot=True)
    copied.copy_tables()
    copied.execute("update orders set total = 7 where id = 10")
    copied.capture()


def lose_slot(copied: CapturedDatabase, *gap: str) -> None:
    copied.drop_slot()
    copied.execute(*gap)


def changes(copied: CapturedDatabase, *columns: str, row_filter: str = "all update old") -> list[tuple[Any, ...]]:
    """Return operation and columns of the change rows of orders, by key."""
    rows = open_lake(str(copied.lake)).get_all_changes("public_orders", row_filter_option=row_filter).to_arrow()
    found = rows.read_all().to_pylist()
    return sorted(
        (tuple(row[name] for name in ("__$operation", *columns)) for row in found), key=lambda row: (row[1], row[0])
    )


def require_equal(copied: CapturedDatabase, instance: str = "public_orders", table: str = "orders") -> None:
    """The table as of the last LSN is the source's, by its own text."""
    in_lake = table_of(copied, instance, "id", "customer", key=("id",))
    assert in_lake == sorted(copied.execute(f"select id, customer from {table}"), key=repr)


def test_what_a_lost_slot_missed_is_one_transaction(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    begin(copied, "orders")
    before = copied.cdc.get_validity_interval("public_orders")
    lose_slot(copied, *GAP)
    with pytest.raises(SlotMissing):
        copied.read_log()
    bridged = copied.cdc.bridge_gap("a test")
    copied.execute("update orders set customer = 'later' where id = 1000 or id = 80")
    copied.capture()

    assert changes(copied, "id", "customer") == [
        (1, 1, "customer 1"),
        (3, 2, "customer 2"),
        (4, 2, "came back"),
        (1, 3, "customer 3"),
        (3, 10, "customer 10"),
        (4, 10, "customer 10"),
        (3, 50, "customer 50"),
        (4, 50, "x"),
        (1, 60, "customer 60"),
        (3, 80, "customer 80"),
        (4, 80, "later"),
        (2, 500, "customer 60"),
        (2, 600, 'odd, "text"\n'),
    ]
    assert bridged.rows == 7
    masks = {key: mask for operation, key, mask in changes(copied, "id", "__$update_mask") if operation == 4}
    assert (masks[2], masks[50]) == (pack_mask([2, 3, 4, 5, 6], 6), pack_mask([2], 6))
    after = copied.cdc.get_validity_interval("public_orders")
    assert (after.low, after.high > bridged.lsn > before.high) == (before.low, True)
    require_equal(copied)
    state = copied.manifest().state
    assert [(gap.after.epoch, gap.before.epoch, len(gap.bridged)) for gap in state.gaps] == [(0, 1, 1)]


@pytest.mark.exhaustive
def test_a_gap_without_changes_is_crossed(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS)
    begin(copied, "orders")
    lose_slot(copied)
    assert copied.cdc.bridge_gap("a test").rows == 0
    copied.execute("delete from orders where id = 1")
    copied.capture()
    assert changes(copied, "id")[0] == (1, 1)
    require_equal(copied)


@pytest.mark.exhaustive
def test_instances_without_key_or_snapshot_are_named(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS, "create table bag (n int)", "create table other (id int primary key)")
    copied.enable("orders", "bag", snapshot=True)
    copied.enable("other")
    copied.copy_tables()
    lose_slot(copied)
    with pytest.raises(DifferenceImpossible) as refused:
        copied.cdc.bridge_gap("a test")
    assert "public_bag: its table has no key; public_other: " in str(refused.value)
    assert "public_orders" not in str(refused.value)
    assert copied.manifest().state.epoch == 0


@pytest.mark.exhaustive
def test_instances_that_cannot_be_compared_begin_again(copied: CapturedDatabase) -> None:
    copied.execute(*ORDERS, "create table bag (n int)")
    begin(copied, "orders", "bag")
    before = copied.cdc.get_validity_interval("public_orders")
    lose_slot(copied, "insert into bag values (1)", "delete from orders where id = 1")
    ended = rowtide("cdc", "reinitialize", "--difference", "--yes", "--db", copied.url)
    assert ended.code == 0, ended.errors
    assert "public_bag gets nothing of them" in ended.errors
    copied.execute("insert into bag values (2)")
    copied.capture()
    assert copied.cdc.get_validity_interval("public_orders").low == before.low
    assert copied.cdc.get_validity_interval("public_bag").low > before.high
    assert changes(copied, "id")[0] == (1, 1)
    rows = open_lake(str(copied.lake)).get_all_changes("public_bag").to_arrow().read_all()
    assert rows["n"].to_pylist() == [2]


@pytest.mark.exhaustive
def test_a_slot_that_fell_too_far_behind_is_bridged(scarce: LoggedDatabase) -> None:
    """Each switch of the log leaves a segment of 16 MB behind."""
    copied = CapturedDatabase(scarce.url, scarce.lake, scarce.session, cast("SparkSession", None))
    copied.execute(*ORDERS)
    begin(copied, "orders")
    for _ in range(8):
        copied.execute("update orders set customer = customer || '!' where id = 20", "select pg_switch_wal()")
    copied.execute("checkpoint")
    with pytest.raises(SlotInvalidated, match="max_slot_wal_keep_size"):
        copied.read_log()
    [finding] = [found for found in connect(copied.url).check() if "was invalidated" in found.message]
    assert str(finding.remediation) == "rowtide cdc reinitialize --difference"
    assert copied.cdc.bridge_gap("a test").rows == 1
    copied.capture()
    assert (4, 20, "customer 20!!!!!!!!") in changes(copied, "id", "customer")
    require_equal(copied)


@pytest.mark.exhaustive
def test_a_slot_that_was_not_read_for_long_is_bridged(scarce: LoggedDatabase) -> None:
    """The server names the timeout, and invalidates at a checkpoint."""
    copied = CapturedDatabase(scarce.url, scarce.lake, scarce.session, cast("SparkSession", None))
    copied.execute(*ORDERS)
    begin(copied, "orders")
    copied.execute(
        "update orders set customer = 'late' where id = 20",
        "alter system set idle_replication_slot_timeout = '1s'",
        "select pg_reload_conf()",
        "select pg_sleep(2)",
        "select pg_switch_wal()",
        "checkpoint",
        "alter system reset idle_replication_slot_timeout",
        "select pg_reload_conf()",
    )
    with pytest.raises(SlotInvalidated, match="idle_replication_slot_timeout"):
        copied.read_log()
    assert copied.cdc.bridge_gap("a test").rows == 1
    copied.capture()
    assert (4, 20, "late") in changes(copied, "id", "customer")
    require_equal(copied)


@pytest.mark.exhaustive
def test_publications_beside_capture_go_on(replicated: ReplicatedDatabase) -> None:
    logged = replicated.publisher
    publisher = CapturedDatabase(logged.url, logged.lake, logged.session, cast("SparkSession", None))
    tables = (
        "create table customers (id int primary key, name text)",
        "create table orders (id int primary key, customer int references customers, total numeric(10, 2))",
    )
    replicated.publish(*tables, customers={}, orders={})
    publisher.execute(
        "insert into customers select i, 'customer ' || i from generate_series(1, 20) i",
        "insert into orders select i, i % 20 + 1, i from generate_series(1, 100) i",
    )
    publisher.enable("customers", "orders", snapshot=True)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.deliver()
    publisher.copy_tables()
    publisher.execute("update orders set total = 0 where id = 1")
    lose_slot(
        publisher,
        "insert into customers values (21, 'new')",
        "update orders set customer = 21 where customer = 5",
        "delete from customers where id = 5",
        "insert into orders values (101, 21, 1.5)",
    )
    publisher.cdc.bridge_gap("a test")
    publisher.execute("update customers set name = 'later' where id = 21")
    publisher.capture()
    replicated.deliver()
    replicated.require_equal("customers", "orders")


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", LOG_BRIDGE_FAILPOINTS)
def test_a_bridge_that_was_killed_is_repeated(copied: CapturedDatabase, failpoint: str) -> None:
    copied.execute(*ORDERS)
    begin(copied, "orders")
    lose_slot(copied, *GAP)
    words = ("cdc", "reinitialize", "--difference", "--yes", "--db", copied.url)
    killed = rowtide_process(*words, environment={"ROWTIDE_FAILPOINT": failpoint})
    assert killed.code == -9
    copied.execute("update orders set customer = 'between' where id = 90")
    ended = rowtide(*words)
    assert ended.code == 0, ended.errors
    assert "Reconciled: " in ended.errors
    copied.execute("update orders set customer = 'later' where id = 91")
    copied.capture()
    require_equal(copied)
    assert len(changes(copied, "id")) == 15


@pytest.mark.exhaustive
def test_values_of_every_type_are_compared_as_they_are(copied: CapturedDatabase) -> None:
    create_typed_table(copied.session)
    version = copied.session.info.server_version // 10000
    casts = ", ".join(f"%s::{samples.type_text}" for samples in COLUMNS.values())
    insert = f"insert into {TABLE} values (%s, {casts})".encode()
    for number in range(12):
        values = (input_of(samples, number, version) for samples in COLUMNS.values())
        copied.session.execute(insert, [number, *values])
    copied.enable(TABLE, snapshot=True)
    copied.copy_tables()
    listed = ", ".join(COLUMNS)
    lose_slot(copied, f"insert into {TABLE} select id + 100, {listed} from {TABLE}")
    assert copied.cdc.bridge_gap("a test").rows == 12
    printed = read_texts(copied.url, TABLE, ("id", *COLUMNS))
    inserted = {row["after"][0]: row["after"] for row in copied.records()}
    assert inserted == {row[0]: list(row) for row in printed if len(row[0] or "") == 3}


@pytest.mark.exhaustive
def test_keys_of_log_and_partitions_are_bridged(copied: CapturedDatabase) -> None:
    copied.execute(
        "create table parted (id int primary key, customer text) partition by hash (id)",
        "create table parted_0 partition of parted for values with (modulus 2, remainder 0)",
        "create table parted_1 partition of parted for values with (modulus 2, remainder 1)",
        "insert into parted select i, repeat('n', i) from generate_series(1, 50) i",
        "create table lean (id int primary key, customer text)",
        "insert into lean select i, 'n' from generate_series(1, 50) i",
    )
    copied.enable("parted", snapshot=True)
    copied.cdc.enable_table("lean", before_images=BeforeImages.KEY)
    copied.copy_tables()
    copied.execute("update lean set customer = 'm' where id < 5")
    copied.capture()
    lose_slot(
        copied,
        *(f"delete from {table} where id = 1" for table in ("parted", "lean")),
        *(f"update {table} set customer = 'x' where id = 2" for table in ("parted", "lean")),
        *(f"insert into {table} values (99, null)" for table in ("parted", "lean")),
    )
    assert copied.cdc.bridge_gap("a test").rows == 6
    copied.capture()
    for table in ("parted", "lean"):
        require_equal(copied, f"public_{table}", table)


@pytest.mark.exhaustive
def test_what_a_failover_lost_is_taken_back(tmp_path: Path) -> None:
    with (
        EmbeddedServer.start(tmp_path / "primary", settings=SETTINGS) as primary,
        psycopg.connect(primary.url(), autocommit=True) as session,
    ):
        captured = CapturedDatabase(primary.url(), tmp_path / "lake", session, cast("SparkSession", None))
        captured.execute(*ORDERS)
        begin(captured, "orders")
        with standby_of(primary, tmp_path / "standby", {}) as standby:
            standby.wait_for(primary)
            standby.disconnect()
            captured.execute("delete from orders where id = 5", "update orders set customer = 'lost' where id = 6")
            captured.capture()
            primary.stop("immediate")
            standby.promote()
            url = standby.server.url()
            with psycopg.connect(url, autocommit=True) as promoted:
                after = CapturedDatabase(url, tmp_path / "lake", promoted, cast("SparkSession", None))
                after.execute("update orders set customer = 'kept' where id = 7")
                with pytest.raises((HistoryDiverged, ServerPromoted)):
                    after.read_log()
                ended = rowtide("cdc", "reinitialize", "--difference", "--yes", "--db", url)
                assert ended.code == 0, ended.errors
                assert "this server was promoted" in ended.errors
                after.execute("update orders set customer = 'later' where id = 8")
                after.capture()
                require_equal(after)
                assert (2, 5, "customer 5") in changes(after, "id", "customer")
                assert (4, 6, "customer 6") in changes(after, "id", "customer")
