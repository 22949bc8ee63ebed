"""A child of a supervisor, `python -m builders.faults.supervised_child`: it does as its work says."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from rowtide.agents.supervisor import receive_task


def run() -> None:
    """Write one line a start, with what can be seen of this process; then end, hang, or wait."""
    name, work, supervisor = receive_task()
    assert isinstance(work, tuple)
    folder, what = work
    secrets = ",".join(sorted(each for each in os.environ if each.endswith("_PW")))
    with (Path(folder) / name).open("a") as out:
        out.write(f"{os.getpid()} {secrets} {' '.join(sys.argv[2:])}\n")
    if isinstance(what, int):
        os._exit(what)
    if what == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        threading.Thread(target=_end_with, args=(supervisor,), daemon=True).start()
    (Path(folder) / f"{name}.ready").touch()
    while what == "report":
        supervisor.send("x" * 1_000_000)
    while True:
        time.sleep(60)


def _end_with(supervisor: object) -> None:
    try:
        supervisor.recv()  # type: ignore[attr-defined]
    except EOFError:
        os._exit(0)


if __name__ == "__main__":
    run()
