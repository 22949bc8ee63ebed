"""The CPU time that a process has had."""

from __future__ import annotations

import os
from pathlib import Path

_USER, _SYSTEM = 11, 12


def cpu_seconds(pid: int) -> float:
    """Return a process's user and system seconds (Linux: utime and stime)."""
    # The name, in parentheses, may hold anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")
