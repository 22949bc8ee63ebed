"""Queries of an article's rows together with their metadata, the same for every database. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ArticleReference
from rowtide.merge.errors.nodes import RowguidMalformed, reading
from rowtide.merge.versions.apply import (
    CONTENTS_COLUMNS,
    TOMBSTONE_COLUMNS,
    RowQuery,
    Tables,
    applied_rows,
    metadata_columns,
    select_known,
)
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, make_changes
from rowtide.merge.versions.checked_metadata import are_rowguids, read_rowguid, require_complete
from rowtide.merge.versions.comparison import Malformed, decode_columns
from rowtide.merge.versions.stored_metadata import Composer, Contents, Tombstone

_ROWGUID = 0
METADATA_WIDTH = 1 + len(CONTENTS_COLUMNS) + len(TOMBSTONE_COLUMNS)
"""The number of columns of metadata in what the query returns, after the rowguid."""
_METADATA = slice(1, 1 + METADATA_WIDTH)
_VALUES = slice(_METADATA.stop, None)
_CONTENTS = slice(1, 1 + len(CONTENTS_COLUMNS))
_TOMBSTONE = slice(_CONTENTS.stop, None)
"""Places in what the query returns; the last two of the metadata, whose first is whether the row is there."""
_MOST_KEPT = 1 << 12


class RowMetadataDialect(Protocol):
    """The SQL and the value formats that differ between databases."""

    @property
    def tables(self) -> Tables: ...

    @property
    def asked(self) -> str:
        """The query of the rowguids of listed rows; it has one parameter."""

    @property
    def listing(self) -> str:
        """The aggregate that makes a JSON array; see `select_known`."""

    def table_of(self, article: Article) -> str:
        """Return the quoted name of an article's table."""

    def columns_of(self, article: Article) -> Sequence[str]:
        """Return the expressions that read an article's columns of row `t`."""

    def contents(self, values: Sequence[Any]) -> Contents: ...

    def tombstone(self, values: Sequence[Any]) -> Tombstone: ...

    def values(self, article: Article, values: Sequence[Any]) -> Row:
        """Return the values of an article's columns as they travel."""

    def parent_of(self, reference: ArticleReference, parent: Article) -> str:
        """Return the expression of the rowguid of the row that a foreign key of row `t` references."""


@frozen
class MetadataReader:
    """Reads an article's rows with their metadata at a node, which errors name.

    `is_beside` is set if the log is applied to a temporary table.

    `parents` are the articles, by nickname, whose rows foreign keys are resolved to; without any, changes name none.
    `known` says whether `subscriber` has the rows, if one is given.
    Rows changed between the same synchronisations, often thousands, share metadata, which is decoded once.
    """

    article: Article
    composer: Composer
    reader: RowMetadataDialect
    node: str
    is_beside: bool = field(default=False, kw_only=True)
    parents: Mapping[int, Article] = field(default_factory=dict, kw_only=True)
    subscriber: int | None = field(default=None, kw_only=True)
    _changes: dict[tuple[Any, ...], RowChange | None] = field(default_factory=dict, init=False)

    def select_window(self, metadata: str, *, is_live: bool, order: Sequence[str] = ("rowguid",)) -> str:
        """Return the query of rows selected by their metadata; `changes` reads its result.

        `metadata` is the text after `from`: contents, of which existing rows are read, or tombstones, of which absent
        rows are read, in the order of some of its columns. Rows of the temporary table are read with either, by
        rowguid.
        """
        row, presence = ("c", "is not null") if is_live else ("d", "is null")
        columns, beside = "*", ""
        if self.is_beside:
            row, columns, beside, order = "k", "rowguid", applied_rows(self.article.nickname), ("rowguid",)
        query = f"select {columns} from {metadata}{beside}"
        ordered = ", ".join(f"{row}.{name}" for name in order)
        return self._select(RowQuery(query, row, f"where t.rowguid {presence} order by {ordered}"))

    def select_asked(self) -> str:
        """Return the query of listed rows; `changes` reads its result."""
        return self._select(RowQuery(self.reader.asked))

    def select_listed(self, query: str, columns: Sequence[str]) -> str:
        """Return the query of the rows that a query lists, by rowguid; its last columns are these of that query.

        `changes` reads what is before them.
        """
        return self._select(RowQuery(query, rest="order by k.rowguid"), columns)

    def select_known(self, asked: str | None = None) -> str:
        """Return the query of rows, the listed ones or those of another query, without their values; see `known`."""
        table, source = self.reader.table_of(self.article), RowQuery(asked or self.reader.asked)
        return select_known(self.article, table, self.reader.tables, source, self.reader.listing, self.subscriber)

    def _select(self, source: RowQuery, extra: Sequence[str] = ()) -> str:
        """Return the query of rows: rowguid, 1 if the row exists, its metadata, its values and parents, and columns of
        the source.
        """
        table, columns = self.reader.table_of(self.article), [*self.reader.columns_of(self.article), *self._parents()]
        values = "".join([*(f", {each}" for each in columns), *(f", {source.row}.{name}" for name in extra)])
        joined = source.joined(self.article, table, self.reader.tables, is_beside=self.is_beside)
        return f"select {source.row}.rowguid, {metadata_columns(is_beside=self.is_beside)}{values} from {joined}"

    def _parents(self) -> list[str]:
        """Return the expressions of a row's parents, in the order of the article's references."""
        return [
            self.reader.parent_of(each, self.parents[each.parent]) if self._is_known(each) else "null"
            for each in (self.article.references if self.parents else ())
        ]

    def _is_known(self, reference: ArticleReference) -> bool:
        """Whether the columns of a foreign key are those of the tables here."""
        parent = self.parents.get(reference.parent)
        return (
            parent is not None
            and all(self.article.index_of(name) is not None for name in reference.columns)
            and all(parent.index_of(name) is not None for name in reference.parent_columns)
        )

    def changes(self, rows: Iterable[tuple[Any, ...]]) -> list[RowChange]:
        """Return the query's rows as changes; rows without any record are omitted.

        Raises `RowguidMalformed`, `MetadataMalformed`.
        """
        changes = []
        values_end = _VALUES.start + len(self.article.columns)
        for row in rows:
            metadata = row[_METADATA]
            if metadata not in self._changes:
                with reading(self._place, row[_ROWGUID]):
                    self._keep(metadata, self._compose(metadata))
            composed = self._changes[metadata]
            if composed is not None:
                _, lineage, last, columns, live, tombstone, bases, _, weight, _ = composed
                values = None if live is None else self.reader.values(self.article, row[_VALUES.start : values_end])
                parents = row[values_end:]
                made = (row[_ROWGUID], lineage, last, columns, values, tombstone, bases, parents, weight, None)
                changes.append(made)
        found = make_changes(changes)
        if not are_rowguids([change.rowguid for change in found]):
            # No other node can have had such a row, so its delete is sent to none.
            found = [change for change in found if change.row is not None or are_rowguids([change.rowguid])]
            require_rowguids(self.article, self.node, [change.rowguid for change in found])
        for index, reference in enumerate(self.article.references if self.parents else ()):
            present = [parent for change in found if (parent := change.parents[index]) is not None]
            require_rowguids(self.parents.get(reference.parent, self.article), self.node, present)
        return found

    @property
    def _place(self) -> str:
        return f"{self.article.qualified_name} in {self.node}"

    def known(self, groups: Iterable[tuple[Any, ...]]) -> Mapping[str, KnownVersion]:
        """Return the query's rows as metadata; a row that this node never had is omitted."""
        found: dict[str, KnownVersion] = {}
        for rowguids, *metadata in groups:
            is_held = self.subscriber is None or metadata.pop() is not None
            with reading(self._place, "".join(str(rowguids).split('"')[1:2])):
                known = self._recall(metadata)
            if known is not None:
                known = known if is_held else replace(known, is_held=False)
                found.update(dict.fromkeys(json.loads(rowguids), known))
        return found

    def _keep(self, metadata: tuple[Any, ...], made: RowChange | None) -> None:
        if len(self._changes) >= _MOST_KEPT:
            self._changes.clear()
        self._changes[metadata] = made

    def _compose(self, metadata: Sequence[Any]) -> RowChange | None:
        is_live, contents, tombstone = self._decode(metadata)
        if is_live:
            return self._require_columns(self.composer.live("", (), contents, tombstone))
        return None if tombstone is None else self.composer.gone("", tombstone)

    def _require_columns(self, change: RowChange) -> RowChange:
        """Raise `Malformed` if a change is of columns that the article does not have: no node could name them."""
        if any(place >= len(self.article.columns) for place in decode_columns(change.columns or b"")):
            raise Malformed("its columns' changes are of columns that it does not have")
        return change

    def _recall(self, metadata: Sequence[Any]) -> KnownVersion | None:
        is_live, contents, tombstone = self._decode(metadata)
        return self.composer.known(is_live=is_live, contents=contents, tombstone=tombstone)

    def _decode(self, metadata: Sequence[Any]) -> tuple[bool, Contents | None, Tombstone | None]:
        contents, tombstone = metadata[_CONTENTS], metadata[_TOMBSTONE]
        found = (
            metadata[0] is not None,
            None if contents[0] is None else self.reader.contents(contents),
            None if tombstone[0] is None else self.reader.tombstone(tombstone),
        )
        for each in found[1:]:
            if each is not None:
                require_complete(each.origin, each.lineage, each.last)
        return found


def require_rowguids(article: Article, node: str, rowguids: Sequence[object]) -> None:
    """Raise `RowguidMalformed` unless rowguids of an article's rows at a node are UUIDs."""
    for rowguid in () if are_rowguids(rowguids) else rowguids:
        try:
            read_rowguid(rowguid)
        except Malformed as error:
            raise RowguidMalformed(f"{article.qualified_name} in {node}", ascii(rowguid), str(error)) from error
