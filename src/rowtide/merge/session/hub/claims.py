"""What an uploading subscriber says of generations: it can know of none that the hub does not know of.

A lineage decides which later changes count as included. One that named changes which are still to come would let those
of other nodes be taken for old, and be lost without a conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, func, select, union_all

from rowtide.merge.articles import Article
from rowtide.merge.definitions import genhistory, replinfo, subscriptions
from rowtide.merge.errors.nodes import GenerationRefused
from rowtide.merge.session.exchange import Part
from rowtide.merge.versions.changes import Known, RowChange
from rowtide.merge.versions.lineage import MOST_VERSIONS, Change, Lineage, decode_columns

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
class Claims:
    """Judges the lineages that come from a subscriber.

    `last` are the hub's last generations, by the node's nickname. Of nodes that it does not exchange with it knows
    nothing: a subscriber that publishes again has such below it.
    """

    subscriber: str
    source: int
    received: int
    last: Mapping[int, int]
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

    def require(self, parts: Iterable[Part], known: Iterable[Mapping[str, Known]]) -> None:
        """Raise `GenerationRefused` for a change that names a generation which its node has not reached."""
        for (article, changes), found in zip(parts, known, strict=True):
            for change in changes:
                version = (change.lineage, change.last, change.columns)
                if version not in self._judged:
                    self._require(article, change, found.get(change.rowguid))
                    self._judged.add(version)

    def _require(self, article: Article, change: RowChange, known: Known | None) -> None:
        lineage, last = Lineage.decode(change.lineage), Change.decode(change.last)
        columns = () if change.columns is None else decode_columns(change.columns).values()
        here = Lineage.EMPTY if known is None else known.version.lineage
        for each in (*lineage.changes, last, *columns):
            if each.version > max(self._last_of(each.nickname), here.version_of(each.nickname)):
                whose = "its own" if each.nickname == self.source else f"node {each.nickname}'s"
                reason = (
                    f"row {change.rowguid} of {article.qualified_name} includes {whose} generation {each.version}, "
                    "which is still to come"
                )
                raise GenerationRefused(self.subscriber, reason)
        if not lineage.includes(last):
            reason = f"row {change.rowguid} of {article.qualified_name} does not include the change that made it"
            raise GenerationRefused(self.subscriber, reason)

    def _last_of(self, nickname: int) -> int:
        return self._generation if nickname == self.source else self.last.get(nickname, MOST_VERSIONS)
