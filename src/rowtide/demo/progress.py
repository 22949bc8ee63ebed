"""Progress of the demo: a spinner and ticks on a terminal, plain lines with elapsed time elsewhere."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from rowtide.core.lsn import CommitLsn
from rowtide.demo.proof import Read

_LINE_EVERY_S = 5.0


class DemoProgress:
    """Shows one step after the other."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started_at = time.monotonic()
        self._next_line_at = 0.0

    @contextmanager
    def step(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show a step while it lasts; yields a function that shows its progress."""
        begun_at = time.monotonic()
        if not self._console.is_terminal:
            self._print_line(text)
            yield self._print_now_and_then
            return
        with self._console.status(text) as status:
            yield lambda state: status.update(f"{text}: {state}")
        self._console.print(f"[green]✓[/green] {text} [dim]{time.monotonic() - begun_at:.1f} s[/dim]")

    def _print_now_and_then(self, state: str) -> None:
        if time.monotonic() >= self._next_line_at:
            self._next_line_at = time.monotonic() + _LINE_EVERY_S
            self._print_line(f"  {state}")

    def _print_line(self, text: str) -> None:
        self._console.print(f"{time.monotonic() - self._started_at:6.1f} s  {text}", soft_wrap=True)


@dataclass(slots=True)
class Lag:
    """The age of the newest transaction that a reader saw, from samples of the source's transaction count."""

    _times: list[float] = field(default_factory=list)
    _transactions: list[int] = field(default_factory=list)

    def sample(self, at_s: float, transactions: int) -> None:
        """Record the source's transaction count, in order of time."""
        self._times.append(at_s)
        self._transactions.append(transactions)

    def seconds(self, at_s: float, seen: int) -> float:
        """Return how long ago the source had only the transactions that were seen."""
        place = bisect_left(self._transactions, seen + 1)
        return max(0.0, at_s - self._times[place]) if place < len(self._times) else 0.0


def describe_run(transactions: int, last: Read | None, lag_s: float, reads: int) -> str:
    """Return one line about the run."""
    if last is None or not last.transactions:
        return f"{transactions:,} transactions, nothing published yet"
    return (
        f"{transactions:,} transactions, {last.transactions:,} read up to LSN {CommitLsn(last.lsn)}, "
        f"{lag_s:.1f} s behind; {reads} consistent reads"
    )
