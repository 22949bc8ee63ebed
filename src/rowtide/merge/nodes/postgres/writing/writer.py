"""Write received rows over a PostgreSQL node's session, and say which of them the server refuses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import Any

import psycopg

from rowtide.core.failpoints import failpoint
from rowtide.merge.articles import Article
from rowtide.merge.errors.rows import RowOutsidePartition, RowsRefused
from rowtide.merge.nodes.postgres.array_texts import are_sendable, require_sendable
from rowtide.merge.nodes.postgres.execution import Execution
from rowtide.merge.nodes.postgres.failures import LOCKED, OUTSIDE
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.writing.filling import fill
from rowtide.merge.nodes.postgres.writing.refused_rows import INVALID, REFUSED
from rowtide.merge.nodes.postgres.writing.staging import (
    ReceivedRows,
    Staged,
    make_lists,
    make_staging,
    share_lists,
    stage,
)
from rowtide.merge.nodes.postgres.writing.statements import put_holders, require_inside, write, write_each
from rowtide.merge.nodes.roles.writing import Refusal
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange, Write

Parts = Sequence[tuple[Article, Sequence[Write]]]


class PostgresWriter:
    """See `RowWriter`; rows are written by staging tables that exist until the session ends."""

    tries_together = True

    def __init__(self, node: PostgresSession) -> None:
        self._node = node
        self._session = node.session
        self._staging = node.staging
        self._spared: Set[int] = frozenset()
        """See `Staged`."""
        self._received: dict[int, ReceivedRows] = {}

    def spare(self, articles: Collection[Article]) -> None:
        self._spared = {article.nickname for article in articles}

    def defer_constraints(self) -> None:
        self._session.put("set constraints all deferred")

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        article = self._node.places.fill(article)
        with self._node.refusing(article.name):
            fill(self._session, article, rows, self._node.executions.of(article))

    def receive(self, parts: Sequence[tuple[Article, Sequence[RowChange]]]) -> None:
        """Send long rows before a transaction writes them; those of the last call stay until there are others."""
        if self._session.is_in_transaction:
            return
        with self._node.failing_at(self._node.name):
            self._receive(self._node.places.fill(parts))

    def _receive(self, parts: Sequence[tuple[Article, Sequence[RowChange]]]) -> None:
        rows = [(article.nickname, one) for article, changes in parts for one in changes if one.row is not None]
        values = chain.from_iterable(one.row or () for _, one in rows)
        if sum(map(len, filter(None, values))) <= self._session.most_sent:
            return
        nothing = ReceivedRows()
        if all(self._received.get(nickname, nothing).has(one.rowguid, one.row) for nickname, one in rows):
            return
        self._received = {}
        received = {article.nickname: ReceivedRows.of(article, changes) for article, changes in parts}
        # What no server takes is refused when it is written.
        with suppress(psycopg.DataError):
            self._session.receive([text for each in received.values() for text in each.arrays])
            self._received = received

    def make_lists(self, execution: Execution) -> None:
        """Make the temporary tables that all articles share, in the session's transaction, if they are not there."""
        if not self._staging.prepared:
            make_lists(self._session)
            self._staging.prepared.add(0)
        owner = execution.owner
        if owner is not None and -owner.role_id not in self._staging.prepared:
            share_lists(self._session, owner)
            self._staging.prepared.add(-owner.role_id)

    def write(self, article: Article, writes: Sequence[Write]) -> None:
        if not writes:
            return
        article = self._node.places.fill(article)
        with self._node.refusing(article.name):
            self._session.put("savepoint rowtide_rows")
            try:
                (staged,) = self._stage([(article, writes)], {})
                write(self._session, staged)
                self._session.put("release savepoint rowtide_rows")
                self._session.flush()
            except (psycopg.Error, ValueError):
                self._staging.forget()
                self._session.execute("rollback to savepoint rowtide_rows")
                raise

    def write_together(self, parts: Parts, *, bounds: Mapping[int, RowFilter] = MappingProxyType({})) -> None:
        parts, bounds = self._node.places.fill(parts), self._node.places.fill(bounds)
        self.defer_constraints()
        with self._node.refusing(parts[0][0].name):
            staged = self._stage([(article, writes) for article, writes in parts if writes], bounds)
            for each in staged:
                write(self._session, each, is_deferred=True)
            require_inside(self._session, staged)
            self._session.flush()

    def write_each(
        self,
        parts: Parts,
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
        late: Collection[str] | None = None,
        commits: bool = False,
    ) -> list[Mapping[str, Refusal]]:
        parts, bounds = self._node.places.fill(parts), self._node.places.fill(bounds)
        unsendable = [self._find_unsendable(article, writes) for article, writes in parts]
        left = [
            (article, [one for one in writes if one.rowguid not in without])
            for (article, writes), without in zip(parts, unsendable, strict=True)
        ]
        filled = [(article, writes) for article, writes in left if writes]
        refused: dict[int, dict[str, Refusal]] = {}
        if filled:
            commits = commits and not self._node.parts
            with self._node.refusing(filled[0][0].name):
                refused = self._write_each(filled, bounds, late, commits=commits)
        self._node.meets_locks |= any(refusal.is_locked for each in refused.values() for refusal in each.values())
        return [
            without | refused.get(article.nickname, {}) for (article, _), without in zip(parts, unsendable, strict=True)
        ]

    def _find_unsendable(self, article: Article, writes: Sequence[Write]) -> dict[str, Refusal]:
        """Return the rows that have texts which no server takes."""
        found: dict[str, Refusal] = {}
        for one in () if are_sendable(article, writes) else writes:
            try:
                with self._node.refusing(article.name):
                    require_sendable(article, one)
            except RowsRefused as error:
                found[one.rowguid] = Refusal(error, None)
        return found

    def _write_each(
        self,
        parts: Parts,
        bounds: Mapping[int, RowFilter],
        late: Collection[str] | None,
        *,
        commits: bool,
    ) -> dict[int, dict[str, Refusal]]:
        """Return the rows of each article that are refused."""
        try:
            staged, (listed, *holders) = self._write_staged(
                parts, bounds, late, is_tolerant=bool(late), commits=commits
            )
        except (psycopg.DataError, psycopg.IntegrityError):
            # While it was staged: a type does not take a value.
            self._staging.forget()
            self._session.put("rollback to savepoint rowtide_stage")
            staged, (listed, *holders) = self._write_staged(parts, bounds, late, is_tolerant=True, commits=commits)
        holding = {int(place): rowguid for rows in holders for place, rowguid in rows}
        said = {int(place): (state, message) for place, state, message in listed}
        found: dict[int, dict[str, Refusal]] = {}
        for part in staged:
            refused = found.setdefault(part.article.nickname, {})
            for place in sorted(set(said).intersection(range(part.first, part.first + len(part.writes)))):
                state, message = said[place]
                name = part.article.name
                error = RowOutsidePartition.of(name) if state == OUTSIDE else RowsRefused(name, state, message)
                rowguid = part.writes[place - part.first].rowguid
                refused[rowguid] = Refusal(error, holding.get(place), is_locked=error.code == LOCKED)
        return found

    def _write_staged(
        self,
        parts: Parts,
        bounds: Mapping[int, RowFilter],
        late: Collection[str] | None,
        *,
        is_tolerant: bool,
        commits: bool,
    ) -> tuple[list[Staged], list[list[tuple[Any, ...]]]]:
        """Return what is refused, and for each part the rows that have the primary keys of refused ones."""
        self._session.put("savepoint rowtide_stage")
        staged = self._stage(parts, bounds, is_tolerant=is_tolerant)
        self._session.put("release savepoint rowtide_stage")
        write_each(self._session, staged, late)
        listed = f"select * from {REFUSED}{f' union all select * from {INVALID}' if is_tolerant else ''}"
        holders = [(put_holders(self._session, part), None) for part in staged]
        if commits:
            failpoint("postgres_merge_commit.before")
        read = self._session.read_last if commits else self._session.read
        return staged, read((listed, None), *holders, texts=True)

    def _stage(self, parts: Parts, bounds: Mapping[int, RowFilter], *, is_tolerant: bool = False) -> list[Staged]:
        staged, first = [], 0
        if self._staging.stamp is None:
            self._staging.stamp = int(self._session.read(("select pg_current_xact_id()", []), texts=True)[0][0][0])
        for article, writes in parts:
            table = self._node.stored_table(article)
            execution = self._node.executions.of(article)
            self.make_lists(execution)
            if article.nickname not in self._staging.prepared:
                make_staging(self._session, article, execution)
                self._staging.prepared.add(article.nickname)
            bound = bounds.get(article.nickname)
            staged.append(Staged(article, table, writes, first, execution, bound, self._spared))
            if is_tolerant and not first:
                self._session.put(f"delete from {INVALID}")
            received = None if is_tolerant else self._received.get(article.nickname)
            stage(self._session, staged[-1], self._staging.stamp, received, is_tolerant=is_tolerant)
            first += len(writes)
        return staged
