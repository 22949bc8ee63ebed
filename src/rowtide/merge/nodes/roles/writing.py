"""Rows and their metadata written to a node.

The numbers of new rows at a node: automatic identity ranges, and keys that are changed. Temporary values for rows that
swap unique keys, which no other row has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import Enum, auto
from types import MappingProxyType
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.databases.types.registry import find_type
from rowtide.databases.types.value_type import TypeKind
from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange, Write
from rowtide.merge.versions.identity_ranges import IdentityRange, Numbering


@frozen
class Refusal:
    """Why a row was not written: `holder` is the local row with its primary key, `is_locked`: it may be taken later."""

    error: RowsRefused
    holder: str | None
    is_locked: bool = field(default=False, kw_only=True)


class RowWriter(Protocol):
    """Writes received rows and their metadata to a node."""

    def spare(self, articles: Collection[Article]) -> None:
        """Let no delete take rows of these articles along by foreign keys' actions from now on.

        What was deleted with a row comes by itself. Otherwise a node that publishes acts as its programs' deletes do.
        """

    def receive(self, parts: Sequence[tuple[Article, Sequence[RowChange]]]) -> None:
        """Send rows that are about to be written to a server, before the transaction, if they are long."""

    def write(self, article: Article, writes: Sequence[Write]) -> None:
        """Write rows and their metadata, all or none; our triggers do not log them as users' changes.

        Raises `RowsRefused` if the database rejects them; the transaction continues.
        """

    def write_together(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
    ) -> None:
        """Write all rows or none, with deferred constraints and temporary values of unique columns.

        `bounds` are the partitions that the rows have to be in, by the article's nickname. Raises `RowsRefused`, also
        at the end of the transaction; it cannot continue.
        """

    def write_each(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
        late: Collection[str] | None = None,
        commits: bool = False,
    ) -> list[Mapping[str, Refusal]]:
        """Write those rows that the database takes, in the order given; return the others of each part, by rowguid.

        `bounds` are as in `write_together`. With `late`, these rows are only retried, with all that were refused: each
        alone, again for as long as others are taken; with `tries_together`, after all were tried as by
        `write_together`, and each removal with the row that takes its key. With `commits`, nothing follows in the
        transaction, and a server commits it in the same round trip.
        """

    @property
    def tries_together(self) -> bool:
        """Whether a retry by `write_each` tries rows together first; else that takes a transaction of its own."""

    def defer_constraints(self) -> None:
        """Defer constraint checks to the end of the transaction, where constraints allow that."""

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        """Write values into columns of rows that exist, within `altering`; nothing is logged.

        `article` has these columns alone.
        """


class NumberedKeys(Protocol):
    """The numbers of new rows of tables whose key is one integer column."""

    def next_keys(self, article: Article, count: int) -> Sequence[str]:
        """Return values for a primary key of one integer column that no row has, within a transaction.

        They are the next ones that the table's own sequence gives, where it has one.
        """

    @property
    def numbers_above_all(self) -> bool:
        """Whether a new row's number is above all keys of its table, whatever number was given last."""

    def read_numbering(self, articles: Sequence[Article]) -> Mapping[int, Numbering]:
        """Return how far articles' keys of one integer column are numbered here, by nickname, in one round trip."""

    def set_numbering(self, article: Article, owned: IdentityRange) -> None:
        """Let programs get numbers of ranges, within a transaction; one that is in the primary one resumes there."""

    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        """Give rows new values of a key of one column, with the rows that reference them, within a transaction.

        They are logged as changes of this node. Raises `RowsRefused`; the transaction continues.
        """


FIRST_TEMPORARY = -1_000_000_000
"""The temporary number of the first row; the others' are below it."""
_NUMBER_BITS = 32
"""Of the smallest whole numbers that have all temporary ones."""

TemporaryValues = Mapping[str, str | None]
"""Values by the names of columns."""


class TemporaryKind(Enum):
    """What a column's temporary value is."""

    NULL = auto()
    NUMBER = auto()
    ROWGUID = auto()


def temporary_kinds(article: Article, referenced: Collection[str]) -> dict[str, TemporaryKind]:
    """Return the kinds of an article's temporary values; a column whose type has no such value keeps its own.

    `referenced` are the columns that foreign keys reference: NULL would cascade to the rows that reference them by
    `on update cascade`, and stay there.
    """
    unique = [column for column in article.columns if column.name in article.unique_columns]
    kinds = {column.name: _kind(column, is_referenced=column.name in referenced) for column in unique}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def temporary_values(
    article: Article, rowguids: Sequence[str], referenced: Collection[str]
) -> dict[str, TemporaryValues]:
    """Return each row's temporary values of unique columns; see `temporary_kinds`."""
    kinds = temporary_kinds(article, referenced)
    return {
        rowguid: {name: _value(kind, rowguid, place) for name, kind in kinds.items()}
        for place, rowguid in enumerate(rowguids)
    }


def _kind(column: ArticleColumn, *, is_referenced: bool) -> TemporaryKind | None:
    if column.is_nullable and not is_referenced:
        return TemporaryKind.NULL
    found, modifiers = find_type(column.type_text)
    if modifiers:  # A temporary value may be too long for a length or a number of digits.
        return None
    match found.kind:
        case TypeKind.NUMERIC:
            return TemporaryKind.NUMBER
        case TypeKind.WHOLE_NUMBER:
            return TemporaryKind.NUMBER if (found.bits or 0) >= _NUMBER_BITS else None
        case TypeKind.TEXT | TypeKind.UUID:
            return TemporaryKind.ROWGUID
        case _:
            return None


def _value(kind: TemporaryKind, rowguid: str, place: int) -> str | None:
    return {
        TemporaryKind.NULL: None,
        TemporaryKind.NUMBER: str(FIRST_TEMPORARY - place),
        TemporaryKind.ROWGUID: rowguid,
    }[kind]
