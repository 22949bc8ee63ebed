"""A row's change in transit between nodes, what a receiver knows of it, and the rows that it references."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import IntEnum
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.versions.comparison import Lineage, NodeChange, Presence, RowVersion, decode_columns

Row = tuple[str | None, ...]
"""The values of an article's columns, each as PostgreSQL writes it; None is NULL."""


class TombstoneType(IntEnum):
    """Why a row is absent (SQL Server: MSmerge_tombstone.type)."""

    USER = 1
    """A user deleted the row."""
    SYSTEM = 6
    """The row lost a conflict over a key, or could not be kept."""
    LEFT = 5
    """The row left the subscriber's partition: it is deleted there, and at those that the subscriber publishes to."""


class RowChange(NamedTuple):
    """A row as its sender has it, or its tombstone.

    `lineage`, `last` and `columns` are encoded; `columns` is None without column tracking. `row` is None for a
    tombstone, whose type is `tombstone`. `bases` are earlier values of the additive column; see `stored_metadata`.
    `parents` are the rowguids of the rows that its foreign keys referenced at the sender, in the order of
    `Article.references`; None where there was none, and empty if the sender did not look. `priority` is the version's
    weight in conflicts, None for the sender's own. `overrules` is set where the sender has refused the receiver's
    version: the receiver's last generation that it had seen by then.
    """

    rowguid: str
    lineage: bytes
    last: bytes
    columns: bytes | None
    row: Row | None
    tombstone: TombstoneType | None = None
    bases: str | None = None
    parents: tuple[str | None, ...] = ()
    priority: float | None = None
    overrules: int | None = None

    @property
    def version(self) -> RowVersion:
        """The decoded version, which conflict detection compares."""
        return _version(self.lineage, self.last, self.columns, is_gone=self.row is None)


@frozen
class KnownVersion:
    """A node's metadata of a row; `origin` is the node from which its version was received, None for its own change.

    `generation` is this node's generation of the version, None without metadata. `has_left`: the row is absent because
    it left this node's partition, and exists elsewhere. `is_held`: the subscriber that was asked about has it, as every
    subscriber has all rows of an unfiltered article.
    """

    version: RowVersion
    origin: int | None
    priority: float | None
    generation: int | None
    has_left: bool = False
    is_held: bool = True


class Write(NamedTuple):
    """The row, or its absence, to write, with its metadata.

    With the sender as `origin`, its version is stored unchanged. With None it becomes a change of the receiver's own,
    with the number of the generation in which it will be closed: then `lineage` is what it includes in addition, and
    `own_columns` are the positions of the columns that it changed, with column tracking. `is_live` says whether the row
    exists at the receiver now. `priority` is its version's weight in conflicts, None for the receiver's own.
    """

    rowguid: str
    row: Row | None
    is_live: bool
    lineage: bytes
    last: bytes | None
    columns: bytes | None
    origin: int | None
    own_columns: frozenset[int] = frozenset()
    tombstone: TombstoneType = TombstoneType.USER
    priority: float | None = None


def overruling(
    changes: Sequence[RowChange], known: KnownVersion | None
) -> tuple[Sequence[RowChange], KnownVersion | None]:
    """Return changes of the same version, and what a receiver knows of their rows, as they are to be compared.

    A version that the sender has refused is ignored, whichever nodes made it. The lineage includes it then, so that the
    nodes from which the receiver has it accept the sender's version, too.
    """
    last_seen = changes[0].overrules
    if last_seen is None or known is None or known.generation is None or known.generation > last_seen:
        return changes, known
    lineage = changes[0].version.lineage.joined(known.version.lineage).encode()
    columns = None if known.version.columns is None else dict[int, NodeChange]()
    refused = RowVersion(known.version.presence, Lineage.EMPTY, None, columns)
    return [change._replace(lineage=lineage) for change in changes], replace(known, version=refused)


def make_changes(rows: Iterable[Sequence[Any]]) -> list[RowChange]:
    """Return changes of their fields' values; several times as fast as each by its class."""
    return [tuple.__new__(RowChange, row) for row in rows]


def make_writes(rows: Iterable[Sequence[Any]]) -> list[Write]:
    """Return writes in the same way."""
    return [tuple.__new__(Write, row) for row in rows]


def number_alike(writes: Sequence[Write]) -> tuple[list[int], list[Write]]:
    """Number the writes so that those with the same metadata share a number; return also one write of each number.

    Rows changed between the same synchronisations, often thousands, share metadata, which is then sent once.
    """
    numbers: dict[tuple[object, ...], int] = {}
    numbered: list[int] = []
    firsts: list[Write] = []
    for one in writes:
        number = numbers.setdefault((one[1] is None, one[2:]), len(firsts))
        if number == len(firsts):
            firsts.append(one)
        numbered.append(number)
    return numbered, firsts


# Thousands of rows that were changed between the same synchronisations have the same one.
@lru_cache(maxsize=1 << 12)
def _version(lineage: bytes, last: bytes, columns: bytes | None, *, is_gone: bool) -> RowVersion:
    presence = Presence.DELETED if is_gone else Presence.LIVE
    changed = None if columns is None else decode_columns(columns)
    return RowVersion(presence, Lineage.decode(lineage), NodeChange.decode(last), changed)


def reference_indexes(article: Article, reference: ArticleReference) -> list[int]:
    """Return the positions of a foreign key's columns in an article's rows."""
    return [index for name in reference.columns if (index := article.index_of(name)) is not None]


def with_key(article: Article, reference: ArticleReference, row: Row, key: Row) -> Row:
    """Return a row that references a parent with a key."""
    values = dict(zip(reference_indexes(article, reference), key, strict=True))
    return tuple(values.get(index, value) for index, value in enumerate(row))


def find_children(article: Article, changes: Sequence[RowChange], parents: Iterable[tuple[Article, Row]]) -> set[str]:
    """Return the rowguids of those rows whose foreign keys have the values of one of the given rows."""
    rows: dict[int, tuple[Article, list[Row]]] = {}
    for parent, row in parents:
        rows.setdefault(parent.nickname, (parent, []))[1].append(row)
    found: set[str] = set()
    for reference in article.references:
        parent, listed = rows.get(reference.parent, (article, []))
        referenced = [parent.index_of(name) for name in reference.parent_columns]
        keys = {tuple(row[index] for index in referenced if index is not None) for row in listed}
        indexes = reference_indexes(article, reference)
        found.update(
            change.rowguid
            for change in (changes if keys else ())
            if change.row is not None and tuple(change.row[index] for index in indexes) in keys
        )
    return found


def layers_by_keys(article: Article, changes: Sequence[RowChange]) -> list[Sequence[RowChange]]:
    """Return rows in layers, so that those whose keys a row references are in earlier ones.

    Rows in a circle with others, and what follows them, are omitted.
    """
    above: dict[str, set[str]] = {change.rowguid: set() for change in changes}
    for reference in article.references:
        if reference.parent != article.nickname:
            continue
        referenced = [index for name in reference.parent_columns if (index := article.index_of(name)) is not None]
        indexes = reference_indexes(article, reference)
        rows = [(change.rowguid, change.row) for change in changes if change.row is not None]
        keys = {tuple(row[index] for index in referenced): rowguid for rowguid, row in rows}
        for rowguid, row in rows:
            parent = keys.get(tuple(row[index] for index in indexes))
            if parent not in (None, rowguid):
                above[rowguid].add(parent)
    sorter = TopologicalSorter(above)
    with suppress(CycleError):
        sorter.prepare()
    order = {change.rowguid: index for index, change in enumerate(changes)}
    layers: list[Sequence[RowChange]] = []
    while ready := sorter.get_ready():
        layers.append([changes[index] for index in sorted(order[rowguid] for rowguid in ready)])
        sorter.done(*ready)
    return layers
