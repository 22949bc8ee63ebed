"""What agents report: declared events, which programs listen to, and logs that they are written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.events.configuration import LogFormat, LogOptions, configure_logging
    from rowtide.events.event import Emitted, Event, Level, Scope, listening

__all__ = ["Emitted", "Event", "Level", "LogFormat", "LogOptions", "Scope", "configure_logging", "listening"]

_HOMES = {
    "Emitted": "rowtide.events.event",
    "Event": "rowtide.events.event",
    "Level": "rowtide.events.event",
    "LogFormat": "rowtide.events.configuration",
    "LogOptions": "rowtide.events.configuration",
    "Scope": "rowtide.events.event",
    "configure_logging": "rowtide.events.configuration",
    "listening": "rowtide.events.event",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
