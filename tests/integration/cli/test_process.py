"""A command as a process: a closed pipe, a full disk, and how it ends."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from builders.tracking.tracked_databases import TrackedFile
from rowtide.cli.process import CLOSED_PIPE

READS_WHILE_IT_ENDS = """
import sys, threading, time
import pyarrow.parquet as pq
from rowtide.cli.process import run_as_process

started = threading.Event()

class SlowFile:
    closed = False
    def seekable(self): return True
    def readable(self): return True
    def seek(self, place, whence=0): return 1000
    def tell(self): return 1000
    def read(self, size=-1):
        started.set()
        while True:
            time.sleep(0.001)

def command():
    threading.Thread(target=pq.read_table, args=(SlowFile(),), daemon=True).start()
    started.wait()
    print("the whole output")
    return 3

run_as_process(command)
"""
LEAVES_THINGS_TO_DO = """
import atexit, tempfile
from pathlib import Path
from rowtide.cli.process import run_as_process

def command():
    folder = tempfile.TemporaryDirectory()
    print(folder.name)
    atexit.register(lambda: print("registered later"))
    command.folder = folder
    return 0

run_as_process(command)
"""
PRINTS = (
    "from rowtide.cli.process import run_as_process; run_as_process(lambda: print('\\u6771\\u4eac B\\xfccher') or 0)"
)
ASCII = {"PYTHONUTF8": "0", "LC_ALL": "C"}
FAILS = "from rowtide.cli.process import run_as_process; run_as_process(lambda: 1 / 0)"


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rowtide", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def url(sqlite_file: TrackedFile) -> str:
    sqlite_file.enable()
    sqlite_file.program.execute(
        "insert into t (id, name) with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000)"
        " select i, 'row ' || i from n"
    )
    return f"sqlite:///{sqlite_file.path}"


def test_a_pipe_gets_utf_8_in_every_locale() -> None:
    ended = subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, env={**os.environ, **ASCII}, check=True)

    assert ended.stdout.decode() == "東京 Bücher\n"


def test_a_terminal_gets_what_its_encoding_can_show() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        subprocess.run([sys.executable, "-c", PRINTS], stdout=theirs, env={**os.environ, **ASCII}, check=True)
        os.close(theirs)
        assert terminal.read(100) == rb"\u6771\u4eac B\xfccher" + b"\r\n"


def test_a_pipe_closed_after_the_first_line_ends_a_command(url: str) -> None:
    with start("tracking", "changes", "t", "--format", "jsonl", "--db", url) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("{")
        process.stdout.close()
        assert process.wait(60) == CLOSED_PIPE == 141
        assert process.stderr.read() == ""


@pytest.mark.parametrize("arguments", [["tracking", "changes", "t"], ["tracking", "options"], ["--help"]])
def test_a_pipe_that_nobody_reads_ends_a_command(url: str, arguments: Sequence[str]) -> None:
    options = ["--db", url] if arguments != ["--help"] else []
    with start(*arguments, *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(60) == CLOSED_PIPE
        assert process.stderr.read() == ""


@pytest.mark.parametrize("form", ["jsonl", "table"])
def test_a_full_disk_is_a_numbered_error(url: str, form: str) -> None:
    command = [sys.executable, "-m", "rowtide", "tracking", "changes", "t", "--format", form, "--db", url]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("RT-1011: the command's output cannot be written: No space left on device.")


def test_a_command_without_standard_output_runs(url: str) -> None:
    command = f"exec {sys.executable} -m rowtide tracking options --db {url} >&-"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_library_that_still_reads_does_not_abort_the_end() -> None:
    ended = run(READS_WHILE_IT_ENDS)

    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "the whole output\n", "")


def test_what_is_left_to_do_at_the_end_is_done() -> None:
    ended = run(LEAVES_THINGS_TO_DO)

    folder, registered = ended.stdout.splitlines()
    assert registered == "registered later"
    assert not Path(folder).exists()
    assert ended.returncode == 0


def test_a_fault_shows_its_traceback_and_is_exit_code_1() -> None:
    ended = run(FAILS)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"
