"""Failpoints on both sides of every durable step, where tests kill the process.

`ROWTIDE_FAILPOINT=name` kills at the first hit of that name, `name@3` at the third. With
`ROWTIDE_FAILPOINT_MARK=FILE` it fires only while FILE does not exist, and creates it: once over all processes and
restarts. `ROWTIDE_FAILPOINTS=DIRECTORY` arms running processes: a failpoint kills once a file of its name exists, and
removes the file.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

_hits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Kill this process here if the environment arms this failpoint."""
    if _is_armed(name, os.environ.get("ROWTIDE_FAILPOINTS")):
        os.kill(os.getpid(), signal.SIGKILL)
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


def _is_armed(name: str, directory: str | None) -> bool:
    if directory is None:
        return False
    try:
        (Path(directory) / name).unlink()
    except FileNotFoundError:
        return False
    return True
