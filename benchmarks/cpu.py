"""The CPU time that processes have had."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

_PARENT, _USER, _SYSTEM, _WAITED_USER, _WAITED_SYSTEM = 1, 11, 12, 13, 14


def cpu_seconds(pid: int) -> float:
    """Return a process's user and system seconds (Linux: utime and stime)."""
    fields = _read(pid)
    return _seconds(fields, _USER, _SYSTEM)


def tree_cpu_seconds(pid: int) -> float:
    """Return the seconds of a process and of all below it, those that ended and were waited for included."""
    processes = {int(folder.name): _read(int(folder.name)) for folder in Path("/proc").glob("[0-9]*")}
    children = defaultdict(list)
    for process, fields in processes.items():
        if fields:
            children[int(fields[_PARENT])].append(process)
    total, left = 0.0, [pid]
    while left:
        process = left.pop()
        total += _seconds(processes.get(process, []), _USER, _SYSTEM, _WAITED_USER, _WAITED_SYSTEM)
        left += children[process]
    return total


def _read(pid: int) -> list[str]:
    """Return a process's figures, none of one that has ended."""
    try:
        # The name, in parentheses, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _seconds(fields: list[str], *places: int) -> float:
    return sum(int(fields[place]) for place in places) / os.sysconf("SC_CLK_TCK") if fields else 0.0
