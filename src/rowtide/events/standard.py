"""The log of a program that configures none of rowtide's: Python's `logging`, logger `rowtide.events`."""

from __future__ import annotations

import logging

from rowtide.events.event import Emitted
from rowtide.events.rendering import record_of, write_message

log = logging.getLogger("rowtide.events")


def log_as_usual(emitted: Emitted) -> None:
    """Log an event as a record, whose message is its name and fields, and which has it as the attribute `event`."""
    severity = emitted.event.level.severity
    if log.isEnabledFor(severity):
        log.log(severity, "%s", write_message(record_of(emitted)), extra={"event": emitted.event})
