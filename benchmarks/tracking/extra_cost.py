"""What ways of tracking add to writes."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from benchmarks.goals import Goal, at_most
from benchmarks.table import Table


class Costs:
    """What operations cost in each way, all ways in turn, round after round.

    What a way adds is the median over the rounds of its difference, or ratio, to the baseline in the same round: a
    machine that is slower for a while is so for both.
    """

    def __init__(self, baseline: str, unit: str) -> None:
        self._baseline = baseline
        self._unit = unit
        self._samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))

    def add(self, way: str, operation: str, cost: float) -> None:
        """Note what an operation took in this round."""
        self._samples[way][operation].append(cost)

    def add_in_turn(self, operation: str, writes: Mapping[str, Callable[[int], object]], keys: range) -> None:
        """Let each way write each key, a key in all ways before the next; note the mean milliseconds.

        Whatever a disk is busy with for a while meets all of them.
        """
        seconds = dict.fromkeys(writes, 0.0)
        for key in keys:
            for way, write in writes.items():
                begin = time.perf_counter()
                write(key)
                seconds[way] += time.perf_counter() - begin
        for way, total in seconds.items():
            self.add(way, operation, total / len(keys) * 1000)

    def table(self, name: str, remark: str, goals: Iterable[Goal] = ()) -> Table:
        """Return medians, and what each way adds to the baseline's."""
        headings = (text for operation in self._operations for text in (f"{operation}, {self._unit}", "more", "factor"))
        rows = tuple((way, *self._figures(way)) for way in self._samples)
        return Table(name, ("way", *headings), rows, tuple(goals), remark)

    def limit_more(self, name: str, ways: Iterable[str], goals: Mapping[str, float]) -> Iterator[Goal]:
        """Yield goals for what ways add, by operation."""
        for way in ways:
            for operation, goal in goals.items():
                more = statistics.median(cost - other for cost, other in self._pairs(way, operation))
                yield at_most(f"{name}, {operation}, {way}: {self._unit} more", goal, more)

    def limit_factor(self, name: str, ways: Iterable[str], goal: float) -> Iterator[Goal]:
        """Yield goals for the factors of ways, of every operation."""
        for way in ways:
            for operation in self._operations:
                yield at_most(f"{name}, {operation}, {way}: factor", goal, self._factor(way, operation))

    @property
    def _operations(self) -> tuple[str, ...]:
        return tuple(self._samples[self._baseline])

    def _figures(self, way: str) -> Iterator[str]:
        for operation in self._operations:
            yield f"{statistics.median(self._samples[way][operation]):.2f}"
            more = statistics.median(cost - other for cost, other in self._pairs(way, operation))
            yield "" if way == self._baseline else f"{more:+.2f}"
            yield "" if way == self._baseline else f"{self._factor(way, operation):.2f}"

    def _factor(self, way: str, operation: str) -> float:
        return statistics.median(cost / other for cost, other in self._pairs(way, operation))

    def _pairs(self, way: str, operation: str) -> Iterator[tuple[float, float]]:
        return zip(self._samples[way][operation], self._samples[self._baseline][operation], strict=True)
