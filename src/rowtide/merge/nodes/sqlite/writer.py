"""Write received rows to a SQLite file, and say which of them it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from rowtide.databases.sqlite.catalogue import read_triggers
from rowtide.databases.sqlite.values import from_text
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.rows import RowOutsidePartition, RowsRefused
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.nodes.sqlite.foreign_key_actions import has_dependents, has_followers
from rowtide.merge.nodes.sqlite.key_moves import (
    DELETING,
    find_greatest_numbers,
    find_referenced,
    list_referrers,
    move_received,
)
from rowtide.merge.nodes.sqlite.metadata.row_metadata import FILTERING, table_of
from rowtide.merge.nodes.sqlite.rows import SqliteRows
from rowtide.merge.nodes.sqlite.session import FOREIGN_KEY, SqliteSession
from rowtide.merge.nodes.sqlite.statements import pass_on, write, write_temporary
from rowtide.merge.nodes.sqlite.tables.making import fill
from rowtide.merge.nodes.temporary_values import TemporaryKind, TemporaryValues, temporary_kinds, temporary_values
from rowtide.merge.partitions.belonging import ROW, belongs
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange, Write

_OURS = "MSmerge_"
_IGNORE = re.compile(r"\braise\s*\(\s*ignore\s*\)", re.IGNORECASE)


class SqliteWriter:
    """See `RowWriter`."""

    tries_together = False

    def __init__(self, node: SqliteSession, rows: SqliteRows) -> None:
        self._node = node
        self._session = node.session
        self._rows = rows
        self._spared: Mapping[str, int] = {}

    def spare(self, articles: Collection[Article]) -> None:
        self._spared = {article.file_table.lower(): article.nickname for article in articles}

    def find_ignoring(self, article: Article) -> Sequence[str]:
        found = read_triggers(self._session, article.file_table)
        return [f"trigger {name}" for name, sql in found.items() if not name.startswith(_OURS) and _IGNORE.search(sql)]

    def receive(self, parts: Sequence[tuple[Article, Sequence[RowChange]]]) -> None:
        """No effect: nothing is sent."""

    def write(self, article: Article, writes: Sequence[Write]) -> None:
        if not writes:
            return
        if self._would_act(article, writes):
            raise RowsRefused(article.name, *FOREIGN_KEY)
        with self._node.refusing(article.name):
            write(self._session, article, writes)

    def _would_act(self, article: Article, writes: Sequence[Write]) -> bool:
        """Whether foreign keys' actions would change rows that no delete and no new key is to change."""
        is_publisher = self._node.is_publisher()
        if is_publisher and not self._spared:
            return False
        spared = self._spared.keys() if is_publisher else None
        deleted = [one.rowguid for one in writes if one.row is None and one.is_live]
        if deleted and has_dependents(self._session, article, deleted, spared):
            return True
        return has_followers(self._session, article, writes, spared)

    def write_together(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
    ) -> None:
        self.defer_constraints()
        if not self._node.is_publisher():
            self._node.apply()
            parts = [(article, pass_on(self._session, self._rows, article, writes)) for article, writes in parts]
        for article, writes in parts:
            self._move(article, writes)
            # Rows that exchange unique values would be refused one after the other: they first get values that no row
            # has.
            temporary = self._temporary(article, writes)
            with self._node.refusing(article.name):
                write_temporary(self._session, article, temporary)
            self.write(article, writes)
        for article, writes in parts:
            # After all parts, since the partition of one row may follow from another that is written with it.
            self._require_inside(article, writes, bounds)

    def _temporary(self, article: Article, writes: Sequence[Write]) -> Mapping[str, TemporaryValues]:
        """Return temporary values of the unique columns that change, by row."""
        updated = {one.rowguid: one.row for one in writes if one.row is not None and one.is_live}
        referenced = find_referenced(self._session, article)
        kinds = temporary_kinds(article, referenced)
        numbers = {
            column.name: [from_text(row[place], column.type_text) for row in updated.values()]
            for place, column in enumerate(article.columns)
            if kinds.get(column.name) is TemporaryKind.NUMBER
        }
        greatest = find_greatest_numbers(self._session, article, numbers)
        values = temporary_values(article, list(updated), referenced, greatest)
        found: dict[str, TemporaryValues] = {}
        for rowguid, row in self._rows.read(article, list(updated)).items():
            names = [
                column.name
                for column, here, sent in zip(article.columns, row, updated[rowguid], strict=True)
                if here != sent and column.name in values[rowguid]
            ]
            if names:
                found[rowguid] = {name: values[rowguid][name] for name in names}
        return found

    def write_each(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
        late: Collection[str] | None = None,
        commits: bool = False,  # noqa: ARG002 - there are no round trips
    ) -> list[Mapping[str, Refusal]]:
        early = [
            (article, [one for one in writes if late is None or one.rowguid not in late]) for article, writes in parts
        ]
        found: list[dict[str, Refusal]] = []
        for article, writes in early:
            found.append(dict(self._halve(article, writes, bounds)) if writes else {})
        left = [
            (index, article, one)
            for index, (article, writes) in enumerate(parts)
            for one in writes
            if late is not None and (one.rowguid in late or one.rowguid in found[index])
        ]
        # Rows may wait for each other in any order: each pass writes those whose parents are there by now, until a pass
        # writes none.
        while left:
            refused = [(one, dict(self._halve(one[1], [one[2]], bounds, moves_keys=True))) for one in left]
            for (place, _, one), refusals in refused:
                found[place].pop(one.rowguid, None)
                found[place].update(refusals)
            still = [one for one, refusals in refused if refusals]
            if len(still) == len(left):
                break
            left = still
        return list(found)

    def _halve(
        self,
        article: Article,
        writes: Sequence[Write],
        bounds: Mapping[int, RowFilter],
        *,
        moves_keys: bool = False,
    ) -> Iterator[tuple[str, Refusal]]:
        """Write rows, or each half where they are refused; yield those that are refused alone."""
        try:
            with self._node.savepoint("merge_half"):
                if moves_keys or self._takes_along(article):
                    self._move(article, writes)
                self.write(article, writes)
                self._require_inside(article, writes, bounds)
        except RowsRefused as error:
            # SQLite names no row of a set that it refuses: halving finds a few refused ones among many with few
            # attempts.
            if len(writes) > 1:
                middle = len(writes) // 2
                yield from self._halve(article, writes[:middle], bounds)
                yield from self._halve(article, writes[middle:], bounds)
                return
            row = writes[0].row
            yield writes[0].rowguid, Refusal(error, None if row is None else self._rows.find_key_holder(article, row))

    def _takes_along(self, article: Article) -> bool:
        """Whether rows would follow a received key by a foreign key's action, and count as changes of a subscriber's.

        What followed it at the publisher arrives by itself.
        """
        following = list_referrers(self._session, article.file_table, DELETING, is_update=True)
        if not self._node.is_publisher():
            return any(following)
        return any(child.lower() in self._spared for child, _ in following)

    def _move(self, article: Article, writes: Sequence[Write]) -> None:
        is_publisher, spared = self._node.is_publisher(), self._spared.values()
        with self._node.refusing(article.name):
            move_received(self._session, article, writes, is_publisher=is_publisher, spared=spared)

    def _require_inside(self, article: Article, writes: Sequence[Write], bounds: Mapping[int, RowFilter]) -> None:
        """Raise `RowOutsidePartition` if rows that were written are outside of their bound."""
        if article.nickname in bounds:
            belonging = belongs(bounds[article.nickname], FILTERING)
            listed = f"{ROWGUID} in (select value from json_each(?)) and not {belonging}"
            query = f"select 1 from {table_of(article)} as {ROW} where {listed} limit 1"
            rowguids = [one.rowguid for one in writes if one.row is not None]
            if self._session.execute(query, (json.dumps(rowguids),)).fetchone() is not None:
                raise RowOutsidePartition.of(article.name)

    def defer_constraints(self) -> None:
        self._session.execute("pragma defer_foreign_keys = on")

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        fill(self._session, article, rows)
