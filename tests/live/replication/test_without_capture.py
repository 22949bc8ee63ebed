"""A database whose log is read for publications alone: without schema `cdc`, a lake's tables or Spark."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.failpoints import (
    CAPTURE_ADDITION_FAILPOINTS,
    LOG_RESTART_FAILPOINTS,
    SOURCE_FAILPOINTS,
    SOURCE_REMOVAL_FAILPOINTS,
)
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase, let_go, list_subscriptions
from builders.replication.replication_runs import running
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.diagnosis.postgres.views import check
from rowtide.diagnosis.result import State
from rowtide.log.errors import (
    AnnouncementUnreadable,
    DatabaseNotEnabled,
    LeaseHeld,
    LogStillRead,
    SlotMissing,
    TransactionReadable,
)
from rowtide.log.postgres import backlog
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.store import maintenance
from rowtide.log.store.entries import ReaderAdvanced
from rowtide.replication.errors.delivery import ChangesLost
from rowtide.replication.errors.publishing import CaptureReadsLog, LogStoreElsewhere, NothingReadsLog, PublicationExists
from rowtide.replication.errors.subscribing import LsnNotKept
from rowtide.replication.publishing.publisher_log import advance_placeholder
from rowtide.replication.subscribing.readers import keeping, remove_lost_readers
from rowtide.replication.subscription_settings import SyncType

ORDERS = "create table orders (id int primary key, qty int)"
SCHEMAS = "select nspname from pg_namespace where nspname in ('cdc', 'distribution', 'rowtide') order by 1"
SLOTS = "select slot_name from pg_replication_slots where database = current_database()"
WAITING = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
PUBLICATIONS = "select pubname from pg_publication"


def killed_at(replicated: ReplicatedDatabase, failpoint: str, *words: str) -> int:
    """Run a command in a process that a failpoint kills; return how it ended."""
    return rowtide_process(*words, "--db", replicated.publisher.url, environment={"ROWTIDE_FAILPOINT": failpoint}).code


def test_a_database_is_published_and_delivered_without_capture(replicated: ReplicatedDatabase) -> None:
    url, copy = replicated.publisher.url, replicated.subscriber.url
    replicated.publisher.execute(ORDERS, "insert into orders select i, i from generate_series(1, 20) i")
    lake = str(replicated.publisher.lake)
    for words in (
        ("add-publication", PUBLICATION, "--lake", lake),
        ("add-article", PUBLICATION, "public.orders"),
        ("add-subscription", PUBLICATION, "--subscriber", copy),
        ("run", "--once"),
    ):
        ended = rowtide("replication", *words, "--db", url)
        assert ended.code == 0, ended.errors
    replicated.publisher.execute("insert into orders values (21, 1)", "update orders set qty = 0 where id < 5")
    replicated.replication.run(once=True)

    replicated.require_equal("orders")
    assert replicated.publisher.execute(SCHEMAS) == [("distribution",), ("rowtide",)]
    assert sorted(entry.name for entry in replicated.publisher.lake.iterdir()) == ["log"]


def test_first_publication_needs_a_place_that_later_ones_reuse(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    with pytest.raises(NothingReadsLog, match="RT-7153: .*--lake PATH"):
        replicated.replication.add_publication(PUBLICATION)
    assert replicated.publisher.execute(SCHEMAS) == []
    place = str(tmp_path / "log store")
    assert replicated.replication.add_publication(PUBLICATION, log_store=place).source.log_store == place
    assert replicated.replication.add_publication("second", log_store=place).was_there
    for name in (PUBLICATION, "second"):
        replicated.replication.drop_publication(name)
    assert replicated.publisher.execute(SCHEMAS) == []
    lake = str(replicated.publisher.lake)
    assert not replicated.replication.add_publication(PUBLICATION, lake=lake).was_there
    assert replicated.replication.add_publication("second", lake=lake).was_there
    assert replicated.replication.add_publication("third").was_there
    with pytest.raises(PublicationExists):
        replicated.replication.add_publication("second", lake=lake)
    with pytest.raises(LogStoreElsewhere, match=f"RT-7154: .* is {lake}/log, not /nowhere/log"):
        replicated.replication.add_publication("fourth", lake="/nowhere")
    with pytest.raises(LogStoreElsewhere):
        replicated.replication.add_publication("fourth", lake=lake, log_store=str(tmp_path / "elsewhere"))
    assert replicated.replication.add_publication("fourth", lake=lake, log_store=f"{lake}/log").was_there


def test_a_publication_beside_capture_shares_its_log(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.enable()
    assert replicated.replication.add_publication(PUBLICATION).was_there
    assert replicated.replication.add_publication("second", lake=str(replicated.publisher.lake)).was_there
    assert list(replicated.publisher.manifest().state.readers) == ["cdc"]
    replicated.replication.drop_publication("second")
    replicated.replication.drop_publication(PUBLICATION)

    assert replicated.publisher.execute(SCHEMAS) == [("cdc",), ("rowtide",)]
    assert len(replicated.publisher.execute(SLOTS)) == 1
    replicated.publisher.cdc.get_source()


def test_it_says_which_transaction_it_waits_for(
    replicated: ReplicatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "PATIENCE_S", 0.05)
    replicated.publisher.execute(ORDERS)
    lake, is_told = str(replicated.publisher.lake), threading.Event()
    told: list[str] = []

    def note(whom: str) -> None:
        told.append(whom)
        is_told.set()

    with replicated.writer() as forgotten:
        forgotten.execute("insert into orders values (1)")
        adding = threading.Thread(
            target=replicated.replication.add_publication, args=(PUBLICATION,), kwargs={"lake": lake, "on_wait": note}
        )
        adding.start()
        assert is_told.wait(30)
        assert f"transaction of pid {forgotten.info.backend_pid} (" in told[0]
    adding.join(30)

    assert len(replicated.publisher.execute(SLOTS)) == 1


def test_nothing_of_capture_takes_it_for_enabled(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    cdc = replicated.publisher.cdc
    for ask in (
        cdc.get_source,
        cdc.status,
        cdc.list_instances,
        cdc.list_jobs,
        cdc.disable_db,
        cdc.get_max_lsn,
        cdc.find_loss,
        cdc.cleanup,
        lambda: cdc.run(once=True),
        lambda: cdc.scan(maxscans=1),
        lambda: cdc.enable_table("orders"),
        lambda: cdc.get_all_changes("public_orders"),
        cdc.list_consumers,
    ):
        with pytest.raises(DatabaseNotEnabled, match="RT-22901"):
            ask()
    ended = rowtide("agent", "run", "--db", replicated.publisher.url)
    assert ended.code == 78
    assert "RT-22901" in ended.errors
    assert "rowtide replication run" in ended.errors


def test_the_last_publication_takes_away_what_was_made(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    replicated.replication.add_publication("second")
    replicated.replication.drop_publication("second")
    assert len(replicated.publisher.execute(SLOTS)) == 1
    replicated.replication.drop_publication(PUBLICATION)

    assert [replicated.publisher.execute(sql) for sql in (SCHEMAS, SLOTS, PUBLICATIONS)] == [[], [], []]
    assert replicated.publisher.execute("select relreplident from pg_class where relname = 'orders'") == [("d",)]
    assert not [path for path in (replicated.publisher.lake / "log").rglob("*") if path.is_file()]
    replicated.publish_alone("create table items (id int primary key)")


def test_it_is_refused_while_something_reads_the_log(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    with AdvisoryLease.take(open_engine(replicated.publisher.url), "log"):
        with pytest.raises(LeaseHeld, match="RT-2108: the log lease is held by"):
            replicated.replication.drop_publication(PUBLICATION)

        assert replicated.publisher.execute("select count(*) from rowtide.members where feature <> 'log'") == [(1,)]
        replicated.replication.add_publication("second")
        replicated.replication.drop_publication("second")


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", SOURCE_FAILPOINTS)
def test_interrupted_publication_is_completed_by_a_repeat(replicated: ReplicatedDatabase, failpoint: str) -> None:
    lake = str(replicated.publisher.lake)
    replicated.publisher.execute(ORDERS)
    assert killed_at(replicated, failpoint, "replication", "add-publication", PUBLICATION, "--lake", lake) == -9
    replicated.replication.add_publication(PUBLICATION, lake=lake)
    replicated.replication.add_article(PUBLICATION, "orders")
    replicated.subscriber.execute(ORDERS)
    replicated.subscribe()
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.replication.run(once=True)

    replicated.require_equal("orders")
    assert maintenance.PLACEHOLDER in replicated.publisher.manifest().state.readers


@pytest.mark.parametrize("failpoint", SOURCE_REMOVAL_FAILPOINTS)
def test_a_drop_that_was_interrupted_is_completed_by_a_repeat(replicated: ReplicatedDatabase, failpoint: str) -> None:
    replicated.publish_alone(ORDERS)
    assert killed_at(replicated, failpoint, "replication", "drop-publication", PUBLICATION, "--yes") == -9
    replicated.replication.drop_publication(PUBLICATION)

    assert [replicated.publisher.execute(sql) for sql in (SCHEMAS, SLOTS, PUBLICATIONS)] == [[], [], []]
    assert not [path for path in (replicated.publisher.lake / "log").rglob("*") if path.is_file()]


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", SOURCE_REMOVAL_FAILPOINTS[1:4])
def test_leftovers_of_an_interrupted_drop_do_not_harm_a_new_one(replicated: ReplicatedDatabase, failpoint: str) -> None:
    replicated.publish_alone(ORDERS)
    assert killed_at(replicated, failpoint, "replication", "drop-publication", PUBLICATION, "--yes") == -9
    assert not replicated.publisher.cdc.enable_db(str(replicated.publisher.lake)).was_enabled
    replicated.replication.drop_publication(PUBLICATION)
    replicated.publish_alone("create table items (id int primary key)")
    replicated.subscriber.execute("create table items (id int primary key)")
    replicated.subscribe()
    replicated.publisher.execute("insert into items values (1)")
    replicated.replication.run(once=True)

    replicated.require_equal("items")


def test_capture_added_later_begins_where_the_log_is_read_to(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.publish_alone(ORDERS)
    replicated.publisher.execute("insert into orders select i, i from generate_series(1, 1000) i")
    replicated.publisher.read_log()
    replicated.publisher.execute("insert into orders values (0, 0)")
    replicated.publisher.read_log()
    before = let_go(replicated.publisher).state
    assert before.low == before.position
    enabled = replicated.publisher.cdc.enable_db(str(tmp_path / "capture"))

    assert not enabled.was_enabled
    assert enabled.source.lake == str(tmp_path / "capture")
    assert enabled.source.log_store == f"{replicated.publisher.lake}/log"
    state = replicated.publisher.manifest().state
    assert list(state.readers) == ["cdc"]
    assert state.readers["cdc"].position == before.position
    assert replicated.publisher.cdc.enable_db(str(tmp_path / "capture")).was_enabled
    assert replicated.publisher.cdc.get_source() == enabled.source


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", CAPTURE_ADDITION_FAILPOINTS)
def test_capture_that_was_interrupted_is_completed_by_a_repeat(replicated: ReplicatedDatabase, failpoint: str) -> None:
    replicated.publish_alone(ORDERS)
    lake = str(replicated.publisher.lake)
    assert killed_at(replicated, failpoint, "cdc", "enable-db", "--lake", lake) == -9
    replicated.publisher.cdc.enable_db(lake)

    assert list(replicated.publisher.manifest().state.readers) == ["cdc"]
    replicated.publisher.cdc.enable_table("orders")


def test_capture_is_not_disabled_beside_an_empty_publication(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.enable()
    replicated.replication.add_publication(PUBLICATION)
    with pytest.raises(LogStillRead, match="there is a publication"):
        replicated.publisher.cdc.disable_db()
    replicated.replication.drop_publication(PUBLICATION)
    assert not replicated.publisher.manifest().state.gaps


def test_the_log_store_lets_go_of_what_no_subscription_needs(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()
    assert replicated.publisher.manifest().state.segments
    assert not let_go(replicated.publisher).state.segments
    replicated.subscriber.execute(ORDERS, "insert into orders values (1, 1)")
    replicated.subscribe()
    replicated.publisher.execute("insert into orders values (2, 2)")
    replicated.publisher.read_log()
    assert let_go(replicated.publisher).state.segments
    replicated.replication.run(once=True)
    replicated.require_equal("orders")

    assert not let_go(replicated.publisher).state.segments


@pytest.mark.exhaustive
def test_a_run_lets_go_by_itself(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    opened = replicated.publisher.manifest().state.readers[maintenance.PLACEHOLDER].position
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.publisher.read_log()
    replicated.replication.run(once=True)

    assert replicated.publisher.manifest().state.readers[maintenance.PLACEHOLDER].position > opened


def test_a_run_adds_no_placeholder_reader_beside_capture(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    with running(replicated):
        replicated.publisher.enable()
    advance_placeholder(open_engine(replicated.publisher.url), replicated.publisher.manifest())

    assert list(replicated.publisher.manifest().state.readers) == ["cdc"]


@pytest.mark.exhaustive
def test_log_is_kept_while_a_subscriber_is_prepared(replicated: ReplicatedDatabase) -> None:
    items = "create table items (id int primary key)"
    replicated.subscriber.execute(ORDERS, items)
    replicated.publish_alone(ORDERS)
    replicated.publisher.execute(items)
    replicated.subscribe()
    [known] = list_subscriptions(replicated.publisher)
    replicated.replication.add_publication("second")
    replicated.replication.add_article("second", "items")
    subscribe = partial(
        replicated.replication.add_subscription,
        "second",
        replicated.subscriber.url,
        sync_type=SyncType.REPLICATION_SUPPORT_ONLY,
    )
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(replicated.subscriber.url) as blocking:
            blocking.execute('lock table rowtide_subscriber."MSreplication_subscriptions" in exclusive mode')
            subscribing = pool.submit(subscribe)
            wait_until(lambda: bool(replicated.subscriber.execute(WAITING)), what="the subscriber is being prepared")
            replicated.publisher.execute("insert into items values (1)", "insert into orders values (1, 1)")
            state = replicated.publisher.read_log()
            # As if the subscription that is known had been delivered.
            replicated.publisher.manifest().append(ReaderAdvanced(known.reader, state.position))
            state = let_go(replicated.publisher).state
            assert state.readers[maintenance.PLACEHOLDER].position == state.position
            assert state.segments
            replicated.publisher.execute("insert into items values (2)")
        subscribing.result(30)
    replicated.replication.run("second", once=True)

    replicated.require_equal("items")


@pytest.mark.exhaustive
def test_reader_of_a_failed_subscription_keeps_no_log(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    # The tables are not there: nothing can be prepared.
    with pytest.raises(RowtideError, match=r"has no table public\.orders"):
        replicated.subscribe()
    assert list(replicated.publisher.manifest().state.readers) == [maintenance.PLACEHOLDER]
    words = ("replication", "add-subscription", PUBLICATION, "--subscriber", replicated.subscriber.url)
    assert killed_at(replicated, "subscription_reader.after", *words) == -9
    assert len(replicated.publisher.manifest().state.readers) == 2
    replicated.replication.run(once=True)

    assert list(replicated.publisher.manifest().state.readers) == [maintenance.PLACEHOLDER]


def test_reader_of_a_subscription_being_added_is_not_removed(
    replicated: ReplicatedDatabase,
) -> None:
    replicated.publish_alone(ORDERS)
    manifest = replicated.publisher.manifest()
    engine = open_engine(replicated.publisher.url)
    with engine.begin() as adding, engine.connect().execution_options(isolation_level="AUTOCOMMIT") as run:
        with keeping(adding, manifest, "new", lambda state: state.position):
            pass
        remove_lost_readers(run, manifest)
        assert "replication/new" in manifest.refresh().readers
        adding.rollback()
        remove_lost_readers(run, manifest)
        assert "replication/new" not in manifest.refresh().readers


def test_changes_that_the_log_store_let_go_cannot_be_begun_with(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    replicated.publisher.execute("insert into orders values (1, 1)")
    first = replicated.publisher.read_log().segments[0].first
    let_go(replicated.publisher)
    replicated.subscriber.execute(ORDERS)

    with pytest.raises(LsnNotKept):
        replicated.subscribe(SyncType.FROM_LSN, lsn=first)
    assert list(replicated.publisher.manifest().state.readers) == [maintenance.PLACEHOLDER]


def test_check_looks_at_the_log_and_not_at_capture(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    replicated.publisher.execute("create unlogged table scratch (id int)")
    url = replicated.publisher.url

    def subjects() -> dict[str, str]:
        stopping = [finding for finding in check(url).results if finding.state is State.FAILING]
        return {finding.subject: f"{finding.message} {finding.remediation}" for finding in stopping}

    assert subjects() == {}
    assert not [
        finding
        for finding in check(url).results
        if "capture instance" in finding.message or "scratch" in finding.subject
    ]
    replicated.publisher.execute(f"select pg_drop_replication_slot(slot_name) from ({SLOTS}) mine")
    found = subjects()
    assert list(found) == ["slot"]
    assert "cdc" not in found["slot"].partition("Command")[2]


@pytest.mark.exhaustive
def test_after_a_gap_log_restarts_and_subscribers_are_recopied(replicated: ReplicatedDatabase) -> None:
    url = replicated.publisher.url
    replicated.publish_alone(ORDERS)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.replication.run(once=True)
    replicated.publisher.execute(f"select pg_drop_replication_slot(slot_name) from ({SLOTS}) mine")
    replicated.publisher.execute("insert into orders values (2, 2)")
    with pytest.raises(SlotMissing, match="rowtide replication restart-log"):
        replicated.replication.run(once=True)
    ended = rowtide("replication", "restart-log", "--yes", "--db", url)
    assert ended.code == 0, ended.errors
    assert f"are not delivered to {replicated.subscriber.url}" in ended.errors.replace("\n", "")
    with pytest.raises(ChangesLost, match="RT-7117: .*the log was restarted"):
        replicated.replication.run(once=True)
    replicated.replication.reinitialize(PUBLICATION)
    replicated.publisher.execute("insert into orders values (3, 3)")
    replicated.replication.run(once=True)
    replicated.require_equal("orders")
    replicated.publisher.execute("update orders set qty = 0")
    replicated.replication.run(once=True)

    replicated.require_equal("orders")
    [gap] = replicated.publisher.manifest().state.gaps
    assert gap.reason == "restarted by hand"


@pytest.mark.exhaustive
def test_behind_a_gap_nothing_is_kept_that_no_subscription_needs(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    replicated.replication.restart_log("a test")
    replicated.replication.run(once=True)

    state = replicated.publisher.manifest().state
    assert list(state.readers) == [maintenance.PLACEHOLDER]
    assert state.readers[maintenance.PLACEHOLDER].position.epoch == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("failpoint", LOG_RESTART_FAILPOINTS)
def test_a_restart_that_was_interrupted_is_completed_by_a_repeat(
    replicated: ReplicatedDatabase, failpoint: str
) -> None:
    replicated.publish_alone(ORDERS)
    assert killed_at(replicated, failpoint, "replication", "restart-log", "--yes") == -9
    replicated.replication.restart_log("a test")
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.replication.run(once=True)

    replicated.require_equal("orders")


def test_beside_capture_the_log_is_not_restarted(replicated: ReplicatedDatabase) -> None:
    replicated.publisher.enable()
    replicated.replication.add_publication(PUBLICATION)
    with pytest.raises(CaptureReadsLog, match="change data capture reads the same log"):
        replicated.replication.restart_log("a test")


def test_readable_transaction_cannot_be_skipped_without_capture(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    with pytest.raises(TransactionReadable):
        replicated.publisher.cdc.skip_transaction(CommitLsn.parse("0/1"))


@pytest.mark.exhaustive
def test_unreadable_transaction_is_skipped_without_capture(replicated: ReplicatedDatabase) -> None:
    replicated.publish_alone(ORDERS)
    replicated.subscribe(SyncType.AUTOMATIC)
    replicated.publisher.execute("insert into orders values (1, 1)")
    replicated.deliver()
    with replicated.writer() as writer:
        writer.execute("insert into orders values (2, 2)")
        writer.execute("insert into rowtide.control (kind, content) values ('enable', 'no member')")
    replicated.publisher.execute("insert into orders values (3, 3)")
    with pytest.raises(AnnouncementUnreadable) as stopped:
        replicated.publisher.read_log()
    replicated.publisher.cdc.skip_transaction(CommitLsn.parse(stopped.value.lsn))

    with pytest.raises(ChangesLost):
        replicated.deliver()
    assert replicated.subscriber.execute("select id from orders") == [(1,)]
    replicated.replication.reinitialize(PUBLICATION)
    replicated.deliver()
    replicated.require_equal("orders")
