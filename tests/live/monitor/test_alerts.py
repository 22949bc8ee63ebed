"""Alerts and panels, evaluated by a Prometheus that scrapes a monitor of databases with work and with faults."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.monitor.prometheus import Labels, scraping
from builders.monitor.rules import list_alerts, list_panels
from builders.monitor.scrapes import MERGED, do_everything, monitoring
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.small_disks import fill, small_disk
from rowtide.handle import connect
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.replication.errors.delivery import RowNotFound

EXPRESSIONS = {alert.name: alert.expression for alert in list_alerts()}
WITHOUT_DATA = {
    "Rows left to copy": "no table is copied",
    "Lag of targets": "nothing was applied to the target",
    "Errors of cycles, in an hour": "no cycle has failed",
    "Errors of agents, in an hour": "no agent has failed",
    "Conflicts delivered, in an hour": "nothing is delivered here",
    "Since the last success of jobs": "no job has ended",
    "Starts and retries of jobs, in an hour": "no job has run",
}


def test_each_panel_has_data_of_a_busy_database(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    publisher = do_everything(replicated, tmp_path)
    with monitoring(tmp_path / "state", publisher.url) as monitor, scraping(tmp_path / "prometheus", monitor) as found:
        # A rate needs two scrapes.
        found.query_until("count_over_time(rowtide_up[1m]) >= 3", bool)
        empty = set()
        for panel in list_panels():
            expression = panel.expression.replace("$database", ".*").replace("$__rate_interval", "1m")
            if not found.query(expression) and not panel.legend.endswith(" safe"):
                empty.add(panel.title)
        assert empty == set(WITHOUT_DATA)
        (group,) = found.get("rules")["groups"]
        assert {rule["name"] for rule in group["rules"]} == set(EXPRESSIONS)
        assert {rule.get("lastError", "") for rule in group["rules"]} == {""}
        running = {alert: found.query(expression) for alert, expression in EXPRESSIONS.items()}
        # Nothing runs all the time: each command was given `once`. Other tests fill the disk.
        found_alerts = {alert for alert, series in running.items() if series} - {"RowtideDiskFull"}
        assert found_alerts == {"RowtideAgentNotRunning"}


@dataclass(frozen=True)
class Fault:
    """What makes an alert's expression find something with these labels; `hurried` replaces a limit of hours by one of
    seconds.
    """

    make: Callable[[ReplicatedDatabase, Path], Callable[[], object]]
    labels: Labels
    hurried: tuple[str, str] = ("", "")


def _delete_at_subscriber(replicated: ReplicatedDatabase, _folder: Path) -> Callable[[], object]:
    replicated.subscriber.execute("delete from item")
    replicated.publisher.execute("update item set name = 'other' where id = 1")
    with pytest.raises(RowNotFound):
        replicated.replication.run(once=True)

    def mend() -> None:
        replicated.subscriber.execute("insert into item values (1, 'a'), (2, 'b')")
        replicated.replication.resume("shop")
        replicated.replication.run(once=True)

    return mend


def _leave_transaction_open(replicated: ReplicatedDatabase, _folder: Path) -> Callable[[], object]:
    connection = psycopg.connect(replicated.publisher.url)
    connection.execute("insert into item values (9, 'i')")
    return connection.close


def _forget_a_consumer(replicated: ReplicatedDatabase, _folder: Path) -> Callable[[], object]:
    created = "update cdc.consumers set created_at = now() - interval '{}' where consumer_name = 'reader'"
    replicated.publisher.execute(created.format("130 hours"))
    return lambda: replicated.publisher.execute(created.format("1 hour"))


def _change_one_row_twice(replicated: ReplicatedDatabase, folder: Path) -> Callable[[], object]:
    device = folder / "device.db"
    with closing(sqlite3.connect(device, isolation_level=None)) as program:
        program.execute("update note set body = 'device'")
    replicated.publisher.execute("update note set body = 'hub'")
    merge = connect(replicated.publisher.url).merge
    merge.sync(MERGED, subscriber=f"sqlite:///{device}")
    (conflict,) = merge.list_conflicts(MERGED)
    return lambda: merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)


FAULTS = {
    "RowtideSubscriptionFailed": Fault(_delete_at_subscriber, {"publication": "shop", "state": "failed"}),
    "RowtideOldTransaction": Fault(_leave_transaction_open, {"kind": "writing"}, ("> 3600", "> 1")),
    "RowtideConsumerAtRisk": Fault(_forget_a_consumer, {"consumer": "reader"}),
    "RowtideConflictsOpen": Fault(_change_one_row_twice, {"publication": MERGED}),
}


def has(labels: Labels) -> Callable[[list[tuple[Labels, float]]], bool]:
    return lambda found: any(labels.items() <= series.items() for series, _ in found)


def lacks(labels: Labels) -> Callable[[list[tuple[Labels, float]]], bool]:
    return lambda found: not has(labels)(found)


@pytest.mark.exhaustive
def test_alerts_find_faults_and_their_end(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    publisher = do_everything(replicated, tmp_path)
    with monitoring(tmp_path / "state", publisher.url) as monitor, scraping(tmp_path / "prometheus", monitor) as found:
        found.query_until("rowtide_up == 1", bool)
        for alert, fault in FAULTS.items():
            expression = EXPRESSIONS[alert].replace(*fault.hurried)
            found.query_until(expression, lacks(fault.labels))
            mend = fault.make(replicated, tmp_path)
            found.query_until(expression, has(fault.labels))
            mend()
            found.query_until(expression, lacks(fault.labels))


def test_a_capture_that_stops_is_found(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    expression = EXPRESSIONS["RowtideAgentNotRunning"]
    stop = threading.Event()
    run = threading.Thread(target=logged.cdc.run, kwargs={"stop": stop})
    with monitoring(tmp_path / "state", logged.url) as monitor, scraping(tmp_path / "prometheus", monitor) as found:
        run.start()
        try:
            found.query_until("rowtide_agent_running == 1", has({"agent": "capture"}))
            found.query_until(expression, lacks({"agent": "log_reader"}))
            assert not has({"agent": "capture"})(found.query(expression))
        finally:
            stop.set()
            run.join()
        found.query_until(expression, has({"agent": "capture"}))
        found.query_until(expression, has({"agent": "log_reader"}))


@pytest.mark.exhaustive
@pytest.mark.parametrize("honor_labels", [True, False])
def test_a_cleanup_that_was_missed_is_found(logged: LoggedDatabase, tmp_path: Path, *, honor_labels: bool) -> None:
    """Without `honor_labels` Prometheus renames the label by which the job is known."""
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    cleaned = (
        "insert into cdc.cleanup_requests (retention_us, is_forced, finished_at, outcome) "
        "values (1, false, now() - interval '{}', '{{\"cleaned\": [], \"refusal\": null}}')"
    )
    logged.execute(cleaned.format("3 days"))
    expression = EXPRESSIONS["RowtideCleanupMissed"]
    with (
        monitoring(tmp_path / "state", logged.url) as monitor,
        scraping(tmp_path / "prometheus", monitor, honor_labels=honor_labels) as found,
    ):
        found.query_until(expression, bool)
        logged.execute(cleaned.format("3 hours"))
        found.query_until(expression, lambda series: not series)


def test_a_disk_that_is_full_is_found(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute("create table item (id int primary key)")
    expression = EXPRESSIONS["RowtideDiskFull"]
    # The disk has more than the alert's limit, as long as it is empty.
    with small_disk(tmp_path / "disk", 1200) as disk:
        logged.cdc.enable_db(str(disk / "lake"))
        with monitoring(tmp_path / "state", logged.url) as monitor, scraping(tmp_path / "prometheus", monitor) as found:
            found.query_until("rowtide_disk_free_bytes", bool)
            assert not has({"place": "lake"})(found.query(expression))
            filler = fill(disk, leaving_mb=900)
            found.query_until(expression, has({"place": "lake"}))
            filler.unlink()
            found.query_until(expression, lacks({"place": "lake"}))


@pytest.mark.exhaustive
def test_a_slot_that_is_nearly_lost_is_found(scarce: LoggedDatabase, tmp_path: Path) -> None:
    scarce.execute("create table item (id int primary key)")
    scarce.enable("item")
    scarce.read_log()
    expression = EXPRESSIONS["RowtideSlotNearlyLost"]
    with monitoring(tmp_path / "state", scarce.url) as monitor, scraping(tmp_path / "prometheus", monitor) as found:
        found.query_until("rowtide_slot_safe_wal_bytes > 0", bool)
        for _ in range(4):
            scarce.execute(
                "select pg_logical_emit_message(false, 'filler', repeat('x', 900000)) from generate_series(1, 20)"
            )
            scarce.execute("select pg_switch_wal()", "checkpoint")
        found.query_until(expression, bool)
