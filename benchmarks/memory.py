"""The most memory that a process has had."""

from __future__ import annotations

from pathlib import Path


def peak_memory() -> int:
    """Return this process's peak resident memory in bytes, shared pages of its libraries included (Linux: VmHWM)."""
    found = find_peak_memory("self")
    assert found is not None, "this process runs"
    return found


def find_peak_memory(pid: int | str) -> int | None:
    """Return a process's peak resident memory in bytes, None once it has ended."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return None if line is None else int(line.split()[1]) * 1024
