"""What an uploading subscriber says of generations: it can know of none that the hub does not know of.

The owner of a device can write anything into its file. A lineage that includes changes which are still to come would
make every later change of another node look old, and be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Select, func, select, union_all

from rowtide.merge.articles import Article, SubscriberType
from rowtide.merge.definitions import genhistory, replinfo, subscriptions
from rowtide.merge.errors.nodes import GenerationRefused
from rowtide.merge.nodes.node import Node
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.purge import read_included
from rowtide.merge.session.receiver import Part
from rowtide.merge.versions.changes import KnownVersion, RowChange
from rowtide.merge.versions.comparison import MOST_VERSIONS, Lineage, NodeChange, decode_columns

_OWN = select(func.max(genhistory.c.generation)).where(genhistory.c.nickname == replinfo.c.nickname).scalar_subquery()
_KNOWN = union_all(
    select(replinfo.c.nickname.label("nickname"), _OWN.label("generation")),
    select(subscriptions.c.replnickname, subscriptions.c.recgen),
).subquery()
SELECT_GENERATIONS: Select[Any] = select(_KNOWN.c.nickname, _KNOWN.c.generation)
"""The query of the last generation that the hub has of itself and of each node that it exchanges with."""


def read_generations(rows: Iterable[Mapping[Any, Any]]) -> dict[int, int]:
    """Return the last generations by nickname, from the rows of `SELECT_GENERATIONS`."""
    last: dict[int, int] = {}
    for row in rows:
        last[row["nickname"]] = max(row["generation"] or 0, last.get(row["nickname"], 0))
    return last


@dataclass(slots=True)
class LineageChecks:
    """Judges the lineages that come from a subscriber.

    `last` are the hub's last generations, by the node's nickname. Of nodes that it does not exchange with, a subscriber
    has learned from the hub, whose lineages of a table, by the article's nickname, are read by `read_seen`. It is None
    for a subscriber that may publish again: of nodes below that one, the hub learns from it.
    """

    subscriber: str
    source: int
    received: int
    last: Mapping[int, int]
    read_seen: Callable[[int], Lineage] | None = None
    _seen: dict[int, Lineage] = field(default_factory=dict)
    _generation: int = 0
    _judged: set[tuple[bytes, bytes, bytes | None]] = field(default_factory=set)

    def begin(self, generation: int) -> None:
        """Take the generation that the subscriber uploads. Raises `GenerationRefused`."""
        if generation < self.received:
            reason = f"it is at generation {generation}, and has sent generation {self.received} before"
            raise GenerationRefused(self.subscriber, reason)
        if generation >= MOST_VERSIONS:
            raise GenerationRefused(self.subscriber, f"it is at generation {generation}, which is too high")
        self._generation = generation

    def require(self, parts: Iterable[Part], known: Iterable[Mapping[str, KnownVersion]]) -> None:
        """Raise `GenerationRefused` for a change that names a generation which its node has not reached."""
        for (article, changes), found in zip(parts, known, strict=True):
            for change in changes:
                version = (change.lineage, change.last, change.columns)
                if version not in self._judged:
                    self._require(article, change, found.get(change.rowguid))
                    self._judged.add(version)

    def _require(self, article: Article, change: RowChange, known: KnownVersion | None) -> None:
        lineage, last = Lineage.decode(change.lineage), NodeChange.decode(change.last)
        columns = () if change.columns is None else decode_columns(change.columns).values()
        here = Lineage.EMPTY if known is None else known.version.lineage
        for each in (*lineage.changes, last, *columns):
            if each.version > here.version_of(each.nickname) and each.version > self._last_of(each.nickname, article):
                whose = "its own" if each.nickname == self.source else f"node {each.nickname}'s"
                reason = (
                    f"row {change.rowguid} of {article.qualified_name} includes {whose} generation {each.version}, "
                    "which is still to come"
                )
                raise GenerationRefused(self.subscriber, reason)
        if not lineage.includes(last):
            reason = f"row {change.rowguid} of {article.qualified_name} does not include the change that made it"
            raise GenerationRefused(self.subscriber, reason)

    def reduce(self, article: Article, lineage: bytes) -> bytes:
        """Return an encoded lineage without the changes that their nodes have not reached.

        It is that of a version which lost. The node that settles the conflict joins it to the row's lineage; with a
        change in it that is still to come, every node would believe that it has that change.
        """
        given = Lineage.decode(lineage).changes
        return Lineage.of(each for each in given if each.version <= self._last_of(each.nickname, article)).encode()

    def _last_of(self, nickname: int, article: Article) -> int:
        if nickname == self.source:
            return self._generation
        if nickname in self.last or self.read_seen is None:
            return self.last.get(nickname, MOST_VERSIONS)
        if article.nickname not in self._seen:
            self._seen[article.nickname] = self.read_seen(article.nickname)
        return self._seen[article.nickname].version_of(nickname)


def check_lineages(hub: Node, pairing: Pairing, last: dict[int, int]) -> LineageChecks:
    """Return what judges the lineages of a device; `last` are the last generations that the hub has, by nickname."""
    claims = LineageChecks(pairing.at_hub.subscriber, pairing.at_hub.nickname, pairing.at_hub.received, last)
    if pairing.at_hub.subscriber_type is not SubscriberType.SERVER:
        claims.read_seen = partial(read_included, hub, last[pairing.hub])
    return claims
