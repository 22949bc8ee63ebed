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


WORKS = """
import os, signal, sys, time
from rowtide.cli.output import watching
from rowtide.agents.signals import own_process
watching.STOP_PATIENCE_S = 600.0
own_process()
with watching.stopping() as stop:
    if sys.argv[1] == "begun":
        stop.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    # As while it imports: it does not look at the event. A signal's handler may come a moment later.
    for _ in range(3000 if sys.argv[1] == "starting" else 10):
        time.sleep(0.01)
print("left in order")
"""


@pytest.mark.parametrize(("state", "printed"), [("starting", ""), ("begun", "left in order\n")])
def test_what_has_not_begun_ends_at_once(state: str, printed: str) -> None:
    command = [sys.executable, "-c", WORKS, state]
    ended = subprocess.run(command, timeout=60, check=False, capture_output=True, text=True)

    assert (ended.returncode, ended.stdout) == (0, printed), ended.stderr
