"""Devices that wait until their hub has something: one question to each hub, however many wait.

The question is whether a line is in the log of changes, or a generation is closed: it costs the same whatever the hub
has. A trigger that notified would take a lock for each transaction of the hub's programs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sqlalchemy import func, select

from rowtide.core.errors import RowtideError
from rowtide.gateway.requests import LONGEST_WAIT_S
from rowtide.merge.definitions import change_log, genhistory, replinfo
from rowtide.merge.nodes.node import Node

_EVERY_S = 0.5
_CLOSED_EVERY_S = 1.0


def read_head(hub: Node) -> tuple[int, bool]:
    """Return a hub's last generation, and whether changes were made since."""
    own = select(replinfo.c.nickname).scalar_subquery()
    last = select(func.max(genhistory.c.generation)).where(genhistory.c.nickname == own)
    is_open = select(change_log.c.tablenick).limit(1)
    connection = hub.connection
    return connection.execute(last).scalar() or 0, connection.execute(is_open).first() is not None


def close_generation(hub: Node) -> int:
    """Close the open generation, and return its number."""
    with hub.changes.enumerating() as enumeration:
        return enumeration.generation


@dataclass(slots=True)
class HeadWatch:
    """What is known of a hub's last generation, while devices wait for it."""

    run: Callable[[Callable[[Node], object]], Awaitable[object]]
    """Runs work with the hub's node."""
    _head: int = -1
    _waiting: int = 0
    _closed_at: float = 0.0
    _task: asyncio.Task[None] | None = None
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait(self, generation: int, wait_s: float) -> bool:
        """Return whether the hub has a later generation than a device, at the latest after some time."""
        self._waiting += 1
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        try:
            async with self._changed, asyncio.timeout(min(wait_s, LONGEST_WAIT_S)):
                await self._changed.wait_for(lambda: self._head > generation)
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    async def _watch(self) -> None:
        while self._waiting:
            head = await self._ask()
            if head is not None and head != self._head:
                self._head = head
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(_EVERY_S)
        self._head, self._task = -1, None

    async def _ask(self) -> int | None:
        """Return the last generation; None while the hub cannot be asked: devices wait on, and ask again themselves."""
        try:
            found = await self.run(read_head)
            assert isinstance(found, tuple)
            head, is_open = found
            if is_open and time.monotonic() - self._closed_at >= _CLOSED_EVERY_S:
                self._closed_at = time.monotonic()
                head = await self.run(close_generation)
        except RowtideError:
            return None
        return int(head)
