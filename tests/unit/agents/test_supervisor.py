"""The pauses before a process is started again."""

from __future__ import annotations

from rowtide.agents.supervisor import HEALTHY_S, LONGEST_PAUSE_S, next_pause_s


def test_the_pause_doubles_up_to_a_minute() -> None:
    pause_s, pauses = None, []
    for _ in range(8):
        pause_s = next_pause_s(pause_s, 0.1)
        pauses.append(pause_s)

    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_healthy_minute_resets_the_pause() -> None:
    assert next_pause_s(32, HEALTHY_S - 0.1) == LONGEST_PAUSE_S
    assert next_pause_s(32, HEALTHY_S) == 1
