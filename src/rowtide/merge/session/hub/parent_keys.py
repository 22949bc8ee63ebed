"""Which parents the rows of an upload have at the hub.

A key can be another row's at the hub: two nodes inserted it, or the parent's was changed. So a sender names the parents
of its rows by rowguid, and a child goes with its own parent, whatever key that has at the hub.

What an uploading subscriber says of generations: it can know of none that the hub does not know of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from sqlalchemy import Select, func, select, union_all

from rowtide.core.values import frozen
from rowtide.databases.types.strings import ANY
from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.definitions import genhistory, replinfo, subscriptions
from rowtide.merge.errors.nodes import GenerationRefused
from rowtide.merge.errors.rows import ParentNotThere
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.session.exchange import Part
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write, reference_indexes, with_key
from rowtide.merge.versions.comparison import MOST_VERSIONS, Lineage, NodeChange, decode_columns

RowId = tuple[int, str]
"""An article's nickname, and a rowguid."""
KeyColumns = tuple[int, tuple[str, ...]]
"""An article's nickname, and the columns of it that foreign keys reference."""
Keys = Mapping[KeyColumns, Mapping[str, Row]]
"""The values of referenced columns that rows have at the hub, by rowguid; a row that is not there is omitted."""


class Family(NamedTuple):
    """A row with the keys that its parents have at the hub, and those of its parents that are not there.

    `is_moved`: the sender had another key of a parent.
    """

    row: Row
    absent: tuple[RowId, ...]
    is_moved: bool


def parents_of(
    article: Article, change: RowChange, articles: Mapping[int, Article]
) -> Iterator[tuple[ArticleReference, str]]:
    """Yield the foreign keys of a row with the rowguids of the rows that they referenced at the sender."""
    if change.row is not None and change.parents:
        for reference, rowguid in zip(article.references, change.parents, strict=False):
            if rowguid is not None and reference.parent in articles:
                yield reference, rowguid


def keys_to_read(parts: Sequence[Part], articles: Mapping[int, Article]) -> dict[KeyColumns, list[str]]:
    """Return the parents of received rows, by what is to be read of them."""
    asked: dict[KeyColumns, dict[str, None]] = {}
    for article, changes in parts:
        for change in changes if article.references else ():
            for reference, rowguid in parents_of(article, change, articles):
                asked.setdefault((reference.parent, reference.parent_columns), {})[rowguid] = None
    return {columns: list(rowguids) for columns, rowguids in asked.items()}


def find_family(article: Article, change: RowChange, articles: Mapping[int, Article], keys: Keys) -> Family:
    """Return a received row with the keys that its parents have at the hub. It is not a tombstone."""
    assert change.row is not None
    row, absent = change.row, []
    for reference, rowguid in parents_of(article, change, articles):
        key = keys[reference.parent, reference.parent_columns].get(rowguid)
        if key is None:
            absent.append((reference.parent, rowguid))
        elif not _has_key(article, articles[reference.parent], reference, row, key):
            row = with_key(article, reference, row, key)
    return Family(row, tuple(absent), row is not change.row)


def _is_referencing_as(article: Article, parent: RowId, change: RowChange, row: Row) -> bool:
    """Whether a row has the foreign keys to a parent that a received one has."""
    places = [
        place
        for reference, rowguid in zip(article.references, change.parents, strict=False)
        if (reference.parent, rowguid) == parent
        for place in reference_indexes(article, reference)
    ]
    return change.row is not None and all(row[place] == change.row[place] for place in places)


@frozen
class Families:
    """What is to be known of the parents of a part's rows, by the rows' rowguids.

    `moved` are rows with the keys that their parents have here, where the sender had others; `absent` are parents that
    are not here, `relying` those that come in the same attempt.
    """

    article: Article
    moved: dict[str, Row] = field(default_factory=dict)
    absent: dict[str, list[RowId]] = field(default_factory=dict)
    relying: dict[str, list[RowId]] = field(default_factory=dict)

    def with_new_parents(self, change: RowChange) -> RowChange:
        """Return a change with the keys that its parents have here."""
        return change._replace(row=self.moved.get(change.rowguid, change.row))


def find_families(part: Part, articles: Mapping[int, Article], keys: Keys, coming: Set[RowId]) -> Families:
    """Return what is to be known of the parents of a part's rows; `coming` are the rows of the same attempt."""
    article, changes = part
    found = Families(article)
    for change in changes if article.references else ():
        if change.row is None or not any(change.parents):
            continue
        family = find_family(article, change, articles, keys)
        if family.is_moved:
            found.moved[change.rowguid] = family.row
        for parent in family.absent:
            (found.relying if parent in coming else found.absent).setdefault(change.rowguid, []).append(parent)
    return found


def find_absent(article: Article, change: RowChange, articles: Mapping[int, Article], keys: Keys) -> tuple[RowId, ...]:
    """Return those parents of a row that are not at the hub."""
    return () if change.row is None else find_family(article, change, articles, keys).absent


def defer_orphans(
    part: Part, families: Families, writes: Sequence[Write], articles: Mapping[int, Article]
) -> dict[str, Refusal]:
    """Return the refusals of writes that would reference a parent which is not at the hub."""
    article, changes = part
    if not families.absent:
        return {}
    sent = {change.rowguid: change for change in changes}
    found: dict[str, Refusal] = {}
    for write in writes:
        for nickname, rowguid in families.absent.get(write.rowguid, ()) if write.row is not None else ():
            if _is_referencing_as(article, (nickname, rowguid), sent[write.rowguid], write.row or ()):
                error = ParentNotThere.named(article.name, articles[nickname].name, rowguid)
                found[write.rowguid] = Refusal(error, None)
    return found


def require_parents(
    families: Sequence[Families],
    writes: Sequence[tuple[Article, Sequence[Write]]],
    refused: Sequence[Mapping[str, Refusal]],
    articles: Mapping[int, Article],
) -> None:
    """Raise `ParentNotThere` if a row was written without a parent that came with it: the key is another row's."""
    if not any(each.relying for each in families):
        return
    written = {
        (article.nickname, write.rowguid)
        for (article, several), without in zip(writes, refused, strict=True)
        for write in several
        if write.row is not None and write.rowguid not in without
    }
    for each in families:
        for child, parents in each.relying.items():
            missing = [parent for parent in parents if parent not in written]
            if missing and (each.article.nickname, child) in written:
                nickname, rowguid = missing[0]
                raise ParentNotThere.named(each.article.name, articles[nickname].name, rowguid)


def layers_of(changes: Sequence[tuple[Article, RowChange]], articles: Mapping[int, Article]) -> list[list[int]]:
    """Return the places of changes in layers, so that the parents of each row are in an earlier one.

    Rows in a circle, and what follows them, are one layer; deletes are in the last.
    """
    there = {
        (article.nickname, change.rowguid): place
        for place, (article, change) in enumerate(changes)
        if change.row is not None
    }
    above = {
        place: {
            there[reference.parent, rowguid]
            for reference, rowguid in parents_of(*changes[place], articles)
            if there.get((reference.parent, rowguid), place) != place
        }
        for place in there.values()
    }
    layers: list[list[int]] = []
    while above:
        free = [place for place, parents in above.items() if not parents & above.keys()] or list(above)
        for place in free:
            del above[place]
        layers.append(free)
    deletes = [place for place, (_, change) in enumerate(changes) if change.row is None]
    if not layers:
        return [deletes] if deletes else []
    layers[-1] += deletes
    return layers


def _has_key(article: Article, parent: Article, reference: ArticleReference, row: Row, key: Row) -> bool:
    types = {column.name: column.type_text for column in parent.columns}
    untyped = any(types[name] == ANY for name in reference.parent_columns) or any(
        article.columns[place].type_text == ANY for place in reference_indexes(article, reference)
    )
    # An untyped value's text says how its own node stores it.
    return untyped or all(
        _is_same(row[place], value) for place, value in zip(reference_indexes(article, reference), key, strict=True)
    )


def _is_same(one: str | None, other: str | None) -> bool:
    """Whether two texts are one value: the columns of a foreign key may have other types than those it references."""
    if one == other or one is None or other is None:
        return one == other
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


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

        It is that of a version which lost. Whoever settles the conflict joins it to the row's: of a change that is
        still to come, every node would believe that it has it.
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
