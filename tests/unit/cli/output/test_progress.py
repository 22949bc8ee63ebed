"""Progress by time: a line at once, then one an interval, and the rest at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.cli.output.progress import Paced


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def paced(clock: Clock) -> tuple[Paced[int], list[Sequence[int]]]:
    told: list[Sequence[int]] = []
    return Paced(lambda reports: told.append(list(reports)), interval_s=1000, clock=clock), told


def test_reports_of_an_interval_are_reported_together() -> None:
    clock = Clock()
    progress, told = paced(clock)
    for clock.now in range(0, 2500, 100):
        progress.add(int(clock.now))
    progress.flush()

    assert [reports[0] for reports in told] == [0, 100, 1100, 2100]
    assert sorted(number for reports in told for number in reports) == list(range(0, 2500, 100))


def test_a_last_report_is_printed_when_the_interval_is_over() -> None:
    told: list[Sequence[int]] = []
    progress = Paced[int](told.append, interval_s=0.01)
    progress.add(1)
    progress.add(2)
    timer = progress._timer
    if timer is not None:
        timer.join(10)

    assert [list(reports) for reports in told] == [[1], [2]]


def test_nothing_is_reported_of_nothing() -> None:
    progress, told = paced(Clock())
    progress.flush()

    assert told == []
