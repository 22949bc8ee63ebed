"""What a PostgreSQL node knows of rows, read from its tables; all values as the server writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.merge.articles import Article
from rowtide.merge.changes import Row, TombstoneType
from rowtide.merge.composition import Contents, Tombstone
from rowtide.merge.folding import Tables
from rowtide.merge.postgres.generations import Generations
from rowtide.merge.postgres.system_tables import TABLES


def table_of(article: Article) -> str:
    """Return the quoted name of an article's table; one without a schema is where the session looks first."""
    return quote_qualified(article.schema, article.table) if article.schema else quote(article.table)


def uuid_array(rowguids: Sequence[str]) -> str:
    """Return rowguids as the server writes an array of them: a list of Python's would be written one by one."""
    return f"{{{','.join(rowguids)}}}"


@dataclass(frozen=True, slots=True)
class PostgresReader:
    """See `Reader`."""

    generations: Generations
    tables: Tables = TABLES
    asked: str = "select unnest(%s::uuid[]) as rowguid"
    listing: str = "json_agg({})"

    def table_of(self, article: Article) -> str:
        return table_of(article)

    def columns_of(self, article: Article) -> Sequence[str]:
        return [quote(column.name) for column in article.columns]

    def contents(self, values: Sequence[str | None]) -> Contents:
        stamp, origin, priority, lineage, last, columns, own_columns, bases = values
        return Contents(
            self.generations.number_of(int(stamp or 0)),
            _integer(origin),
            _real(priority),
            _bytes(lineage),
            _bytes(last),
            _bytes(columns),
            self._own_columns(own_columns),
            bases,
        )

    def tombstone(self, values: Sequence[str | None]) -> Tombstone:
        stamp, origin, priority, lineage, last, kind = values
        return Tombstone(
            self.generations.number_of(int(stamp or 0)),
            _integer(origin),
            _real(priority),
            _bytes(lineage),
            _bytes(last),
            TombstoneType(int(kind or 0)),
        )

    def values(self, article: Article, values: Sequence[str | None]) -> Row:  # noqa: ARG002 - they are as they travel
        return tuple(values)

    def _own_columns(self, array: str | None) -> Mapping[int, int]:
        if array is None:
            return {}
        stamps = enumerate(array.strip("{}").split(","))
        return {place: self.generations.number_of(int(stamp)) for place, stamp in stamps if stamp != "NULL"}


def _integer(text: str | None) -> int | None:
    return None if text is None else int(text)


def _real(text: str | None) -> float | None:
    return None if text is None else float(text)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text[2:])
