"""What a PostgreSQL node knows of rows, read from its tables; all values as the server writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import Known, Row, RowChange, TombstoneType
from rowtide.merge.composition import Composer, Contents, Tombstone
from rowtide.merge.folding import join_folded, metadata
from rowtide.merge.postgres.generations import Generations
from rowtide.merge.postgres.system_tables import CONTENTS, TOMBSTONE

_CONTENTS = slice(2, 10)
_TOMBSTONE = slice(10, 16)
_VALUES = slice(16, None)

ASKED = "unnest(%s::uuid[]) k (rowguid) {joins}"
"""What `select` reads for rows that are asked for."""


def table_of(article: Article) -> str:
    """Return the quoted name of an article's table; one without a schema is where the session looks first."""
    return quote_qualified(article.schema, article.table) if article.schema else quote(article.table)


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Reads rows of an article with their metadata; `is_beside` where the log is folded beside these."""

    article: Article
    composer: Composer
    generations: Generations
    is_beside: bool = field(default=False, kw_only=True)

    def select(self, source: str) -> str:
        """Return the query of rows; `source` has `k.rowguid`, a place for `{joins}`, and conditions."""
        names = "".join(f", t.{quote(column.name)}" for column in self.article.columns)
        nickname = self.article.nickname
        joins = (
            f"left join {table_of(self.article)} t on t.{ROWGUID} = k.rowguid "
            f"left join {CONTENTS} c on c.tablenick = {nickname} and c.rowguid = k.rowguid "
            f"left join {TOMBSTONE} d on d.tablenick = {nickname} and d.rowguid = k.rowguid "
            f"{join_folded(nickname, is_beside=self.is_beside)}"
        )
        known = metadata(is_beside=self.is_beside)
        return f"select k.rowguid, t.{ROWGUID} is not null, {known}{names} from {source.format(joins=joins)}"

    def change(self, row: Sequence[str | None]) -> RowChange | None:
        """Return what the query found as a change; None where nothing is known of the row."""
        contents, tombstone = self._contents(row[_CONTENTS]), self._tombstone(row[_TOMBSTONE])
        rowguid = row[0] or ""
        if row[1] == "t":
            values: Row = tuple(row[_VALUES])
            return self.composer.live(rowguid, values, contents, tombstone)
        return None if tombstone is None else self.composer.gone(rowguid, tombstone)

    def known(self, rows: Sequence[Sequence[str | None]]) -> Mapping[str, Known]:
        """Return what the query found as what is known; a row that was never here is left out."""
        found = {}
        for row in rows:
            contents, tombstone = self._contents(row[_CONTENTS]), self._tombstone(row[_TOMBSTONE])
            known = self.composer.known(is_live=row[1] == "t", contents=contents, tombstone=tombstone)
            if known is not None:
                found[row[0] or ""] = known
        return found

    def _contents(self, found: Sequence[str | None]) -> Contents | None:
        stamp, origin, priority, lineage, last, columns, own_columns, bases = found
        if stamp is None:
            return None
        return Contents(
            self.generations.number_of(int(stamp)),
            _integer(origin),
            _real(priority),
            _bytes(lineage),
            _bytes(last),
            _bytes(columns),
            self._own_columns(own_columns),
            bases,
        )

    def _own_columns(self, array: str | None) -> Mapping[int, int]:
        if array is None:
            return {}
        stamps = enumerate(array.strip("{}").split(","))
        return {place: self.generations.number_of(int(stamp)) for place, stamp in stamps if stamp != "NULL"}

    def _tombstone(self, found: Sequence[str | None]) -> Tombstone | None:
        stamp, origin, priority, lineage, last, kind = found
        if stamp is None:
            return None
        return Tombstone(
            self.generations.number_of(int(stamp)),
            _integer(origin),
            _real(priority),
            _bytes(lineage),
            _bytes(last),
            TombstoneType(int(kind or 0)),
        )


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _real(text: str | None) -> float | None:
    return None if text is None else float(text)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])
