"""How long commands are asked to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from rowtide.agents.signals import calling_late
from rowtide.cli.output.watching import stopping

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_hangup_may_change_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

    with stopping(at_hangup=False) as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_a_signal_asks_a_command_to_end(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)
    with stopping() as stop:
        signal.raise_signal(number)

        assert stop.is_set()


def test_a_closed_terminal_ends_nothing_under_nohup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with stopping() as stop:
        signal.raise_signal(signal.SIGHUP)

        assert not stop.is_set()


@pytest.mark.parametrize(("signals", "patience_s", "is_called"), [(1, 60.0, False), (1, 0.01, True), (2, 60.0, True)])
def test_an_end_is_forced_late_or_at_a_second_signal(*, signals: int, patience_s: float, is_called: bool) -> None:
    signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    called = threading.Event()
    with calling_late({signal.SIGTERM}, lambda: patience_s, called.set):
        for _ in range(signals):
            signal.raise_signal(signal.SIGTERM)

        assert called.wait(10 if is_called else 0.2) == is_called


def test_other_signals_force_no_end() -> None:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    called = threading.Event()
    with calling_late({signal.SIGTERM}, lambda: 0.0, called.set):
        signal.raise_signal(signal.SIGHUP)

        assert not called.wait(0.2)


def test_a_block_that_fails_leaves_no_thread() -> None:
    for _ in range(50):
        with pytest.raises(ConnectionError), calling_late({signal.SIGTERM}, lambda: 60.0, threading.Event().set):
            raise ConnectionError

        assert [thread.name for thread in threading.enumerate() if thread.name == "rowtide signals"] == []
