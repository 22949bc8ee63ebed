"""Lake and log store in a bucket, while requests fail and what runs is killed: nothing lost, doubled or in part."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from builders.capture.bucket_storms import BucketStorm, read_bucket
from builders.capture.captured_databases import LoggedDatabase
from builders.faults.faulty_proxy import Fault, FaultyProxy
from builders.servers.object_servers import Bucket
from builders.workloads import TABLES, Workload, make_tables, read_history
from rowtide.cdc.capture.capture import Capture, CycleOptions
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.system_tables import SystemTables
from rowtide.databases.postgres.connect import open_engine
from rowtide.delta.errors import AppendNotFound
from rowtide.handle import open_lake
from rowtide.log.postgres.lease import AdvisoryLease

FAULTS = (Fault.LOST_REPLY, Fault.SLOW_DOWN, Fault.INTERNAL_ERROR)
ONE_IN = 50


@pytest.fixture
def lake(bucket: Bucket, logged: LoggedDatabase) -> str:
    """The URL of the lake of the workload's tables, enabled."""
    make_tables(logged.session)
    lake = f"{bucket.url}/lakes/a b"
    logged.cdc.enable_db(lake)
    for table in TABLES:
        logged.cdc.enable_table(table)
    return lake


@pytest.mark.parametrize(
    ("strikes", "engine"),
    [
        (1, "auto"),
        pytest.param(2, "auto", marks=pytest.mark.exhaustive),
        pytest.param(16, "auto", marks=pytest.mark.exhaustive),
        pytest.param(8, "spark", marks=pytest.mark.exhaustive),
    ],
)
def test_a_storm_over_a_bucket_loses_nothing(
    lake: str, bucket: Bucket, logged: LoggedDatabase, tmp_path: Path, strikes: int, engine: str
) -> None:
    with FaultyProxy(bucket.endpoint, seed=strikes) as proxy:
        for fault in FAULTS:
            proxy.inject(fault, one_in=ONE_IN * len(FAULTS))
        storm = BucketStorm(logged, lake, proxy, tmp_path, strikes, engine)
        with storm.told():
            with Workload(logged.url):
                storm.process.wait_published(logged)
                for _ in range(strikes):
                    storm.strike()
                    storm.read()
            storm.process.wait_published(logged)
            assert storm.process.terminate() == 0
            assert len(proxy.seen()) > 3 * ONE_IN
            assert storm.read() == read_history(logged.session)


@pytest.mark.exhaustive
def test_a_minute_without_network_is_waited_out(
    lake: str, bucket: Bucket, logged: LoggedDatabase, tmp_path: Path
) -> None:
    """The process that captures continues by itself, and so does the log reader."""
    with FaultyProxy(bucket.endpoint) as proxy:
        storm = BucketStorm(logged, lake, proxy, tmp_path, 0, cut_s=60)
        with storm.told():
            with Workload(logged.url):
                storm.process.wait_published(logged)
                storm.cut_network()
                storm.process.wait_published(logged)
            storm.process.wait_published(logged)
            assert storm.process.terminate() == 0
            assert storm.read() == read_history(logged.session)


@pytest.mark.exhaustive
def test_of_two_captures_of_a_bucket_one_commits_a_cycle(
    lake: str, bucket: Bucket, logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the bucket's objects keeps them apart; they ignore the lease."""
    for number in range(30):
        logged.execute(f"insert into account values ({number}, 0)", f"insert into entry values ({number}, 1)")
    target = logged.mark()
    logged.read_log(target)
    monkeypatch.setattr(LakeLease, "require", lambda _lease, _state=None: None)
    source, store = logged.cdc.get_source(), logged.store()
    both_begin = threading.Barrier(2)

    def capture_all(lease: AdvisoryLease, maxtrans: int) -> int:
        cycles = 0
        both_begin.wait()
        while True:
            tables = SystemTables(source.lake, source.source_id)
            held = LakeLease.take(store, lease)
            capture = Capture(tables, store, held, options=CycleOptions(maxtrans=maxtrans))
            # Where the other one is a cycle ahead, it begins again with what is recorded.
            with suppress(AppendNotFound):
                while capture.position.log <= target:
                    capture.step()
                    cycles += 1
                return cycles

    with FaultyProxy(bucket.endpoint) as proxy, AdvisoryLease.take(open_engine(logged.url), "lake") as lease:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
        proxy.inject(Fault.LOST_REPLY, one_in=20)
        with ThreadPoolExecutor(2) as pool:
            rounds = list(pool.map(lambda maxtrans: capture_all(lease, maxtrans), (7, 11)))

    assert any(rounds)
    monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
    lsn = open_lake(lake).get_max_lsn()
    assert lsn is not None
    assert read_bucket(lake, lsn) == read_history(logged.session)
