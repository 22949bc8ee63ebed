"""Emission of events: to the log, and to listeners in this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rowtide.events.event import Emitted, Event, current_scope
from rowtide.events.rendering import record_of, write_message

Listener = Callable[[Emitted], None]


class _Process:
    """Who gets this process's events."""

    log: Listener | None = None
    """None: Python's `logging`."""
    listeners: tuple[Listener, ...] = ()
    lock = threading.Lock()


def emit(event: Event) -> None:
    """Report an event, from any thread."""
    deliver(emitted_now(event))


def emitted_now(event: Event) -> Emitted:
    """Return an event as this thread emits it now."""
    return Emitted(datetime.now(UTC), event, current_scope())


def deliver(emitted: Emitted) -> None:
    """Give an event, which may be another process's, to the log and to all listeners."""
    (_Process.log or log_as_usual)(emitted)
    for listener in _Process.listeners:
        listener(emitted)


def log_nothing(_emitted: Emitted) -> None:
    """Log nothing, as what a command says itself, or shows."""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a function called with each event during the block, in the thread that emits it."""
    with _Process.lock:
        _Process.listeners = (*_Process.listeners, listener)
    try:
        yield
    finally:
        with _Process.lock:
            _Process.listeners = tuple(one for one in _Process.listeners if one is not listener)


def use_log(log: Listener | None) -> Listener | None:
    """Have events written by a function instead of Python's `logging` (None); return the one before."""
    before, _Process.log = _Process.log, log
    return before


log = logging.getLogger("rowtide.events")


def log_as_usual(emitted: Emitted) -> None:
    """Log an event as a record, whose message is its name and fields, and which has it as the attribute `event`."""
    severity = emitted.event.level.severity
    if log.isEnabledFor(severity):
        log.log(severity, "%s", write_message(record_of(emitted)), extra={"event": emitted.event})
