"""Metrics of a command over HTTP and in a file, while it runs, ends and fails."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree
from urllib.request import urlopen

import pytest

from builders.monitor.scrapes import ANY_PORT, Scrape, get, scrape
from rowtide.cli.output.metrics import MetricsOptions, measuring
from rowtide.core.addresses import Address
from rowtide.core.errors import FileNotWritable
from rowtide.events.catalogue import MetricsNotWritten, RowsCaptured
from rowtide.events.event import emit, listening
from rowtide.listening import ListeningFailed
from rowtide.monitor.agent_figures import AgentCounter
from rowtide.monitor.errors import MetricsOpen
from rowtide.monitor.publishing import serving_figures, writing_figures

DATABASE = "shop"
ROWS = "rowtide_capture_rows_total"


def publish(rows: int) -> None:
    emit(RowsCaptured("public_item", rows, 0, 0))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_command_is_scraped_while_it_counts() -> None:
    counter = AgentCounter("shop", "capture")
    with listening(counter.note), serving_figures(counter.copy, ANY_PORT) as address:
        with ThreadPoolExecutor(5) as pool:
            scraped = [pool.submit(scrape, address) for _ in range(20)]
            for _ in range(200):
                publish(1)
            assert all(found.result().values("rowtide_build_info") == [1] for found in scraped)
        assert scrape(address).value(ROWS, database="shop") == 200
        assert get(address, "/")[0] == 404
        assert get(address, "/metrics?name=x")[0] == 200
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://{address}/metrics", timeout=5)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "db1.example.org"])
def test_other_machines_are_served_only_when_that_is_said(host: str) -> None:
    """Refused before the command works, and before anything listens."""
    with pytest.raises(MetricsOpen, match="--metrics-open"), measuring(MetricsOptions(listen=f"{host}:0"), "shop", "x"):
        raise AssertionError(host)
    with measuring(MetricsOptions(listen="0.0.0.0:0", is_open=True), "shop", "capture"):
        publish(1)
    for local in ("localhost", "127.0.0.2", "[::1]"):
        with measuring(MetricsOptions(listen=f"{local}:0"), "shop", "capture"):
            publish(1)


def test_a_client_that_says_nothing_keeps_nobody_waiting() -> None:
    counter = AgentCounter("shop", "capture")
    with serving_figures(counter.copy, ANY_PORT) as address, socket.create_connection((address.host, address.port)):
        assert scrape(address).values("rowtide_build_info") == [1]


def test_two_commands_on_one_port_are_refused_before_they_work() -> None:
    options = MetricsOptions(listen=f"127.0.0.1:{free_port()}")
    with (
        measuring(options, DATABASE, "capture"),
        pytest.raises(ListeningFailed, match="Address already in use"),
        measuring(options, DATABASE, "capture"),
    ):
        raise AssertionError("it has begun")
    with measuring(options, DATABASE, "capture"):
        # The port is free again at once.
        assert scrape(Address.parse(str(options.listen))).values("rowtide_build_info") == [1]


def test_the_file_is_whole_and_can_be_read_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "rowtide.prom"
    before = os.umask(0o077)
    try:
        with measuring(MetricsOptions(str(path)), DATABASE, "capture"):
            assert "rowtide_build_info" in path.read_text()
            publish(7)
    finally:
        os.umask(before)
    found = Scrape(path.read_text())
    assert found.value(ROWS, database="shop") == 7
    assert found.value("rowtide_job_failed", job="capture") == 0
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_command_that_fails_says_so_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "rowtide.prom"
    with pytest.raises(ValueError, match="by itself"):
        run(MetricsOptions(str(path)), lambda: publish(7), ValueError("it failed by itself"))
    found = Scrape(path.read_text())
    assert found.value("rowtide_job_failed", job="capture") == 1
    assert found.value(ROWS, database="shop") == 7
    assert found.values("rowtide_job_last_success_timestamp_seconds") == []


def test_a_file_that_cannot_be_written_ends_a_command_first(tmp_path: Path) -> None:
    options = MetricsOptions(str(tmp_path / "gone" / "rowtide.prom"))
    with pytest.raises(FileNotWritable), measuring(options, DATABASE, "capture"):
        raise AssertionError("it has begun")


def test_a_file_that_can_be_written_no_more_ends_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "collector"
    folder.mkdir()
    reported, counter = threading.Event(), AgentCounter("shop", "capture")

    def write(text: bytes) -> None:
        try:
            (folder / "rowtide.prom").write_bytes(text)
        except OSError as error:
            raise FileNotWritable(str(folder), str(error)) from error

    with (
        listening(lambda emitted: reported.set() if isinstance(emitted.event, MetricsNotWritten) else None),
        writing_figures(counter.copy, write, every_s=0.01),
    ):
        # At once: what is emptied first might be written into before it is removed.
        folder.rename(tmp_path / "aside")
        assert reported.wait(10)
        folder.mkdir()
        while not (folder / "rowtide.prom").exists():
            assert threading.active_count() > 1


def test_the_end_of_a_failed_command_is_not_hidden_by_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "collector"
    options = MetricsOptions(str(folder / "rowtide.prom"))
    folder.mkdir()
    with pytest.raises(ValueError, match="by itself"):
        run(options, lambda: rmtree(folder), ValueError("it failed by itself"))
    folder.mkdir()
    with pytest.raises(FileNotWritable):
        run(options, lambda: rmtree(folder))


def run(options: MetricsOptions, work: Callable[[], object], error: Exception | None = None) -> None:
    """Run what a command does, which may fail."""
    with measuring(options, DATABASE, "capture"):
        work()
        if error is not None:
            raise error
