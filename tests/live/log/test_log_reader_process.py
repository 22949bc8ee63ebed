"""The log reader's process: it runs nothing of the program that starts it, and ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.log.log_reader_processes import is_streaming
from builders.replication.replicated_files import ReplicatedFile
from rowtide.agents.log_reader_process import LogReaderEnded, LogReaderProcess
from rowtide.core.errors import RowtideError

ORDERS = "create table orders (id int primary key, qty int)"
UNGUARDED = """
import sys
import rowtide
with open(sys.argv[2], "a") as runs:
    runs.write("a run of the script\\n")
rowtide.connect(sys.argv[1]).replication.run(once=True)
"""
LEAVES_A_FORK = """
import os, signal, sys, time
from rowtide.agents.log_reader_process import LogReaderProcess
reader = LogReaderProcess(sys.argv[1], print, has_run=False)
if os.fork() == 0:
    time.sleep(120)
else:
    print("started", flush=True)
    signal.pause()
"""


def no_retry(error: RowtideError, _pause_s: float) -> None:
    raise error


@pytest.fixture
def published(replicated_file: ReplicatedFile) -> ReplicatedFile:
    replicated_file.begin(ORDERS, orders={})
    replicated_file.publisher.execute("insert into orders values (1, 10)")
    return replicated_file


def test_a_retry_is_reported_once(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    """By the process that started the reader, which may have its own log."""
    retries: list[RowtideError] = []
    nobody = "postgresql://nobody@127.0.0.1:1/none"
    with LogReaderProcess(nobody, lambda error, _pause_s: retries.append(error), has_run=True) as reading:

        def has_retried() -> bool:
            reading.keep_running()
            return bool(retries)

        wait_until(has_retried, what="the log reader retries")
    assert [record.getMessage().split(" number=")[0] for record in caplog.records] == [
        'agent_retries job="log reader" pause_s=0.5'
    ]
    assert capfd.readouterr().err == ""


@pytest.mark.exhaustive
def test_a_script_without_main_guard_runs_once(published: ReplicatedFile, tmp_path: Path) -> None:
    script, runs = tmp_path / "deliver.py", tmp_path / "runs"
    script.write_text(UNGUARDED)

    subprocess.run([sys.executable, str(script), published.publisher.url, str(runs)], check=True, timeout=120)

    assert published.subscriber.execute("select * from orders") == [(1, 10)]
    assert runs.read_text() == "a run of the script\n"


@pytest.mark.exhaustive
def test_a_program_without_a_file_reads_the_log_too(published: ReplicatedFile, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = [sys.executable, "-", published.publisher.url, str(runs)]

    subprocess.run(command, input=UNGUARDED, text=True, check=True, timeout=120)

    assert published.subscriber.execute("select * from orders") == [(1, 10)]
    assert runs.read_text() == "a run of the script\n"


@pytest.mark.exhaustive
def test_modules_of_the_working_directory_are_not_run(
    published: ReplicatedFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('a file of the user was run')")
    monkeypatch.chdir(tmp_path)

    published.replication.run(once=True)

    assert published.subscriber.execute("select * from orders") == [(1, 10)]


def test_arguments_that_ps_shows_have_no_url(logged: LoggedDatabase) -> None:
    logged.enable()
    with LogReaderProcess(logged.url, no_retry, has_run=False) as reader:
        wait_until(lambda: is_streaming(logged), what="the log reader reads")
        shown = Path(f"/proc/{reader._process.pid}/cmdline").read_text()

    assert "rowtide.agents.log_reader_child" in shown
    assert "postgresql" not in shown


def test_the_log_reader_does_not_import_pandas(logged: LoggedDatabase) -> None:
    """Arrow would where it is installed: that takes a third of the start, and fifty megabytes."""
    logged.enable()
    with LogReaderProcess(logged.url, no_retry, has_run=False) as reader:
        wait_until(lambda: is_streaming(logged), what="the log reader reads")
        mapped = Path(f"/proc/{reader._process.pid}/maps").read_text()

    assert "/pyarrow/" in mapped
    assert "/pandas/" not in mapped


def test_the_log_reader_ends_with_a_parent_whose_fork_lives_on(logged: LoggedDatabase) -> None:
    logged.enable()
    parent = subprocess.Popen([sys.executable, "-c", LEAVES_A_FORK, logged.url], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "started\n"
    (fork,) = (int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()[1:])
    try:
        wait_until(lambda: is_streaming(logged), what="the log reader reads")
        parent.kill()
        wait_until(lambda: not is_streaming(logged), what="the log reader ends")
    finally:
        os.kill(fork, 9)
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_an_interpreter_that_does_not_start_is_reported(
    logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with LogReaderProcess(logged.url, no_retry, has_run=False) as reader:
        reader._process.wait(60)
        with pytest.raises(LogReaderEnded, match="RT-1010: .* exit code 1"):
            reader.keep_running()


BEGUN_EARLY = """
import os, sys
from rowtide.agents.log_reader_process import LogReaderProcess, begin_reading
begin_reading(sys.argv[1])
with LogReaderProcess(sys.argv[1], print, has_run=False) as reader:
    print(reader._process.pid, flush=True)
    while os.read(0, 1):
        reader.keep_running()
        print(reader._process.pid, flush=True)
"""


def test_a_log_reader_begun_early_is_a_fork_with_a_successor(logged: LoggedDatabase) -> None:
    logged.enable()
    command = [sys.executable, "-c", BEGUN_EARLY, logged.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        fork = int(parent.stdout.readline())
        wait_until(lambda: is_streaming(logged), what="the log reader reads")
        os.kill(fork, 9)
        wait_until(lambda: not is_streaming(logged), what="the fork ends")
        # A process that ends closes its connections before its parent can know of its end.
        wait_until(lambda: kept_running(parent) != fork, what="the fork has a successor")
        wait_until(lambda: is_streaming(logged), what="its successor reads")
        parent.stdin.close()

        assert parent.wait(30) == 0

    assert not is_streaming(logged)


def kept_running(parent: subprocess.Popen[str]) -> int:
    """Let the parent look after its log reader once; return the reader's process."""
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write(".")
    parent.stdin.flush()
    return int(parent.stdout.readline())


MISTAKEN = """
import sys
from rowtide.agents import log_reader_process
from rowtide.agents.log_reader_process import LogReaderProcess, begin_reading
begin_reading("postgresql://127.0.0.1:1/another")
((begun, _),) = log_reader_process._begun.values()
with LogReaderProcess(sys.argv[1], print, has_run=False):
    print(begun.wait(30))
"""


def test_a_log_reader_of_another_database_ends(logged: LoggedDatabase) -> None:
    logged.enable()
    command = [sys.executable, "-c", MISTAKEN, logged.url]

    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert (ended.returncode, ended.stdout) == (0, "0\n")
