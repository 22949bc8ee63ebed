"""A fork that runs a function: it ends with it, whatever happens in it, and its parent's callers do not run twice."""

from __future__ import annotations

import subprocess
import sys

import pytest

FORKS = """
import os, sys, time
from rowtide.agents.log_reader_process import ForkedChild, can_fork
assert can_fork()
def run():
{run}
try:
    child = ForkedChild(run)
    {parent}
finally:
    print("parent", flush=True)
"""


def run_program(run: str, parent: str) -> subprocess.CompletedProcess[str]:
    program = FORKS.format(run=f"    {run}", parent=parent)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("run", "code", "told"),
    [
        ("pass", 0, ""),
        ("print('unseen', flush=True)", 0, ""),
        ("sys.stdin.read()", 0, ""),
        ("raise ValueError('told')", 1, "ValueError: told"),
        ("sys.exit(3)", 1, "SystemExit: 3"),
        ("os.kill(os.getpid(), 9)", -9, ""),
    ],
)
def test_a_fork_ends_with_its_function(run: str, code: int, told: str) -> None:
    ended = run_program(run, f"assert child.wait(30) == child.poll() == child.wait() == {code}")

    assert (ended.returncode, ended.stdout) == (0, "parent\n")
    assert ended.stderr.rstrip().endswith(told)


def test_a_fork_that_runs_on_is_waited_for_in_vain() -> None:
    parent = """
    import subprocess
    assert child.poll() is None
    try:
        child.wait(0.05)
    except subprocess.TimeoutExpired:
        child.kill()
    assert child.wait(30) == -9
    child.kill()
"""
    ended = run_program("time.sleep(60)", parent)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "parent\n", "")


@pytest.mark.parametrize(
    "before", ["import numpy", "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"]
)
def test_a_process_that_has_worked_is_not_forked(before: str) -> None:
    program = f"{before}\nfrom rowtide.agents.log_reader_process import can_fork\nprint(can_fork())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout == "False\n"
