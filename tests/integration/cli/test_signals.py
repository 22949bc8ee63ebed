"""A signal that comes while a command that runs on is still starting."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

SIGNALLED = """
import os, sys, time
from rowtide.cli import main
def start(_arguments):
    os.kill(os.getpid(), int(number))
    time.sleep(60)
number = sys.argv.pop(1)
main.read_log_early = start
main.main()
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("arguments", "is_stopped"),
    [(["agent", "run"], True), (["--config", "/dev/null", "cdc", "run"], True), (["cdc", "run", "--once"], False)],
)
def test_it_is_a_stop_of_a_command_that_runs_on(
    arguments: Sequence[str], *, is_stopped: bool, number: signal.Signals
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SIGNALLED, str(int(number)), *arguments], timeout=30, check=False, capture_output=True
    )

    assert (ended.returncode == 0) == is_stopped
