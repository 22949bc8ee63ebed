"""Failpoints on both sides of every durable step, where tests kill the process.

`ROWTIDE_FAILPOINT=name` kills at the first hit of that name, `name@3` at the third. With
`ROWTIDE_FAILPOINT_MARK=FILE` it fires only while FILE does not exist, and creates it: once over all processes and
restarts. `ROWTIDE_FAILPOINTS=DIRECTORY` arms running processes: a failpoint kills once a file of its name exists, and
removes the file; if the file names another signal, such as SIGSTOP, it sends that.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path

_hits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill or stop this process here if the environment arms this failpoint."""
    armed = _find_armed(name, os.environ.get("ROWTIDE_FAILPOINTS"))
    if armed is not None:
        # The signal goes to this thread: a stop sent to the process may be handled by another thread while this one
        # continues.
        signal.pthread_kill(threading.get_ident(), armed)
    wanted = os.environ.get("ROWTIDE_FAILPOINT")
    if wanted is None:
        return
    wanted_name, _, hit = wanted.partition("@")
    if wanted_name != name:
        return
    _hits[name] += 1
    if _hits[name] == int(hit or 1) and _claim_mark(os.environ.get("ROWTIDE_FAILPOINT_MARK")):
        os.kill(os.getpid(), signal.SIGKILL)


def _claim_mark(path: str | None) -> bool:
    if path is None:
        return True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _find_armed(name: str, directory: str | None) -> signal.Signals | None:
    if directory is None:
        return None
    place = Path(directory) / name
    try:
        wanted = place.read_text()
        place.unlink()
    except FileNotFoundError:
        return None
    return signal.Signals[wanted] if wanted else signal.SIGKILL
