"""What was measured side by side."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.goals import Goal


@dataclass(frozen=True, slots=True)
class Table:
    """A row of texts for each way of doing one thing, and the goals that it has figures for."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    goals: tuple[Goal, ...] = ()
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the command line asks for: None is the workload's own number."""

    rows: int | None
    runs: int
    seconds: int | None
