"""What Prometheus scrapes of a database that captures, publishes, merges and tracks."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import LoggedDatabase
from builders.monitor.scrapes import (
    ANY_PORT,
    MERGED,
    Scrape,
    do_everything,
    get,
    has_polled,
    monitoring,
    scrape,
    scrape_until,
)
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.servers.server_reads import wait_until_alone
from rowtide.core.addresses import Address
from rowtide.handle import connect
from rowtide.monitor.catalogue import METRICS, STATE_VALUES, MetricType
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.ring import Ring
from rowtide.monitor.serving import serving

_OF_SOME_DATABASES = {
    "rowtide_slot_safe_wal_bytes": "nothing limits the slot",
    "rowtide_snapshot_rows_remaining": "no table is copied",
    "rowtide_target_lag_seconds": "nothing was applied to the target",
    "rowtide_job_last_success_timestamp_seconds": "no job has ended",
    "rowtide_agent_restarts_total": "no job has run",
    "rowtide_capture_errors_total": "no cycle has failed",
    "rowtide_subscription_errors_total": "no agent has failed",
    "rowtide_subscription_conflicts_total": "nothing is delivered here",
    "rowtide_merge_sync_age_seconds": "there is no --device-series",
    "rowtide_merge_expiry_seconds": "there is no --device-series",
}


@pytest.fixture
def scraped(replicated: ReplicatedDatabase, tmp_path: Path) -> tuple[ReplicatedDatabase, Scrape]:
    publisher = do_everything(replicated, tmp_path)
    before = count_scans(publisher)
    with monitoring(tmp_path / "state", publisher.url) as address:
        found = scrape_until(address, lambda found: found.values("rowtide_up") == [1])
        status, ready = get(address, "/readyz")
        assert (status, '"ready":true' in ready) == (200, True), ready
        assert get(address, "/healthz") == (200, "ok\n")
        scrape_next(address)
    assert count_scans(publisher) == before
    return replicated, found


def count_scans(database: LoggedDatabase) -> int:
    """Return how often sessions that were closed have read the users' tables as a whole."""
    wait_until_alone(database.session)
    ((scans,),) = database.execute("select sum(seq_scan) from pg_stat_user_tables where schemaname = 'public'")
    return int(scans)


def scrape_next(address: Address) -> Scrape:
    """Wait until each database was polled once more, and scrape."""
    first = {*scrape(address).values("rowtide_scrape_duration_seconds")}
    return scrape_until(address, lambda found: first.isdisjoint(found.values("rowtide_scrape_duration_seconds")))


def test_a_monitor_beside_the_owner_sees_the_same(
    make_role: Callable[[str], str], replicated: ReplicatedDatabase, tmp_path: Path
) -> None:
    """In one process: what one session's queries are compiled for is not what the other reads."""
    role, publisher = make_role("login"), do_everything(replicated, tmp_path)
    connect(publisher.url).grant(role, "monitor")
    as_monitor = make_url(publisher.url).set(username=role).render_as_string(hide_password=False)
    databases = (NamedUrl("owner", publisher.url), NamedUrl("monitor", as_monitor))
    with Ring.open(tmp_path / "both") as ring, serving(databases, ring, ANY_PORT, every_s=0.2) as served:
        scrape_until(served.address, lambda found: found.values("rowtide_up") == [1, 1])
        found = scrape_next(served.address)

    assert found.values("rowtide_up") == [1, 1]
    assert found.values("rowtide_merge_subscriptions", publication=MERGED, state="healthy") == [1, 1]
    assert found.values("rowtide_merge_sync_duration_seconds_count", publication=MERGED) == [1, 1]

    def subjects(database: str) -> set[tuple[str, str]]:
        samples = [sample for sample in found.samples if sample.labels.get("database") == database]
        labels = [(sample.name, sample.labels.get("subscriber") or sample.labels.get("subject")) for sample in samples]
        return {(name, label) for name, label in labels if label is not None}

    assert any(name == "rowtide_subscription_state" for name, _ in subjects("owner"))
    assert subjects("monitor") == subjects("owner")


def test_each_metric_of_a_busy_database_is_plausible(scraped: tuple[ReplicatedDatabase, Scrape]) -> None:
    replicated, found = scraped
    names = {sample.name for sample in found.samples}
    expected = {f"{one.name}_count" if one.type is MetricType.HISTOGRAM else one.name for one in METRICS}
    assert expected - names == set(_OF_SOME_DATABASES)
    database = make_url(replicated.publisher.url).database
    assert {sample.labels["database"] for sample in found.samples if "database" in sample.labels} == {database}

    assert found.value("rowtide_capture_rows_total") == 3
    assert found.value("rowtide_capture_gaps_total") == 0
    assert found.value("rowtide_capture_cycle_duration_seconds_count", phase="Done") >= 2
    assert found.value("rowtide_agent_running", agent="capture") == 0
    assert found.value("rowtide_subscription_state", state="healthy", publication=PUBLICATION) == 1
    assert sum(found.values("rowtide_subscription_state", publication=PUBLICATION)) == 1
    assert found.value("rowtide_subscription_commands_total") >= 2
    assert found.value("rowtide_tracer_seconds_count", hop="delivery") == 1
    assert found.value("rowtide_merge_subscriptions", publication=MERGED, state="healthy") == 1
    assert found.value("rowtide_merge_rows_total", direction="download", operation="insert") == 1
    assert found.value("rowtide_merge_sync_duration_seconds_count", publication=MERGED) == 1
    assert found.value("rowtide_tracking_tombstones", table="public.seen") == 1
    assert found.value("rowtide_tracking_lost", table="public.seen") == 0
    assert found.value("rowtide_target_stopped", target="items") == 0
    assert 0 < found.value("rowtide_merge_soonest_expiry_seconds") <= 14 * 86_400
    assert found.value("rowtide_disk_free_bytes", place="lake") > 1 << 20
    assert found.value("rowtide_consumer_margin_seconds", consumer="reader") == 168 * 3600

    subscriber = make_url(replicated.subscriber.url)
    labels = {sample.labels["subscriber"] for sample in found.samples if "subscriber" in sample.labels}
    assert subscriber.database is not None
    assert all(subscriber.database in label and f"{subscriber.username}@" not in label for label in labels), labels
    assert "canary" not in found.text

    health = connect(replicated.publisher.url).health()
    for result in health:
        subject = re.sub(r"//[^/@]+@", "//", result.subject)
        if result.area != "merge" or "subscription" not in subject:
            assert found.value("rowtide_health_state", area=result.area, subject=subject) == STATE_VALUES[result.state]


def test_a_restart_of_the_monitor_keeps_its_counters(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    publisher = replicated.publisher
    replicated.begin("create table item (id int primary key, name text)", item={})
    publisher.enable("item")
    publisher.execute("insert into item values (1, 'a'), (2, 'b')")
    publisher.cdc.run(once=True)
    with monitoring(tmp_path / "state", publisher.url) as address:
        assert scrape_until(address, has_polled).value("rowtide_capture_rows_total") == 2
    # As after a crash of the server: these tables are unlogged.
    publisher.execute("truncate cdc.log_scan_sessions")
    with monitoring(tmp_path / "state", publisher.url) as address:
        assert scrape_until(address, has_polled).value("rowtide_capture_rows_total") == 2
        publisher.execute("insert into item values (3, 'c')")
        publisher.cdc.run(once=True)
        scrape_until(address, lambda found: found.values("rowtide_capture_rows_total") == [3])
