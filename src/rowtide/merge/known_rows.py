"""Rows of an article read together with what is known of them; the same for every database. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rowtide.merge.articles import Article
from rowtide.merge.changes import Known, Row, RowChange
from rowtide.merge.composition import Composer, Contents, Tombstone
from rowtide.merge.folding import CONTENTS_COLUMNS, TOMBSTONE_COLUMNS, Tables, select_rows

_ROWGUID = 0
_METADATA = slice(1, 2 + len(CONTENTS_COLUMNS) + len(TOMBSTONE_COLUMNS))
_VALUES = slice(_METADATA.stop, None)
_CONTENTS = slice(1, 1 + len(CONTENTS_COLUMNS))
_TOMBSTONE = slice(_CONTENTS.stop, None)
"""Places in what the query returns; the last two of the metadata, whose first is whether the row is there."""
_MOST_KEPT = 1 << 12

Made = TypeVar("Made")


class Reader(Protocol):
    """How a database says, and returns, what is read here."""

    @property
    def tables(self) -> Tables: ...

    @property
    def asked(self) -> str:
        """The source of rows that are asked for; see `select_rows`."""

    def table_of(self, article: Article) -> str:
        """Return the quoted name of an article's table."""

    def columns_of(self, article: Article) -> Sequence[str]:
        """Return the quoted names of an article's columns."""

    def is_live(self, value: Any) -> bool: ...

    def contents(self, values: Sequence[Any]) -> Contents: ...

    def tombstone(self, values: Sequence[Any]) -> Tombstone: ...

    def values(self, article: Article, values: Sequence[Any]) -> Row:
        """Return the values of an article's columns as they travel."""


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Reads rows of an article with their metadata; `is_beside` where the log is folded beside these.

    Thousands of rows that were changed between the same synchronisations have the same metadata: what is made of these
    is made once.
    """

    article: Article
    composer: Composer
    reader: Reader
    is_beside: bool = field(default=False, kw_only=True)
    _changes: dict[tuple[Any, ...], RowChange | None] = field(default_factory=dict, init=False)
    _known: dict[tuple[Any, ...], Known | None] = field(default_factory=dict, init=False)

    def select(self, source: str) -> str:
        """Return the query of rows that `change` reads; see `select_rows`."""
        return self._select(source, self.reader.columns_of(self.article))

    def select_asked(self) -> str:
        """Return the query of rows that are asked for, which `change` reads."""
        return self.select(self.reader.asked)

    def select_known(self) -> str:
        """Return the query of rows that are asked for, which `known` reads: without their values."""
        return self._select(self.reader.asked, [])

    def _select(self, source: str, columns: Sequence[str]) -> str:
        table = self.reader.table_of(self.article)
        return select_rows(self.article, table, columns, self.reader.tables, source, is_beside=self.is_beside)

    def changes(self, rows: Iterable[tuple[Any, ...]]) -> list[RowChange]:
        """Return what the query found as changes; rows of which nothing is known are left out."""
        changes = []
        for row in rows:
            metadata = row[_METADATA]
            if metadata not in self._changes:
                self._keep(self._changes, metadata, self._compose(metadata))
            composed = self._changes[metadata]
            if composed is not None:
                _, lineage, last, columns, live, tombstone, bases = composed
                values = None if live is None else self.reader.values(self.article, row[_VALUES])
                changes.append(RowChange(row[_ROWGUID], lineage, last, columns, values, tombstone, bases))
        return changes

    def known(self, rows: Iterable[tuple[Any, ...]]) -> Mapping[str, Known]:
        """Return what the query found as what is known; a row that was never here is left out."""
        found = {}
        for row in rows:
            metadata = row[_METADATA]
            if metadata not in self._known:
                self._keep(self._known, metadata, self._recall(metadata))
            known = self._known[metadata]
            if known is not None:
                found[row[_ROWGUID]] = known
        return found

    def _keep(self, kept: dict[tuple[Any, ...], Made], metadata: tuple[Any, ...], made: Made) -> None:
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[metadata] = made

    def _compose(self, metadata: Sequence[Any]) -> RowChange | None:
        is_live, contents, tombstone = self._decode(metadata)
        if is_live:
            return self.composer.live("", (), contents, tombstone)
        return None if tombstone is None else self.composer.gone("", tombstone)

    def _recall(self, metadata: Sequence[Any]) -> Known | None:
        is_live, contents, tombstone = self._decode(metadata)
        return self.composer.known(is_live=is_live, contents=contents, tombstone=tombstone)

    def _decode(self, metadata: Sequence[Any]) -> tuple[bool, Contents | None, Tombstone | None]:
        contents, tombstone = metadata[_CONTENTS], metadata[_TOMBSTONE]
        return (
            self.reader.is_live(metadata[0]),
            None if contents[0] is None else self.reader.contents(contents),
            None if tombstone[0] is None else self.reader.tombstone(tombstone),
        )
