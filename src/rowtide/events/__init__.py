"""What agents report: declared events, which programs listen to, and logs that they are written to."""

from rowtide.events.configuration import LogFormat, LogOptions, configure_logging
from rowtide.events.emission import listening
from rowtide.events.event import Emitted, Event, Level

__all__ = ["Emitted", "Event", "Level", "LogFormat", "LogOptions", "configure_logging", "listening"]
