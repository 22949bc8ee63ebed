"""Write received rows over a PostgreSQL node's session, and say which of them the server refuses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.copying import write_row
from rowtide.databases.postgres.functions import OWN_PATH
from rowtide.databases.postgres.owner_functions import Owner, functions_path
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.rows import NOT_UTF_8, RowOutsidePartition, RowsRefused
from rowtide.merge.nodes.postgres.execution import LOCKED, NO_RIGHT, OF_ROWS, OUTSIDE, Execution
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of, uuid_array
from rowtide.merge.nodes.postgres.sendable_texts import are_sendable, array_of, require_sendable
from rowtide.merge.nodes.postgres.session import PostgresSession
from rowtide.merge.nodes.postgres.stored_tables import StoredColumn, read_table, table_requests
from rowtide.merge.nodes.postgres.writing.retry_block import INVALID, REFUSED
from rowtide.merge.nodes.postgres.writing.staging import (
    ReceivedRows,
    Staged,
    make_lists,
    make_staging,
    share_lists,
    stage,
)
from rowtide.merge.nodes.postgres.writing.statements import put_holders, require_inside, write, write_each
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.nodes.untyped_values import rows_as_stored_by_server
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange, Write

_LOADED = "pg_temp.rowtide_loaded"
"""The temporary table of rows that an owner is given."""
_COLUMN = re.compile(r"^COPY .*?, line \d+, column (.+?)(?:: |$)")
"""The column in the server's context of an error of COPY."""


def fill(session: BatchingConnection, article: Article, rows: Sequence[tuple[str, Row]], execution: Execution) -> None:
    """Write values into the article's columns of rows that exist, in the caller's transaction."""
    columns = _columns_of(session, article)
    names = [f"v{index}" for index in range(len(columns))]
    settings = ", ".join(
        f"{quote(column.name)} = {column.parse(f'n.{name}')}" for column, name in zip(columns, names, strict=True)
    )
    stored = rows_as_stored_by_server(article, [row for _, row in rows])
    texts = [
        f"{quote_literal(array_of(row[index] for row in stored))}::pg_catalog.text[]" for index in range(len(names))
    ]
    guids = f"{quote_literal(uuid_array([rowguid for rowguid, _ in rows]))}::pg_catalog.uuid[]"
    arrays = ", ".join(f"pg_catalog.unnest({array})" for array in (guids, *texts))
    statement = (
        f"update {table_of(article)} t set {settings} "
        f"from rows from ({arrays}) n (guid, {', '.join(names)}) "
        f"where t.{ROWGUID} {EQUALS} n.guid"
    )
    session.execute(sql.SQL(execution.alone(statement)))


def _columns_of(session: BatchingConnection, article: Article) -> Sequence[StoredColumn]:
    return read_table(article, session.read(table_requests(article)[0], texts=True)[0]).columns


def load(
    session: BatchingConnection,
    article: Article,
    batches: Iterable[Sequence[tuple[str, Row]]],
    execution: Execution,
) -> int:
    """Copy rows into a table, in the caller's transaction, and return how many. Raises `RowsRefused`.

    An owner who is not trusted gets them as texts, and parses them itself.
    """
    rows = 0
    names = [*(quote(column.name) for column in article.columns), ROWGUID]
    target = f"{table_of(article)} ({', '.join(names)})"
    try:
        if execution.owner is None:
            for each in functions_path():
                session.put(each)
        else:
            target = f"{_LOADED} ({', '.join(names)})"
            _make_loaded(session, names, execution.owner)
        with session.cursor().copy(sql.SQL(f"copy {target} from stdin")) as copy:
            for batch in batches:
                rows += len(batch)
                stored = rows_as_stored_by_server(article, [row for _, row in batch])
                lines = (write_row((*row, rowguid)) for row, (rowguid, _) in zip(stored, batch, strict=True))
                copy.write("".join(f"{line}\n" for line in lines))
        if execution.owner is not None:
            values = [column.parse(f"n.{quote(column.name)}") for column in _columns_of(session, article)]
            listed = f"{', '.join(values)}, n.{ROWGUID}::pg_catalog.uuid from {_LOADED} n"
            insertion = f"insert into {table_of(article)} ({', '.join(names)}) overriding system value select {listed}"
            session.execute(sql.SQL(execution.alone(insertion)))
        session.put(OWN_PATH)
    except UnicodeError as error:
        raise RowsRefused(article.name, *NOT_UTF_8) from error
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if not state.startswith(OF_ROWS) or state == NO_RIGHT:
            raise
        place = _COLUMN.search(error.diag.context or "")
        column = f" (column {place[1]})" if place else ""
        raise RowsRefused(article.name, state, f"{error.diag.message_primary}{column}") from error
    return rows


def _make_loaded(session: BatchingConnection, names: Sequence[str], owner: Owner) -> None:
    columns = ", ".join(f"{name} text" for name in names)
    for each in (
        f"drop table if exists {_LOADED}",
        f"create temporary table {_LOADED} ({columns}) on commit drop",
        f"grant select on {_LOADED} to {quote(owner.name)}",
    ):
        session.put(each)


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

    def find_ignoring(self, article: Article) -> Sequence[str]:
        return self._node.stored_table(self._node.places.fill(article)).ignoring

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
                # The rollback drops staging tables that were created after the savepoint: they are made again when they
                # are needed.
                self._staging.forget()
                self._session.execute("rollback to savepoint rowtide_rows")
                raise

    def write_together(self, parts: Parts, *, bounds: Mapping[int, RowFilter] = MappingProxyType({})) -> None:
        parts, bounds = self._node.places.fill(parts), self._node.places.fill(bounds)
        # Rows of several tables may refer to each other: deferrable constraints are checked when all are written.
        self.defer_constraints()
        with self._node.refusing(parts[0][0].name):
            staged = self._stage([(article, writes) for article, writes in parts if writes], bounds)
            for each in staged:
                write(self._session, each, is_deferred=True)
            # After all rows, since the partition of one may follow from another that is written with it.
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
        # All are checked together first: if any fails, which is rare, each is checked alone.
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
            # While it was staged: a type does not take a value. Back to the savepoint that `_write_staged` sets before
            # it stages.
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
        # Before the rows are written: only what fails while it is staged is staged again, with a check of each value.
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
