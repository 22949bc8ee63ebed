"""A PostgreSQL database as a node of a merge."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, Select, literal_column, select, text, true
from sqlalchemy.exc import DBAPIError

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.alterations import Committing, rehearsing_on
from rowtide.databases.postgres.batching import NotReceived, open_batching_engine, session_of
from rowtide.databases.postgres.clock import taking_anchors
from rowtide.databases.postgres.connect import SCHEMAS_FOUND, load_texts
from rowtide.databases.postgres.encodings import lacks_characters
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import map_schemas
from rowtide.databases.postgres.operators import EQUALS
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.received_texts import Parameters
from rowtide.databases.postgres.silence import (
    MERGE,
    end_silent,
    ending_silent,
    limits_of_time,
    name_holders,
    report_ended,
)
from rowtide.databases.postgres.values import is_of_server
from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.merge.articles import Article, DeviceLimits, Subscription
from rowtide.merge.catalogue import list_merged, list_purged, read_nickname, select_articles
from rowtide.merge.definitions import LACKS_CHARACTERS, SCHEMA, articles, replinfo
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.nodes.postgres import rows
from rowtide.merge.nodes.postgres.array_texts import compile_query
from rowtide.merge.nodes.postgres.execution import AGENT_SETTING, SETTINGS, Executions
from rowtide.merge.nodes.postgres.failures import UnexpectedLines, failure, require_session
from rowtide.merge.nodes.postgres.key_moves import read_referrers, referrers_request, renumbering
from rowtide.merge.nodes.postgres.metadata import row_metadata
from rowtide.merge.nodes.postgres.metadata.completing import FORM
from rowtide.merge.nodes.postgres.metadata.generations import (
    SELECT_CLOSED,
    Generations,
    close_generation,
    newer_generations,
    numbers_request,
    take_generations,
    window_since,
)
from rowtide.merge.nodes.postgres.metadata.row_metadata import (
    PostgresReader,
    apply_beside,
    apply_log,
    apply_statements,
    emptying,
    is_logged,
    log_own,
    log_update,
    looking_again,
    stamps_of,
    tidy,
)
from rowtide.merge.nodes.postgres.metadata.system_tables import CONTENTS, LOG
from rowtide.merge.nodes.postgres.places import TableSchemas, here
from rowtide.merge.nodes.postgres.procedures import ask_procedure
from rowtide.merge.nodes.postgres.rows import find_parents, find_reach
from rowtide.merge.nodes.postgres.sending import APPLYING, Closing, PostgresEnumeration, PostgresSending, apply_alone
from rowtide.merge.nodes.postgres.tables.rebuilt import PostgresRebuiltTables, fill
from rowtide.merge.nodes.postgres.tables.tables import PostgresTables
from rowtide.merge.nodes.postgres.tables.triggers import bounding, numbering_request
from rowtide.merge.nodes.postgres.writing.stored_tables import REQUESTS, StoredTables, table_requests
from rowtide.merge.nodes.postgres.writing.writer import PostgresWriter
from rowtide.merge.nodes.roles.rows import Holder, Reach, ToRepeat, retry_busy
from rowtide.merge.nodes.roles.writing import Refusal
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.nodes.untyped_values import server_type
from rowtide.merge.partitions.belonging import Link
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.progress import SELECT_NODE
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write
from rowtide.merge.versions.composition import Composer
from rowtide.merge.versions.identity_ranges import IdentityRange, Numbering
from rowtide.merge.versions.row_metadata import MetadataReader

_MANY = 1000
"""Number of log entries after which the agent vacuums and analyzes at once, without waiting for autovacuum."""
_BEGIN = ("begin isolation level repeatable read", f"set local {AGENT_SETTING} = 'on'")
_NOT_DURABLE = "set local synchronous_commit = off"
REPLINFO, ARTICLES = (quote_qualified(SCHEMA, table.name) for table in (replinfo, articles))
_LOGGED: Select[Any] = select(literal_column("tablenick")).select_from(text(LOG)).distinct()
_MERGED = select_articles(true())


def open_node(url: str | DatabaseUrl, limits: DeviceLimits | None = None) -> PostgresNode:
    """Connect to the database that a URL names. Raises `ConnectionFailed`."""
    return PostgresNode(_engine_of(parse_url(url)), limits)


@lru_cache(maxsize=8)
def _engine_of(url: DatabaseUrl) -> Engine:
    """Return a database's engine: without a pool, but with the statements that were compiled for earlier nodes."""
    return open_batching_engine(url, application_name=MERGE, settings=SETTINGS)


class PostgresNode:
    """See `Node`."""

    tries_together = True
    numbers_above_all = False

    def __init__(self, engine: Engine, limits: DeviceLimits | None = None) -> None:
        self._engine = engine
        self.limits = limits
        with translated():
            self.connection = _map(engine.connect().execution_options(isolation_level="AUTOCOMMIT"))
        self._session = session_of(self.connection)
        self.name = f"{self._session.info.host}/{self._session.info.dbname}"
        """The database's name in errors, also once the connection is closed."""
        self.connection.info[LACKS_CHARACTERS] = lacks_characters(self._session)
        self._generations = Generations()
        self._own = 0
        self._is_ahead = False
        self._is_complete = False
        """Whether the metadata are known to have a format that this build reads, and its form."""
        self._is_log_known = False
        """Whether the log has no other entries than those of `_logged`, as far as is known."""
        self._logged: tuple[Article, ...] = ()
        self._stored = StoredTables()
        schemas = self.connection.info[SCHEMAS_FOUND]
        self.places = TableSchemas(self._session, schemas)
        self._executions = Executions(engine, self._session, schemas)
        self._writer = PostgresWriter(self._session, self._stored, self._executions, self._refusing)
        self._meets_locks = False
        """Whether rows were found locked in the transaction: who holds them may be silent."""
        self._limits_of_time = limits_of_time(self._session)
        self._parts = 0
        """How many transactions are open as parts of another."""
        self.tables = PostgresTables(Committing(engine), self.connection, self._session, self.places, self._executions)
        self.rebuilt = PostgresRebuiltTables(
            self.connection, self._session, self.places, self._executions, self._forget_log
        )

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""
        if self._session.closed:
            # The server has undone it.
            self.connection.invalidate()
        self.connection.close()

    def _forget_log(self) -> None:
        """Ask again what the log has."""
        self._is_log_known = self._is_ahead = False

    def failing(self) -> AbstractContextManager[None]:
        return translated()

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        return self._session.working(step)

    def read_together(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        queries = [compile_query(self.connection.dialect, each) for each in statements]
        requests: list[tuple[str, Parameters]] = [each.request(values) for each in queries]
        if not self._is_complete:
            requests += [(FORM, None), ending_silent(self._session.silence_s)]
        try:
            answers = self._session.read(*requests)
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            if self._is_complete or not self.tables.is_prepared():
                return [[] for _ in statements]
            self._is_complete = True
            return self.read_together(*statements, values=values)
        if not self._is_complete:
            (written,), ended = answers[len(statements) :]
            self._is_complete = True
            report_ended(ended)
            self.tables.accept(*written)
        return [
            [dict(zip(query.columns, row, strict=True)) for row in rows]
            for query, rows in zip(queries, answers, strict=False)
        ]

    def read_ahead(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        *answers, (node,), listed, lines, closed = self.read_together(
            *statements,
            SELECT_NODE,
            _MERGED,
            _LOGGED,
            SELECT_CLOSED,
            values={"since_generation": 0, **values, "known_generation": self._generations.last},
        )
        self._own = int(node["nickname"])
        found = self.places.fill([Article.decode(row["definition"]) for row in listed])
        self._stored.merged = tuple({article.nickname: article for article in found}.values())
        nicknames = {row["tablenick"] for row in lines}
        if not self._generations.last:
            self._generations.is_tail = bool(values.get("since_generation"))
        self._is_log_known = True
        self._logged = tuple(article for article in self._stored.merged if article.nickname in nicknames)
        take_generations(
            self._generations,
            self._own,
            ((row["nickname"], row["generation"], row["snapshot"]) for row in closed),
        )
        self._is_ahead = True
        return answers

    def require_session(self, subscription: Subscription) -> None:
        self._session.put(require_session(subscription))

    @contextmanager
    def transaction(self, *, is_durable: bool = True, is_repeatable: bool = False) -> Iterator[None]:
        with self._failing("the transaction"):
            self._require_writable()
            if self._session.is_in_transaction:
                # A part of it.
                with self._session.transaction(), self._as_part():
                    self._session.execute(sql.SQL(_BEGIN[1]))
                    yield
                return
            self._writer.begin()
            try:
                opening = (*_BEGIN, *self._limits_of_time, *(() if is_durable else (_NOT_DURABLE,)))
                self._session.begin(*opening, is_repeatable=is_repeatable)
                yield
                if self._session.is_open:
                    failpoint("postgres_merge_commit.before")
                    self._session.commit_open()
            except NotReceived as missing:
                self._writer.forget_staging()
                self._session.roll_back()
                # What no server takes is refused when it is sent within the transaction.
                with suppress(psycopg.DataError):
                    self._session.receive(missing.texts, is_more=True)
                raise ToRepeat from missing
            except BaseException:
                self._writer.forget_staging()
                self._session.roll_back()
                raise
            finally:
                if self._meets_locks and not self._session.closed:
                    self._meets_locks = False
                    end_silent(self._session, self._session.silence_s)
        failpoint("postgres_merge_commit.after")

    def _require_writable(self) -> None:
        """Raise `FormatNewer` and the like unless the metadata, if there are any, may be written."""
        if not self.tables.format.is_known:
            self.tables.is_prepared()
        self.tables.format.require_writable()

    @contextmanager
    def _as_part(self) -> Iterator[None]:
        self._parts += 1
        try:
            yield
        finally:
            self._parts -= 1

    @contextmanager
    def rehearsing(self, statements: list[str]) -> Iterator[None]:
        with self._failing("the rehearsal"), self._session.transaction(force_rollback=True):
            self._session.execute("set transaction isolation level repeatable read")
            with rehearsing_on(self.connection, statements) as alterations:
                committing, self.tables.alterations = self.tables.alterations, alterations
                try:
                    yield
                finally:
                    self.tables.alterations = committing

    @contextmanager
    def trying(self) -> Iterator[None]:
        with self._failing("the rehearsal"):
            self._require_writable()
            self._writer.begin()
            self._session.begin(*_BEGIN)
            try:
                self._apply()
                yield
            finally:
                self._writer.forget_staging()
                self._session.roll_back()
                self._forget_log()

    @contextmanager
    def enumerating(self) -> Iterator[PostgresEnumeration]:
        own = read_nickname(self.connection)
        merged = self._read_merged()
        purged = list_purged(self.connection)
        self.apply_log()
        self._session.execute(sql.SQL(looking_again(merged)))
        with translated(), self._engine.connect() as reading:
            with self._applying():
                retry_busy(partial(self._close, own, merged, reading))
            self._generations.refresh(self.connection, own)
            session = session_of(reading)
            is_beside = is_logged(session)
            if is_beside:
                apply_beside(session, merged)
            try:
                yield PostgresEnumeration(
                    session, own, self._generations, purged, self.name, self.places, is_beside=is_beside
                )
            except BaseException:
                # It may be in the middle of sending rows.
                reading.invalidate()
                raise

    @contextmanager
    def previewing(self) -> Iterator[PostgresEnumeration]:
        own = read_nickname(self.connection)
        merged = self._read_merged()
        purged = list_purged(self.connection)
        with translated(), self._engine.connect() as reading:
            load_texts(reading)
            session = session_of(reading)
            session.execute("set transaction isolation level repeatable read")
            is_beside = is_logged(session)
            if is_beside:
                apply_beside(session, merged)
            self._generations.refresh(self.connection, own)
            try:
                yield PostgresEnumeration(
                    session, own, self._generations, purged, self.name, self.places, is_beside=is_beside
                )
            finally:
                # With loaders of its own, and perhaps in the middle of sending rows.
                reading.invalidate()

    def _read_merged(self) -> Sequence[Article]:
        """Return the merged tables, all of which can be read. Raises `PlannedCodeOfOwner`."""
        merged = self.places.fill(list_merged(self.connection))
        self._executions.require_own_plans(merged)
        return merged

    @contextmanager
    @here
    def sending(self, request: ChangesRequest) -> Iterator[PostgresSending]:
        if not self._is_ahead:
            self.read_ahead(values={"since_generation": request.since})
        self._is_ahead = False
        with self._failing(self.name):
            sending = retry_busy(partial(self._send, request))
        yield sending

    def _send(self, request: ChangesRequest) -> PostgresSending:
        self._know_generation(request.since)
        sending = PostgresSending(request, self._own, self._generations, self._look_up, self.name)
        queries = sending.queries()
        closing = Closing(
            self._session, self._own, self._stored.merged, self._logged, self._generations, sending.purged
        )
        try:
            with self._failing(self.name):
                cursors = closing.run(_BEGIN, list(queries.values()))
        except UnexpectedLines:
            # Other tables were changed meanwhile, or published.
            self.read_ahead(values={"since_generation": request.since})
            self._logged = self._stored.merged
            return self._send(request)
        self._logged = ()
        if closing.applied >= _MANY:
            tidy(self._session)
        sending.take(dict(zip(queries, cursors, strict=True)))
        return sending

    def _close(self, own: int, merged: Sequence[Article], reading: Connection) -> None:
        """Close the open generation, and set the connection to its snapshot.

        The log is applied in the same transaction: all entries belong to the open generation.
        """
        with self._failing(self.name), _map(self._engine.connect()) as closing, taking_anchors(closing):
            close_generation(closing, own, [article.nickname for article in merged])
            if is_logged(session_of(closing)):
                apply_log(session_of(closing), merged)
            exported = closing.execute(text("select pg_export_snapshot()")).scalar_one()
            load_texts(reading)
            session = session_of(reading)
            session.execute("set transaction isolation level repeatable read")
            session.execute(sql.SQL(f"set transaction snapshot '{exported}'"))

    @contextmanager
    def _applying(self) -> Iterator[None]:
        """Apply the log, or close a generation, one session at a time, so that no session repeats another's work."""
        self._require_writable()
        self._session.execute(sql.SQL(f"select pg_advisory_lock({APPLYING})"))
        try:
            yield
        finally:
            self._session.execute(sql.SQL(f"select pg_advisory_unlock({APPLYING})"))

    def apply_log(self) -> None:
        if self._session.is_in_transaction:
            # It was applied as that began.
            return
        if not self._is_log_known:
            self.read_ahead()
        if self._logged:
            with self._failing(self.name):
                lines = retry_busy(self._apply_ahead)
            self._logged = ()
            if lines >= _MANY:
                tidy(self._session)

    def _apply_ahead(self) -> int:
        with self._failing(self.name):
            return apply_alone(self._session, _BEGIN, self._logged)

    def _apply(self) -> None:
        merged = self.places.fill(list_merged(self.connection))
        for statement in (*apply_statements(merged), emptying(merged)):
            self._session.put(statement)

    @here
    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, KnownVersion]:
        return self.read_known_of([(article, rowguids)])[0]

    @here
    def read_known_of(self, asked: Sequence[tuple[Article, Sequence[str]]]) -> list[Mapping[str, KnownVersion]]:
        return self.read_known_and_rows(asked, [])[0]

    @here
    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        others: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        if not asked:
            return [], [self.read_rows(article, rowguids) for article, rowguids in others]
        logged, found, read = self._ask_known(asked, others, holder)
        if logged:
            self._apply()
            _, found, read = self._ask_known(asked, others, holder)
        return found, read

    def _ask_known(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        others: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None,
    ) -> tuple[bool, list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        """Return whether the log has entries of these rows, the metadata of rows, and other rows, with all that writing
        will need.
        """
        unread = [article for article, _ in asked if article not in self._stored]
        unused = Composer(asked[0][0], 0, b"")
        readers = [
            MetadataReader(
                article,
                unused,
                PostgresReader(self._generations),
                self.name,
                subscriber=None if holder is None else holder.of(article),
            )
            for article, _ in asked
        ]
        answers = self._session.read(
            ("select pg_current_xact_id()", None),
            (f"select nickname from {REPLINFO}", None),
            (f"select nickname, purged_lineage from {ARTICLES}", None),
            (newer_generations(self._generations), None),
            *(request for article in unread for request in table_requests(article)),
            *(rows.known_request(each, rowguids) for each, (_, rowguids) in zip(readers, asked, strict=True)),
            *(rows.rows_request(article, rowguids) for article, rowguids in others),
            texts=True,
        )
        ((stamp,),), ((own,),), lineages, closed, *rest = answers
        self._writer.stamp, self._own = int(stamp), int(own)
        take_generations(self._generations, self._own, closed)
        for place, article in enumerate(unread):
            self._stored.take(article, *rest[REQUESTS * place : REQUESTS * (place + 1)])
        purged = {int(nickname): bytes.fromhex(lineage[2:]) for nickname, lineage in lineages}
        found, is_logged = [], False
        answers = rest[REQUESTS * len(unread) :]
        self._look_up(metadata for groups in answers[: len(asked)] for _, _, *metadata in groups)
        for reader, groups in zip(readers, answers, strict=False):
            composer = Composer(reader.article, self._own, purged[reader.article.nickname])
            is_logged |= groups[0][0] == "t"
            known = (group[1:] for group in groups if group[1] is not None)
            found.append(replace(reader, composer=composer).known(known))
        read = [rows.rows_of(article, each) for (article, _), each in zip(others, answers[len(asked) :], strict=True)]
        return is_logged, found, read

    @here
    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        self._executions.require_own_plans([article])
        return rows.read_rows(self._session, article, rowguids)

    @here
    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        columns, execution = self._stored.of(article).columns, self._executions.of(article)
        return ask_procedure(self._session, article, columns, subscriber, pairs, execution)

    @here
    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        return rows.read_referencing(self._session, article, columns, keys, self._equal_of(article))

    @here
    def next_keys(self, article: Article, count: int) -> Sequence[str]:
        return rows.next_keys(self._session, article, count)

    @here
    def read_numbering(self, articles: Sequence[Article]) -> Mapping[int, Numbering]:
        answers = self._session.read(*map(numbering_request, articles))
        return {
            article.nickname: Numbering(rows[0][0], rows[0][1], follows_highest=False)
            for article, rows in zip(articles, answers, strict=True)
        }

    @here
    def set_numbering(self, article: Article, owned: IdentityRange) -> None:
        self._session.execute(sql.SQL(bounding(article, owned)))

    @here
    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        referrers = read_referrers(self._read(*referrers_request(article)))
        execution = self._executions.of(article)
        with self._refusing(article.name), self._session.transaction():
            self._writer.make_lists(execution)
            self._session.execute(f"set local {AGENT_SETTING} = 'off'")
            self._session.execute(sql.SQL(execution.alone(renumbering(article, referrers, keys))))
            self._session.execute(f"set local {AGENT_SETTING} = 'on'")

    @here
    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        return rows.find_belonging(self._session, row_filter, rowguids)

    @here
    def find_key_holder(self, article: Article, row: Row) -> str | None:
        return rows.find_key_holder(self._session, article, row, self._equal_of(article))

    def spare(self, articles: Collection[Article]) -> None:
        self._writer.spared = {article.nickname for article in articles}

    @here
    def receive(self, parts: Sequence[tuple[Article, Sequence[RowChange]]]) -> None:
        if not self._session.is_in_transaction:
            with self._failing(self.name):
                self._writer.receive(parts)

    @here
    def write(self, article: Article, writes: Sequence[Write]) -> None:
        self._writer.write(article, writes)

    @here
    def write_together(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
    ) -> None:
        self.defer_constraints()
        self._writer.write_together(parts, bounds=bounds)

    @here
    def write_each(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
        late: Collection[str] | None = None,
        commits: bool = False,
    ) -> list[Mapping[str, Refusal]]:
        refused = self._writer.write_each(parts, bounds=bounds, late=late, commits=commits and not self._parts)
        self._meets_locks |= any(refusal.is_locked for each in refused for refusal in each.values())
        return refused

    @contextmanager
    def _refusing(self, subject: str) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise self._failure(error, subject) from error

    @here
    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        return rows.read_parents(self._session, link, children, self._equal_of(link.parent))

    @here
    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        return rows.read_children(self._session, link, parents, self._equal_of(link.parent))

    @here
    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        return find_parents(self._session, link, rows, self._equal_of(link.parent))

    @here
    def find_acting(self, articles: Sequence[Article]) -> Set[int]:
        unread = [article for article in articles if article not in self._stored]
        answers = self._session.read(*(each for article in unread for each in table_requests(article)), texts=True)
        for place, article in enumerate(unread):
            self._stored.take(article, *answers[REQUESTS * place : REQUESTS * (place + 1)])
        acting = (
            article for article in articles if any(each.has_action for each in self._stored.of(article).referrers)
        )
        return {article.nickname for article in acting}

    def find_clearing(self, article: Article) -> Set[str]:
        self.find_acting([article])
        return {
            name for each in self._stored.of(article).referrers if each.is_clearing for name in each.columns.values()
        }

    @here
    def find_reach(
        self, article: Article, rowguids: Sequence[str], merged: Mapping[int, Article], *, is_update: bool = False
    ) -> Reach:
        execution = self._executions.of(article)
        return find_reach(self._session, article, rowguids, merged, execution, is_update=is_update)

    def read_buried(self, article: Article, since: int, source: int) -> Sequence[str]:
        self._know_generation(since)
        is_later = window_since(self._generations, since)("stamp")
        return rows.read_buried(self._session, article.nickname, is_later, source)

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        return row_metadata.lineages(self._session, nickname, self._snapshot_of(generation))

    def forget(self, article: Article, generation: int, most: int) -> int:
        return row_metadata.forget(self._session, article.nickname, self._snapshot_of(generation), most)

    @here
    def redefine(self, before: Article, after: Article) -> None:
        self._apply()
        if after.column_tracking:
            self._session.flush()
            row_metadata.move_columns_of(self._session, before, after)

    def forget_tables(self) -> None:
        self._session.execute("discard temp")
        self._session.discard_received()
        self._stored.forget()
        self._executions.forget()
        self.places.forget()
        self._writer.forget_staging()
        self._is_ahead = self._is_log_known = False

    def altering(self) -> AbstractContextManager[None]:
        return self.transaction()

    @here
    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        log_own(self._session, article, columns, without)

    @here
    def log_update(self, article: Article, rowguid: str) -> bool:
        with self._failing(article.name):
            return log_update(self._session, article, rowguid)

    @here
    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        with self._refusing(article.name):
            fill(self._session, article, rows, self._executions.of(article))

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        self._apply()
        own = f"tablenick = {article.nickname} and rowguid = %s::uuid and bases is not null"
        values = [(value, rowguid) for rowguid, value in bases.items()]
        with self._session.cursor() as cursor:
            cursor.executemany(sql.SQL(f"update {CONTENTS} set bases = %s where {own}"), values)

    def defer_constraints(self) -> None:
        self._session.put("set constraints all deferred")

    def _equal_of(self, article: Article) -> Callable[[str], str]:
        """Return the operators by which columns of an article are compared; what is not the server's own is read."""
        if all(is_of_server(server_type(column)) for column in article.columns):
            return lambda _name: EQUALS
        if article not in self._stored:
            self._stored.take(article, *self._session.read(*table_requests(article), texts=True))
        known = {column.name: column.equal for column in self._stored.of(article).columns}
        return lambda name: known.get(name, EQUALS)

    def _know_generation(self, generation: int) -> None:
        """Read all generations if it is not among those that are known."""
        if not self._generations.has(generation):
            self._generations.refresh(self.connection, self._own)

    def _look_up(self, metadata: Iterable[Sequence[str | None]]) -> None:
        """Ask for the generations of rows' metadata that are not known."""
        unknown = self._generations.unknown(stamp for each in metadata for stamp in stamps_of(each))
        if unknown:
            self._generations.learn(self._session.read(numbers_request(self._own, unknown))[0])

    def _snapshot_of(self, generation: int) -> str:
        self._generations.refresh(self.connection, read_nickname(self.connection))
        snapshot = self._generations.snapshot_of(generation)
        assert snapshot is not None
        return snapshot

    def _read(self, query: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._session.read((query, parameters), texts=True)[0]

    @contextmanager
    def _failing(self, subject: str) -> Iterator[None]:
        """Raise our errors for the server's."""
        try:
            yield
        except psycopg.Error as error:
            raise self._failure(error, subject) from error
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.Error):
                raise
            raise self._failure(error.orig, subject) from error

    def _failure(self, error: Exception, subject: str) -> Exception:
        """Return our error for one of the server's."""
        found = failure(error, subject, self.name)
        if isinstance(found, NodeBusy):
            self._is_log_known, self._meets_locks = False, True
            if isinstance(error, psycopg.errors.LockNotAvailable):
                return NodeBusy(self.name, f"{found.reason}; locks are held by {name_holders(self._session)}")
        return found


def _map(connection: Connection) -> Connection:
    return connection.execution_options(schema_translate_map=map_schemas(connection, {None: SCHEMA}))
