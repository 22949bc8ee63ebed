"""Which parents the rows of an upload have at the hub.

A key can be another row's at the hub: two nodes inserted it, or the parent's was changed. So a sender names the parents
of its rows by rowguid, and a child goes with its own parent, whatever key that has at the hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from rowtide.core.values import frozen
from rowtide.databases.types.strings import ANY
from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.errors.rows import ParentNotThere
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.session.receiver import Part
from rowtide.merge.versions.changes import Row, RowChange, Write, reference_indexes, with_key

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
