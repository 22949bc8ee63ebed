"""Long polls: devices wait until their hub has changes for them. One query polls each hub, however many devices wait.

The query asks whether the change log has a row, or a generation was closed; its cost does not depend on the hub's size.
NOTIFY in a trigger would take a lock in each transaction of the hub's programs. Only when there are changes, and once
for all devices, a second query finds the subscriptions that they concern: those that have the rows, or whose partition
has them now.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from sqlalchemy import func, select

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.gateway.requests import LONGEST_WAIT_S
from rowtide.merge.articles import Article, Partition, Subscription
from rowtide.merge.catalogue import list_articles, list_publications
from rowtide.merge.definitions import change_log, genhistory, partition_mappings, replinfo, subscriptions
from rowtide.merge.exchange_state import list_subscriptions
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import Enumeration
from rowtide.merge.partitions.expressions import columns_of, functions_of
from rowtide.merge.partitions.filters import RowFilter, bind_articles, fits, read_filter

_EVERY_S = 0.5
"""Interval of the query, and so the delay of a change to a waiting device."""
_CLOSED_EVERY_S = 1.0
"""Least interval of closing generations: each that is closed is a row of the history of generations."""
_MOST_ROWS = 200
"""Limit of changed rows of an article that are compared with partitions; more concern all of its subscribers."""
_MOST_STEPS = 200
"""Limit of remembered steps: minutes of a hub that is written to all the time. A device with an older generation is
told that there are changes.
"""
_KEPT_S = 600.0
"""How long earlier changes are remembered while no device waits; the metadata are kept for longer."""
_NOBODY = 0
"""No node has this nickname."""
_TEXTS = ("text", "character varying")


def read_head(hub: Node) -> tuple[int, bool]:
    """Return a hub's last generation, and whether there are changes since."""
    own = select(replinfo.c.nickname).scalar_subquery()
    last = select(func.max(genhistory.c.generation)).where(genhistory.c.nickname == own)
    is_open = select(change_log.c.tablenick).limit(1)
    connection = hub.connection
    return connection.execute(last).scalar() or 0, connection.execute(is_open).first() is not None


@frozen
class HeadStep:
    """The changes of a hub up to a generation, after those of the step before, and the subscriptions they concern."""

    generation: int
    subids: frozenset[str]


def find_concerned(hub: Node, since: int) -> HeadStep:
    """Close the open generation, and return the subscriptions that changes after a generation concern."""
    by_publication = {one.pubid: list_articles(hub.connection, one.pubid) for one in list_publications(hub.connection)}
    every = {article.nickname: article for articles in by_publication.values() for article in articles}
    with hub.changes.enumerating() as enumeration:
        generation = enumeration.generation
        changed = {nickname: _changed(enumeration, article, since) for nickname, article in every.items()}
    concerned: set[str] = set()
    for pubid, articles in by_publication.items():
        rows = [(article, listed) for article in articles if (listed := changed[article.nickname])]
        concerned |= _concerned(hub, list_subscriptions(hub.connection, pubid), articles, rows) if rows else set()
    return HeadStep(generation, frozenset(concerned))


def _changed(enumeration: Enumeration, article: Article, since: int) -> Sequence[str]:
    """Return the rows of an article that were changed after a generation, at most one more than the limit."""
    batches = (read(article, since, _NOBODY) for read in (enumeration.upserts, enumeration.deletes))
    changes = (change.rowguid for of_kind in batches for batch in of_kind for change in batch)
    return [*islice(changes, _MOST_ROWS + 1)]


def _concerned(
    hub: Node,
    listed: Sequence[Subscription],
    articles: Sequence[Article],
    changed: Iterable[tuple[Article, Sequence[str]]],
) -> set[str]:
    filters = bind_articles(articles, None, of_each=True)
    found: set[str] = set()
    for article, rowguids in changed:
        row_filter = filters.get(article.nickname)
        if row_filter is None or len(rowguids) > _MOST_ROWS or not _compares_texts(row_filter):
            return {one.subid for one in listed}
        found |= _find_members(hub, article, rowguids)
        by_partition: dict[Partition, list[str]] = {}
        for one in listed:
            by_partition.setdefault(one.partition or Partition(), []).append(one.subid)
        # A value that a filter cannot convert is in no partition.
        partitions = [one for one in by_partition if fits(articles, one)]
        places = hub.rows.find_partitions(row_filter, rowguids, partitions)
        found.update(subid for place in places for subid in by_partition[partitions[place]])
    return found


def _find_members(hub: Node, article: Article, rowguids: Sequence[str]) -> set[str]:
    """Return the subscriptions whose subscribers have any of the given rows, also those that a change removes from
    their partition.
    """
    members = partition_mappings.c
    # By the subscriber first, as the primary key has it.
    has_any = select(members.rowguid).where(
        (members.replnickname == subscriptions.c.replnickname)
        & (members.tablenick == article.nickname)
        & members.rowguid.in_(rowguids)
    )
    return set(hub.connection.execute(select(subscriptions.c.subid).where(has_any.exists())).scalars())


def _compares_texts(row_filter: RowFilter) -> bool:
    """Return whether all filters compare the partition's values with text columns: comparisons of other types cannot be
    evaluated here.
    """
    for level in (level for group in row_filter.groups for level in group.levels):
        expression = read_filter(level.article)
        if expression is None or not functions_of(expression):
            continue
        types: Mapping[str, str] = {column.name: column.type_text for column in level.article.columns}
        if not all(types.get(column.name, "").startswith(_TEXTS) for column in columns_of(expression)):
            return False
    return True


@dataclass(slots=True, eq=False)
class _Waiter:
    generation: int
    told: asyncio.Future[None]


@dataclass(slots=True)
class HeadWatch:
    """Watches a hub's last generation while devices wait.

    `_steps` are the changes after generation `_known_from`; earlier ones are unknown, and may concern any device.
    """

    run: Callable[[Callable[[Node], object]], Awaitable[object]]
    """Runs a function with the hub's node."""
    _known_from: int = -1
    _head: int = -1
    _asked_at: float = 0.0
    _closed_at: float = 0.0
    _steps: deque[HeadStep] = field(default_factory=deque)
    _waiters: dict[str, list[_Waiter]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    async def wait(self, subid: str | None, generation: int, wait_s: float) -> bool:
        """Wait until the hub has later changes for a subscription, with a timeout; return whether it has."""
        if self._has(subid or "", generation):
            return True
        if self._task is None or self._task.done():
            if time.monotonic() - self._asked_at > _KEPT_S:
                self._head = -1
            self._task = asyncio.create_task(self._watch())
        waiter = _Waiter(generation, asyncio.get_running_loop().create_future())
        waiters = self._waiters.setdefault(subid or "", [])
        waiters.append(waiter)
        try:
            async with asyncio.timeout(min(wait_s, LONGEST_WAIT_S)):
                await waiter.told
        except TimeoutError:
            return False
        finally:
            waiters.remove(waiter)
            if not waiters:
                self._waiters.pop(subid or "", None)
        return True

    def _has(self, subid: str, generation: int) -> bool:
        """Whether the device is known to lack changes; one without a subscription lacks everything."""
        if generation >= self._head:
            return False
        if not subid or generation < self._known_from:
            return True
        return any(step.generation > generation and subid in step.subids for step in reversed(self._steps))

    async def _watch(self) -> None:
        while self._waiters:
            try:
                changed = await self._ask()
            except RowtideError:
                # While the hub cannot be reached, devices keep waiting, and poll again themselves.
                changed = ()
            for subid in changed:
                for waiter in self._waiters.get(subid, ()):
                    if not waiter.told.done() and self._has(subid, waiter.generation):
                        waiter.told.set_result(None)
            await asyncio.sleep(_EVERY_S)
        self._task = None

    async def _ask(self) -> Iterable[str]:
        """Poll the hub, and return the subscriptions that new changes may concern."""
        found = await self.run(read_head)
        assert isinstance(found, tuple)
        head, is_open = found
        self._asked_at = time.monotonic()
        if self._head < 0 or head < self._head:
            # The first poll for a while, or the hub was restored.
            self._known_from = self._head = head
            self._steps.clear()
            return [*self._waiters]
        if (not is_open and head == self._head) or time.monotonic() - self._closed_at < _CLOSED_EVERY_S:
            return ()
        self._closed_at = time.monotonic()
        since = self._head
        step = await self.run(lambda hub: find_concerned(hub, since))
        assert isinstance(step, HeadStep)
        if len(self._steps) >= _MOST_STEPS:
            self._known_from = self._steps.popleft().generation
        self._steps.append(step)
        self._head = step.generation
        return ["", *step.subids]
