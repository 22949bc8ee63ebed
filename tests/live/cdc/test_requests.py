"""What capture asks of a bucket: so many requests a cycle, so many a table that changed, few while nothing happens."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.faults.faulty_proxy import FaultyProxy, Request
from builders.servers.object_servers import Bucket
from rowtide.handle import connect

TABLES, CYCLES, STEADY = 6, 4, 200
OLD = """
from rowtide.storage import store
store.FRESH_FOR_S = 0.2
from rowtide.cli.main import main
main()
"""
"""The command, to which what it knew before a cycle is as old as after a minute."""
IDLE_S = 5.0
"""In which the log reader advances once, with two requests."""
AT_INTERVALS = {"short": ("-m", "rowtide"), "long": ("-c", OLD)}
MOST_A_CYCLE = 10


def is_of_table(request: Request) -> bool:
    return "_CT" in request.target


def count(requests: Sequence[Request], *kinds: str) -> int:
    return sum(request.kind in kinds for request in requests)


@pytest.mark.parametrize("interval", AT_INTERVALS)
def test_a_cycle_asks_a_bucket_for_little(
    logged: LoggedDatabase, bucket: Bucket, tmp_path: Path, interval: str
) -> None:
    names = [f"measured_{number}" for number in range(TABLES)]
    logged.execute(*(f"create table {name} (id int generated always as identity primary key)" for name in names))
    logged.cdc.enable_db(f"{bucket.url}/lake")
    for name in names:
        logged.cdc.enable_table(name, snapshot=False)
    write = f"do $$ begin {' '.join(f'insert into {name} default values;' for name in names)} end $$"
    with (
        FaultyProxy(bucket.endpoint) as proxy,
        CaptureProcess(
            logged.url, tmp_path, environment={"AWS_ENDPOINT_URL": proxy.endpoint}, program=AT_INTERVALS[interval]
        ) as process,
    ):
        for _ in range(2):
            logged.execute(write)
            process.wait_published(logged)
        idle = measure_idle(proxy)
        # A minute without a look makes it look for checkpoints, too.
        assert idle <= 2 or interval == "long", Counter((one.kind, one.key) for one in proxy.seen())
        before = find_bare_ranges(logged)
        proxy.forget()
        begun = time.monotonic()
        for _ in range(CYCLES):
            logged.execute(write)
            process.wait_published(logged)
        seen, seconds = proxy.seen(), time.monotonic() - begun
        # Five seconds lie between two of them, and behind a batch.
        assert len(find_bare_ranges(logged) - before) <= 1 + seconds / 5
        of_tables = [request for request in seen if is_of_table(request)]
        cycles = count([one for one in seen if "/cycles/_delta_log" in one.target], "PUT")
        assert cycles == CYCLES
        assert count(of_tables, "PUT") <= 2.2 * TABLES * cycles
        assert count(of_tables, "GET", "LIST") <= 0.2 * TABLES * cycles
        others = [request for request in seen if not is_of_table(request)]
        # What it asks while it waits is none of a cycle's, and keeps what is known of the manifest young.
        is_few = len(others) <= MOST_A_CYCLE * cycles + 2 * seconds
        assert is_few or interval == "long", Counter(one.kind for one in others)
        if interval == "short":
            require_reported(logged, proxy)
        assert process.terminate() == 0


def find_bare_ranges(logged: LoggedDatabase) -> set[str]:
    """Return the manifest's entries that say of a position only that nothing else lies below it."""
    store = logged.store()
    entries = {path: json.loads(store.get(path)) for path in store.list("manifest/") if "checkpoint" not in path}
    ranges = [(path, entry) for path, entry in entries.items() if entry["kind"] == "range_appended"]
    return {path for path, entry in ranges if not any(entry[what] for what in ("segments", "events", "transactions"))}


def test_a_cycle_beside_steady_writes_has_one_batch(logged: LoggedDatabase, bucket: Bucket, tmp_path: Path) -> None:
    logged.execute("create table measured (id int primary key)")
    logged.cdc.enable_db(f"{bucket.url}/lake")
    logged.cdc.enable_table("measured", snapshot=False)
    with (
        FaultyProxy(bucket.endpoint) as proxy,
        CaptureProcess(logged.url, tmp_path, environment={"AWS_ENDPOINT_URL": proxy.endpoint}) as process,
    ):
        logged.execute("insert into measured values (0)")
        process.wait_published(logged)
        proxy.forget()
        begun = time.monotonic()
        for number in range(1, STEADY + 1):
            logged.execute(f"insert into measured values ({number})")
            time.sleep(0.02)
        process.wait_published(logged)
        seen, seconds = proxy.seen(), time.monotonic() - begun
        assert process.terminate() == 0
    cycles = count([one for one in seen if "/cycles/_delta_log" in one.target], "PUT")
    segments = count([one for one in seen if "/segments/" in one.target], "PUT")
    others = [request for request in seen if not is_of_table(request)]
    assert 1 < cycles < STEADY / 4
    # The last one is waited for, and its mark brings another; a slow one is asked for twice.
    assert segments <= 1.5 * cycles + 2
    assert len(others) <= MOST_A_CYCLE * cycles + 2 * seconds, Counter((one.kind, one.key) for one in others)


def require_reported(logged: LoggedDatabase, proxy: FaultyProxy) -> None:
    """Compare what `sessions`, `status` and `check` say with what the proxy counts, from one cycle to another."""

    def reported() -> int:
        sessions = logged.cdc.list_scan_sessions()
        return sum(one.write_requests or 0 for one in sessions if one.session_id)

    def write() -> None:
        cycle = max(one.session_id for one in logged.cdc.list_scan_sessions())
        logged.execute("insert into measured_0 default values")
        wait_until(
            lambda: any(s.session_id > cycle and s.tran_count for s in logged.cdc.list_scan_sessions()),
            what="the scan is recorded",
        )

    write()
    before = reported()
    proxy.forget()
    write()
    counted = count(proxy.seen(), "PUT", "LIST")
    # The log reader says every five seconds what it asked.
    assert abs(reported() - before - counted) <= 8
    said = logged.cdc.status().requests
    assert said is not None
    assert "at 0.005 and 0.0004 a thousand" in said
    assert any(finding.subject == "requests to the bucket" for finding in connect(logged.url).check())


def measure_idle(proxy: FaultyProxy) -> float:
    """Return the requests a second while nothing is written, once what the start leaves is done."""

    def is_started() -> bool:
        before = len(proxy.seen())
        time.sleep(0.5)
        return len(proxy.seen()) - before <= 1

    wait_until(is_started, what="only the manifest is asked for")
    proxy.forget()
    begun = time.monotonic()
    time.sleep(IDLE_S)
    return len(proxy.seen()) / (time.monotonic() - begun)
