"""`rowtide demo` as a person runs it: it proves itself, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

# A session of Spark beside a loaded server: minutes on a busy machine.
pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(900)]

DEMO = [sys.executable, "-m", "rowtide", "demo", "--seconds", "20"]


def environment(temporary: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(temporary)}


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of processes that name a folder or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in command or (process / "cwd").resolve().is_relative_to(folder):
                found.append(command)
    return found


def wait_until(condition: Callable[[], object], *, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {timeout_s} s"
        time.sleep(0.1)


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """The folder for temporary folders, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.mark.exhaustive
def test_demo_proves_itself_and_leaves_nothing_behind(temporary: Path) -> None:
    demo = subprocess.run(DEMO, env=environment(temporary), capture_output=True, text=True, check=False)
    assert demo.returncode == 0, demo.stderr
    reads = re.search(r"consistent reads +(\d+) during the run.* at most (\d+\.\d+) s after", demo.stdout)
    assert reads is not None, demo.stdout
    assert int(reads[1]) >= 20
    assert float(reads[2]) <= 2
    assert re.search(r"row by row equal +.*pgbench_accounts 1,000,000 rows", demo.stdout)
    assert re.search(r"pgbench_accounts, current table = source: 1,000,000 rows", demo.stdout)
    assert re.search(r"pgbench_accounts, history table, slices = the table as of LSN \S+: 1,000,000 rows", demo.stdout)
    assert re.search(r"commit to queryable +median \d+\.\d s, 95th percentile \d+\.\d s", demo.stdout)
    assert processes_in(temporary) == []
    assert list(temporary.glob("rowtide-demo-*")) == []


@pytest.mark.exhaustive
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGINT, id="SIGINT", marks=pytest.mark.exhaustive),
        pytest.param(signal.SIGHUP, id="SIGHUP", marks=pytest.mark.soak),
    ],
)
def test_interrupted_demo_ends_everything_and_removes_its_folder(temporary: Path, number: signal.Signals) -> None:
    with subprocess.Popen(DEMO, env=environment(temporary), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as demo:
        wait_until(lambda: [*temporary.glob("*/messages/agent")], timeout_s=300)
        demo.send_signal(number)
        demo.communicate(timeout=120)
    assert demo.returncode == 128 + number
    assert processes_in(temporary) == []
    assert list(temporary.glob("rowtide-demo-*")) == []


@pytest.mark.soak
def test_killed_demo_takes_its_processes_along(temporary: Path) -> None:
    with subprocess.Popen(
        DEMO, env=environment(temporary), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as demo:
        wait_until(lambda: [*temporary.glob("*/messages/agent")], timeout_s=300)
        demo.kill()
    wait_until(lambda: processes_in(temporary) == [], timeout_s=120)


def test_missing_java_is_one_line_before_anything_starts(temporary: Path) -> None:
    without_java = {**environment(temporary), "JAVA_HOME": str(temporary / "nowhere")}
    demo = subprocess.run(DEMO, env=without_java, capture_output=True, text=True, check=False)
    assert demo.returncode == 1
    assert re.fullmatch(r"RT-1002: .*\n", demo.stderr)


def test_folder_that_is_not_empty_is_refused(temporary: Path) -> None:
    (temporary / "something").touch()
    demo = subprocess.run([*DEMO, "--keep", str(temporary)], capture_output=True, text=True, check=False)
    assert demo.returncode == 1
    assert re.fullmatch(r"RT-4907: .*\n", demo.stderr)
