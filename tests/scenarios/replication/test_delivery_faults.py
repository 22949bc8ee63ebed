"""Delivery killed anywhere, under load: a subscriber shows what the publisher committed, in its order, each once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.capture.capture_processes import DELIVERY, CaptureProcess
from builders.capture.captured_databases import wait_until
from builders.capture.transfers import DEFINITIONS, FIRST_ROWS, Sightings, read_file, read_state, transfers
from builders.faults.failpoints import DELIVERY_FAILPOINTS, SQLITE_DELIVERY_FAILPOINTS
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replicated_files import ReplicatedFile

ANY_SUBSCRIBERS_FAILPOINTS = tuple(name for name in DELIVERY_FAILPOINTS if name.startswith("reader_advance"))


@contextmanager
def reading(path: Path, sightings: Sightings) -> Iterator[None]:
    """Look at a file again and again until the block ends."""
    is_over, failures = threading.Event(), list[BaseException]()

    def look() -> None:
        try:
            while not is_over.wait(0.005):
                sightings.add(*read_file(path))
        except BaseException as error:
            failures.append(error)
            raise

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()
    assert not failures


def wait_for_more(sightings: Sightings) -> None:
    known = len(sightings.seen[-1])
    wait_until(lambda: len(sightings.seen[-1]) > known, what="more transfers")


@pytest.mark.parametrize(
    "failpoints",
    [DELIVERY_FAILPOINTS[::3], pytest.param(DELIVERY_FAILPOINTS, marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)
def test_killed_delivery_shows_commits_in_order_once(
    replicated: ReplicatedDatabase, tmp_path: Path, failpoints: Sequence[str]
) -> None:
    replicated.begin(*DEFINITIONS, FIRST_ROWS, account={}, transfer={})
    url, sightings = replicated.publisher.url, Sightings()

    def look() -> bool:
        return sightings.add(*read_state(replicated.subscriber.url))

    with transfers(url, first=0, seed=1), transfers(url, first=1_000_000, seed=2):
        for failpoint in failpoints:
            with CaptureProcess(url, tmp_path, DELIVERY) as process:
                process.arm(failpoint)
                process.wait_killed()
                look()
        with CaptureProcess(url, tmp_path, DELIVERY):
            wait_until(look, what="transfers after all kills")
    replicated.deliver()
    look()

    replicated.require_equal("account", "transfer")
    sightings.require_prefixes(replicated.publisher.inserted())


@pytest.mark.exhaustive
@pytest.mark.parametrize("journal", ["wal", pytest.param("delete", marks=pytest.mark.exhaustive)])
def test_killed_delivery_to_file_shows_commits_in_order_once(
    replicated_file: ReplicatedFile, tmp_path: Path, journal: str
) -> None:
    replicated_file.subscriber.execute(f"pragma journal_mode = {journal}")
    made = (*DEFINITIONS, FIRST_ROWS)
    replicated_file.begin(*made, at_file=made, account={}, transfer={})
    url, path, sightings = replicated_file.publisher.url, replicated_file.subscriber.path, Sightings()
    with transfers(url, first=0, seed=1), transfers(url, first=1_000_000, seed=2), reading(path, sightings):
        for failpoint in (*SQLITE_DELIVERY_FAILPOINTS, *ANY_SUBSCRIBERS_FAILPOINTS):
            # As the agent takes hold of the file, and then with a batch.
            for waits in (False, True):
                with CaptureProcess(url, tmp_path, DELIVERY) as process:
                    if waits:
                        wait_for_more(sightings)
                    process.arm(failpoint)
                    process.wait_killed()
        with CaptureProcess(url, tmp_path, DELIVERY):
            wait_for_more(sightings)
    replicated_file.deliver()
    sightings.add(*read_file(path))

    replicated_file.require_equal("account", "transfer")
    sightings.require_prefixes(replicated_file.publisher.inserted())
    assert replicated_file.subscriber.execute("pragma integrity_check") == [("ok",)]
