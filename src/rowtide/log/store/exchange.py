"""Entries of a manifest that two processes of one agent tell each other once they are durable.

Who has been told of an entry need not ask the store for it, and appends its own one behind it at the first try. Nothing
depends on what is told: what is missing is read from the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

_MOST_KEPT = 1000


@dataclass(frozen=True, slots=True)
class EntryWritten:
    """An entry that is durable, by its number, and its file's content."""

    number: int
    content: bytes


@dataclass(frozen=True, slots=True)
class EntryExchange:
    """One process's side: `tell` sends an entry to the other one. Told by one thread, used by another."""

    tell: Callable[[EntryWritten], None]
    _heard: dict[int, bytes] = field(default_factory=dict)

    def hear(self, entry: EntryWritten) -> None:
        """Note an entry of the other process; the oldest are forgotten if nobody takes them."""
        while len(self._heard) >= _MOST_KEPT:
            self._heard.pop(next(iter(self._heard)), None)
        self._heard[entry.number] = entry.content

    def take(self, number: int) -> bytes | None:
        """Return an entry that was heard of, once; forget those before it."""
        for earlier in [known for known in list(self._heard) if known < number]:
            self._heard.pop(earlier, None)
        return self._heard.pop(number, None)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that was heard of and not taken."""
        return not self._heard
