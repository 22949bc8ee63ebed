"""An event that ends a wait for a socket too."""

from __future__ import annotations

import os
import select
import threading
from typing import Protocol


class HasDescriptor(Protocol):
    """A socket or pipe."""

    def fileno(self) -> int: ...


class SelectableEvent(threading.Event):
    """An event that `select` takes beside sockets: readable once it is set, which it stays."""

    def __init__(self) -> None:
        super().__init__()
        self._readable, self._writable = os.pipe()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._readable

    def set(self) -> None:
        """Set it, and end the waits."""
        if not self.is_set():
            super().set()
            os.write(self._writable, b".")


def await_readable(own: int | HasDescriptor, timeout: float | None, stop: SelectableEvent | None) -> bool:
    """Return whether a socket is readable within some seconds; False at once if the event is set and it is not."""
    waited: list[int | HasDescriptor] = [own] if stop is None else [own, stop]
    ready, _, _ = select.select(waited, [], [], timeout)
    return own in ready
