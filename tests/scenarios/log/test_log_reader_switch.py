"""Capture and replication share one log reader: when the process that has it is killed, the other takes over."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.capture_processes import CAPTURE, DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.capture.transfers import DEFINITIONS, FIRST_ROWS, transfers
from builders.replication.replicated_databases import ReplicatedDatabase


def wait_read(replicated: ReplicatedDatabase, process: CaptureProcess) -> None:
    """Wait until the log store has all that is committed now."""
    target, manifest = replicated.publisher.mark(), replicated.publisher.manifest()

    def is_read() -> bool:
        process.require_alive()
        return manifest.refresh().position.log > target

    wait_until(is_read, what="the log is read")


@pytest.mark.exhaustive
def test_log_reader_switch_under_load_loses_and_repeats_nothing(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    replicated.publisher.enable("transfer")
    url = replicated.publisher.url
    places = [tmp_path / name for name in ("capture", "delivery", "capture again")]
    for place in places:
        place.mkdir()
    with (
        transfers(url, first=0, seed=7),
        transfers(url, first=1_000_000, seed=8),
        CaptureProcess(url, places[0], CAPTURE) as capture,
    ):
        wait_read(replicated, capture)
        with CaptureProcess(url, places[1], DELIVERY) as delivery:
            wait_read(replicated, delivery)
            capture.process.kill()
            wait_read(replicated, delivery)
            with CaptureProcess(url, places[2], CAPTURE) as again:
                wait_read(replicated, again)
                delivery.process.kill()
                wait_read(replicated, again)
    replicated.deliver()

    replicated.require_equal("account", "transfer")
    numbers = [int(number) for number in replicated.publisher.inserted() if number is not None]
    committed = [row[0] for row in replicated.publisher.execute("select id from transfer order by id")]
    assert sorted(numbers) == committed
    assert len(set(numbers)) == len(numbers) > 100
