from __future__ import annotations

import os
import threading
import time

from rowtide.log.log_source import SelectableEvent, await_readable


def test_a_wait_for_a_pipe_ends_with_the_event() -> None:
    readable, writable = os.pipe()
    stop = SelectableEvent()
    began = time.monotonic()
    threading.Timer(0.01, stop.set).start()

    assert not await_readable(readable, 60, stop)
    assert stop.is_set()
    assert not await_readable(readable, 60, stop)
    assert time.monotonic() - began < 30
    os.write(writable, b"x")
    assert await_readable(readable, 60, stop)
    for descriptor in (readable, writable):
        os.close(descriptor)


def test_a_wait_without_an_event_ends_in_time() -> None:
    readable, writable = os.pipe()

    assert not await_readable(readable, 0.01, None)
    os.write(writable, b"x")
    assert await_readable(readable, None, None)
    for descriptor in (readable, writable):
        os.close(descriptor)


def test_an_event_may_be_set_often() -> None:
    stop = SelectableEvent()
    for _ in range(100_000):
        stop.set()

    assert stop.wait(0)
