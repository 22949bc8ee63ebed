"""What this process has asked of object stores: requests, as they are priced, and bytes."""

from __future__ import annotations

import threading

from rowtide.core.values import frozen


@frozen
class Traffic:
    """`writes` are PUT, POST and LIST, which have one price, `reads` GET; a DELETE costs nothing and is not counted."""

    writes: int = 0
    reads: int = 0
    transferred: int = 0
    """Bytes, sent and received."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.writes + other.writes, self.reads + other.reads, self.transferred + other.transferred)

    def since(self, earlier: Traffic) -> Traffic:
        """Return what came after."""
        return Traffic(self.writes - earlier.writes, self.reads - earlier.reads, self.transferred - earlier.transferred)


class _Counter:
    """What this process has asked, counted by many threads."""

    def __init__(self) -> None:
        self.total = Traffic()
        self.changing = threading.Lock()


_counter = _Counter()


def count(added: Traffic) -> None:
    """Count what was asked."""
    with _counter.changing:
        _counter.total += added


def read_traffic() -> Traffic:
    """Return what this process has asked since it began."""
    return _counter.total
