"""Which steps of agents hang, and which only take long."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.agents.hangs import HangWatch, noting_events, running_step
from rowtide.agents.loop import run_agent
from rowtide.events.catalogue import JobStarted, WorkerHangs
from rowtide.events.event import Emitted, emit, listening, scope

HANGS_AFTER_S = 100.0


class Clock:
    now = 0.0

    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now


class Worker:
    """A thread in a step, which waits for orders without being scheduled."""

    def __init__(self) -> None:
        self._order, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._has_begun = threading.Event()
        self._ends = False
        self._emits = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with scope("shop", "capture"), running_step():
            self._has_begun.set()
            while True:
                self._order.acquire()
                if self._ends:
                    return
                if self._emits:
                    emit(JobStarted())
                self._done.release()

    def work(self, *, emits: bool = False) -> None:
        self._emits = emits
        self._order.release()
        self._done.acquire()
        # It waits again, which is its last switch.
        time.sleep(0.05)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        self._has_begun.wait()
        time.sleep(0.05)
        try:
            yield
        finally:
            self._ends = True
            self._order.release()
            self._thread.join()


def hangs_of(found: list[Emitted]) -> list[tuple[str, str]]:
    return [(one.scope.database, one.scope.job) for one in found if isinstance(one.event, WorkerHangs)]


def test_a_step_that_is_never_scheduled_hangs_with_one_event() -> None:
    worker, clock, found = Worker(), Clock(), list[Emitted]()
    watch = HangWatch(HANGS_AFTER_S, clock)
    with listening(found.append), worker.running():
        assert watch.find_hang() is None
        clock.now += HANGS_AFTER_S - 1
        assert watch.find_hang() is None
        clock.now += 1
        silence = watch.find_hang()
        assert silence is not None
        assert (silence.of.job, silence.seconds) == ("capture", HANGS_AFTER_S)
        assert watch.find_hang() is not None
        worker.work()
        assert watch.find_hang() is None
    assert hangs_of(found) == [("shop", "capture")]


def test_a_step_that_works_on_does_not_hang_however_long_it_is() -> None:
    worker, clock = Worker(), Clock()
    watch = HangWatch(HANGS_AFTER_S, clock)
    with worker.running():
        for _ in range(5):
            assert watch.find_hang() is None
            clock.now += HANGS_AFTER_S
            worker.work()
        assert watch.find_hang() is None


def test_an_event_is_a_sign_of_life() -> None:
    worker = Worker()
    with noting_events(), worker.running():
        watch = HangWatch(0.5)
        watch.find_hang()
        time.sleep(0.3)
        worker.work(emits=True)
        time.sleep(0.3)
        assert watch.find_hang() is None


def test_no_step_is_no_hang() -> None:
    clock = Clock()
    watch = HangWatch(HANGS_AFTER_S, clock)
    assert watch.find_hang() is None
    clock.now += 10 * HANGS_AFTER_S
    assert watch.find_hang() is None


def test_a_step_of_an_agent_is_watched_and_its_pause_is_not() -> None:
    stop, paused = threading.Event(), threading.Event()
    clock = Clock()
    watch = HangWatch(HANGS_AFTER_S, clock)
    seen: list[bool] = []

    class Agent:
        def __enter__(self) -> Agent:
            return self

        def __exit__(self, *_raised: object) -> None:
            pass

        def step(self) -> bool:
            if not seen:
                watch.find_hang()
                clock.now += HANGS_AFTER_S
                seen.append(watch.find_hang() is not None)
            paused.set()
            return False

    running = threading.Thread(target=run_agent, args=(Agent,), kwargs={"stop": stop, "idle_s": 60})
    running.start()
    assert paused.wait(10)
    time.sleep(0.05)
    clock.now += 10 * HANGS_AFTER_S
    assert watch.find_hang() is None
    stop.set()
    running.join()
