"""Changes that a PostgreSQL node sends in one synchronisation, read on its one connection.

One round trip closes the generation and declares a cursor for each part of what is sent, in one transaction: all see
its snapshot. A cursor outlives the transaction (with hold), so nobody waits for a slow network, and no snapshot is held
open meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import sql

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.advisory_locks import CLOCK, MERGE_LOG
from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.quoting import quote_body, quote_literal, quote_qualified
from rowtide.merge.articles import Article
from rowtide.merge.definitions import SCHEMA, articles, partition_mappings
from rowtide.merge.nodes.postgres.execution import UNKNOWN_LINES
from rowtide.merge.nodes.postgres.metadata.generations import (
    Generations,
    newer_generations,
    take_generations,
    window_since,
)
from rowtide.merge.nodes.postgres.metadata.log_application import apply_statements, emptying, looking_again
from rowtide.merge.nodes.postgres.metadata.row_metadata import FILTERING, PostgresReader, uuid_array
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, GENHISTORY, LOG, OF_TABLE, TOMBSTONE
from rowtide.merge.nodes.postgres.session import unlock_all
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.partitions.candidates import CANDIDATE_COLUMNS, Candidate, Names, candidates
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.row_metadata import METADATA_WIDTH, MetadataReader
from rowtide.merge.versions.stored_metadata import Composer

_BATCH_ROWS = 4000
"""How many rows a round trip fetches."""
_ARTICLES = quote_qualified(SCHEMA, articles.name)
_METADATA = tuple(f"m{index}" for index in range(METADATA_WIDTH))
_BETWEEN = "\x1f"
_LOCK = f"select pg_advisory_lock({MERGE_LOG}), pg_advisory_lock({CLOCK})"
_UNLOCK = f"select pg_advisory_unlock({MERGE_LOG}), pg_advisory_unlock({CLOCK})"
"""Session locks, taken before the transaction: its snapshot would predate the wait."""


@dataclass(slots=True)
class ServerCursor:
    """A query of texts that outlives its transaction, read a few thousand rows at a time."""

    session: BatchingConnection
    name: str
    query: str
    _reading: psycopg.Cursor[tuple[Any, ...]] | None = None
    _first: list[tuple[Any, ...]] = field(default_factory=list)

    def declare(self) -> None:
        """Open the cursor, within `sending`."""
        # With hold: the server keeps the rows at the commit, so that neither locks nor the snapshot last while they are
        # sent.
        self.session.queue(f"declare {self.name} no scroll cursor with hold for {self.query}")

    def ask(self) -> None:
        """Ask for the first rows, within `sending`: once nothing is locked, as the network may take long for them."""
        self._reading = self._fetch()

    def take(self) -> None:
        """Take the first rows, once they have come."""
        assert self._reading is not None
        self._first = self._reading.fetchall()

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows, once."""
        batch, self._first = self._first, []
        while batch:
            yield batch
            batch = self._fetch().fetchall() if len(batch) == _BATCH_ROWS else []

    def _fetch(self) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.session.text_cursor().execute(sql.SQL(f"fetch {_BATCH_ROWS} from {self.name}"))


@dataclass(slots=True)
class Closing:
    """Closes the open generation of node `own`, with the log of the tables `logged` applied, and opens cursors."""

    session: BatchingConnection
    own: int
    merged: Sequence[Article]
    logged: Sequence[Article]
    generations: Generations
    purged: dict[int, bytes]
    applied: int = 0
    """The number of log entries that were applied."""

    def run(self, begin: Sequence[str], queries: Sequence[str]) -> list[ServerCursor]:
        """Run everything in one round trip; return a cursor of each query, with its first rows.

        Raises psycopg's errors; `UNKNOWN_LINES` if other tables have log entries.
        """
        failpoint("clock_commit.before")
        cursors = [ServerCursor(self.session, f"rowtide_{index}", query) for index, query in enumerate(queries)]
        apply = apply_statements(self.logged) if self.logged else []
        try:
            with self.session.sending(always=True):
                # Cursors of an earlier synchronisation stay open in the session until they are closed.
                self._send("close all", "begin", _LOCK, looking_again(self.merged), "commit", *begin)
                self._send(self._require_known_lines(), *apply)
                emptied = self._ask(emptying(self.logged))
                self._send(self._close())
                newer = self._ask(newer_generations(self.generations))
                purged = self._ask(f"select nickname, purged_lineage from {_ARTICLES}")
                for cursor in cursors:
                    cursor.declare()
                self._send("commit", _UNLOCK)
                for cursor in cursors:
                    cursor.ask()
        except BaseException:
            # A rollback does not release locks of the session.
            unlock_all(self.session)
            raise
        failpoint("clock_commit.after")
        self.applied = emptied.rowcount
        take_generations(self.generations, self.own, newer.fetchall())
        self.purged.update((nickname, bytes(lineage)) for nickname, lineage in purged.fetchall())
        for cursor in cursors:
            cursor.take()
        return cursors

    def _send(self, *statements: str) -> None:
        for each in statements:
            self.session.queue(each)

    def _ask(self, statement: str) -> psycopg.Cursor[tuple[Any, ...]]:
        return psycopg.Cursor(self.session).execute(sql.SQL(statement))

    def _require_known_lines(self) -> str:
        listed = quote_literal(f"{{{','.join(str(article.nickname) for article in self.logged)}}}")
        unknown = f"exists (select from {LOG} where tablenick <> all ({listed}::int[]))"
        failing = f"raise exception using errcode = '{UNKNOWN_LINES}', message = 'other tables were changed'"
        return f"do {quote_body(f'begin if {unknown} then {failing}; end if; end')}"

    def _close(self) -> str:
        """Return the statement that closes the open generation with the transaction's snapshot, if it has changes.

        It looks for changes by a literal snapshot, which the planner knows to be selective.
        """
        listed = ", ".join(str(article.nickname) for article in self.merged) or "null"
        changed = " or ".join(
            f"exists (select from {table} where {OF_TABLE} in ({listed}) and stamp >= %1$s "
            "and not pg_visible_in_snapshot(stamp::text::xid8, %2$L::pg_snapshot))"
            for table in (CONTENTS, TOMBSTONE)
        )
        last = f"select generation, snapshot from {GENHISTORY} where nickname = {self.own}"
        next_one = f"{self.own}, coalesce(last.generation, 0) + 1, gen_random_uuid()::text, 1"
        body = (
            "declare last record; is_changed boolean := true; begin "
            f"select * into last from ({last} order by generation desc limit 1) one; "
            f"if found then execute format({quote_literal(f'select {changed}')}, "
            "split_part(last.snapshot, ':', 1), last.snapshot) into is_changed; end if; "
            f"if is_changed then insert into {GENHISTORY} (nickname, generation, guidsrc, genstatus, snapshot) "
            f"values ({next_one}, pg_current_snapshot()::text); end if; end"
        )
        return f"do {quote_body(body)}"


@dataclass(slots=True)
class PostgresSending:
    """See `Sending`; `look_up` asks for the generations of rows' metadata that are not known, `node` is its name."""

    request: ChangesRequest
    own: int
    generations: Generations
    look_up: Callable[[Iterable[Sequence[str | None]]], None]
    node: str
    blocks_writers: bool = field(default=False, init=False)
    purged: dict[int, bytes] = field(default_factory=dict)
    _cursors: dict[tuple[str, int], ServerCursor] = field(default_factory=dict)

    @property
    def generation(self) -> int:
        return self.generations.last

    def queries(self) -> dict[tuple[str, int], str]:
        """Return the queries of what is to be sent, by the part of an article that they read."""
        found: dict[tuple[str, int], str] = {}
        for article in self.request.articles:
            nickname, reading = article.nickname, self._reading(article)
            asked = self.request.again.get(nickname, ())
            if nickname in self.request.filters:
                concerned = "k.belongs or k.generation is not null or k.is_asked"
                listed = f"select * from ({self._candidates(nickname, asked)}) k where {concerned}"
                query = reading.select_listed(listed, CANDIDATE_COLUMNS)
                found["entering", nickname] = self._packed(query, article, len(CANDIDATE_COLUMNS))
                continue
            for part, table in (("upserts", CONTENTS), ("deletes", TOMBSTONE)):
                is_sent = f"origin is distinct from {self.request.destination}"
                condition = f"{OF_TABLE} = {nickname} and {self._new_condition('stamp')} and {is_sent}"
                query = reading.select_window(f"{table} where {condition}", is_live=table == CONTENTS)
                found[part, nickname] = self._packed(query, article)
            if asked:
                listed = f"select unnest({quote_literal(uuid_array(asked))}::uuid[]) as rowguid"
                found["asked", nickname] = self._packed(self._reading(article, asked=listed).select_asked(), article)
        return found

    def take(self, cursors: dict[tuple[str, int], ServerCursor]) -> None:
        """Take the cursors of `queries`."""
        self._cursors = cursors

    def upserts(self, article: Article) -> Iterator[Sequence[RowChange]]:
        return self._changes("upserts", article)

    def deletes(self, article: Article) -> Iterator[Sequence[RowChange]]:
        return self._changes("deletes", article)

    def asked(self, article: Article) -> Sequence[RowChange]:
        return [change for batch in self._changes("asked", article) for change in batch]

    def entering(self, article: Article) -> Iterator[Sequence[tuple[Candidate, RowChange | None]]]:
        reading, width = self._reading(article), len(CANDIDATE_COLUMNS)
        for batch in map(self._unpacked, self._cursors["entering", article.nickname].batches()):
            changes = {change.rowguid: change for change in reading.changes(row[:-width] for row in batch)}
            found = [Candidate.read((row[0], *row[-width:])) for row in batch]
            yield [(candidate, changes.get(candidate.rowguid)) for candidate in found]

    def _changes(self, part: str, article: Article) -> Iterator[Sequence[RowChange]]:
        cursor = self._cursors.get((part, article.nickname))
        reading = self._reading(article)
        for batch in () if cursor is None else cursor.batches():
            yield reading.changes(self._unpacked(batch))

    def _unpacked(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows of a packed query with the columns that the query had."""
        self.look_up(map(_metadata, {packed for _, packed, *_ in rows}))
        return [(rowguid, *_metadata(packed), *values) for rowguid, packed, *values in rows]

    def _packed(self, query: str, article: Article, more: int = 0) -> str:
        """Return a query with its columns of metadata in one: each column takes four bytes of every row, also if null.

        `more` is the number of columns after the row's.
        """
        parents = len(article.references) if self.request.parents else 0
        values = [f"v{index}" for index in range(len(article.columns) + parents + more)]
        texts = ", ".join(f"q.{name}::text" for name in _METADATA)
        listed = "".join(f", q.{name}" for name in values)
        return (
            f"select q.rowguid, array_to_string(array[{texts}], {quote_literal(_BETWEEN)}, ''){listed} "
            f"from ({query}) q (rowguid, {', '.join([*_METADATA, *values])})"
        )

    def _reading(self, article: Article, asked: str | None = None) -> MetadataReader:
        composer = Composer(article, self.own, self.purged.get(article.nickname, b""))
        reader = PostgresReader(self.generations)
        reader = reader if asked is None else replace(reader, asked=asked)
        return MetadataReader(article, composer, reader, self.node, parents=self.request.parents)

    def _candidates(self, nickname: int, asked: Sequence[str]) -> str:
        names = Names(
            FILTERING,
            quote_qualified(SCHEMA, partition_mappings.name),
            lambda rowguid: f"{quote_literal(rowguid)}::uuid",
            self._new_condition,
            OF_TABLE,
            is_beside=False,
        )
        return candidates(self.request.filters[nickname], self.request.destination, asked, names)

    def _new_condition(self, stamp: str) -> str:
        return window_since(self.generations, self.request.since)(stamp)


@lru_cache(maxsize=1 << 12)
def _metadata(packed: str) -> tuple[str | None, ...]:
    """Return columns of metadata, which often thousands of rows have alike; none of them is an empty text."""
    return tuple(part or None for part in packed.split(_BETWEEN))
