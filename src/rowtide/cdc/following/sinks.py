"""Where events go. A sink reports up to which LSN everything is durable there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol, TextIO

import pyarrow as pa

from rowtide.cdc.following.formats import EVENT
from rowtide.cdc.lake_readers.json_texts import joined
from rowtide.core.lsn import CommitLsn


class Interrupted(Exception):
    """The follower was asked to stop while a sink waits."""


class Sink(Protocol):
    """Takes events, whole transactions or parts of one, in the order of the stream."""

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Take events; yield LSNs up to which all events are durable, rising, each as soon as it is so.

        With these events every transaction up to `whole_to` is complete; later ones may not be. Raises `Interrupted`.
        """
        ...

    def settle(self) -> CommitLsn | None:
        """Do what is due by time alone; return as `deliver` yields, or None."""
        ...

    def close(self) -> CommitLsn | None:
        """Complete what can be; return as `settle`."""
        ...


class Printing:
    """Lines of a text stream, flushed with each batch. What is written there raises is left to the caller."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def deliver(self, events: pa.RecordBatch, whole_to: CommitLsn) -> Iterator[CommitLsn]:
        """Print events."""
        self._out.write(joined(events.column(EVENT)))
        self._out.flush()
        yield whole_to

    def settle(self) -> None:
        """Do nothing: everything is flushed."""

    def close(self) -> None:
        """Do nothing: everything is flushed."""


def wait(stop: threading.Event, pause_s: float) -> None:
    """Pause between tries. Raises `Interrupted`."""
    if stop.wait(pause_s):
        raise Interrupted
