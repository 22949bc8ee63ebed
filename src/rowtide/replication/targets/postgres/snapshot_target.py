"""The subscriber's side of a snapshot on PostgreSQL: rows are loaded by COPY, each chunk in one transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg import pq, sql

from rowtide.copying.chunks import Chunk, CopiedChunk, CopyForm, format_snapshot, parse_snapshot
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.copying import begin_copy_in, end_copy_in, put_copy_data
from rowtide.databases.postgres.errors import ConnectionFailed, RowsHidden, UnexpectedSqlError, find_outage, translated
from rowtide.databases.postgres.functions import OWN_PATH, USERS_PATH
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.typed_values import find_codec
from rowtide.databases.postgres.values import SAME_IN_BINARY
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import ColumnAdded, ColumnDropped, CustomSql, Followed, SchemaChange
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution.delivery_interface import AlterationRefused, Delivery
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import AgentReplaced, CopyRefused, CustomScriptFailed
from rowtide.replication.snapshot.table_details import TableDetails
from rowtide.replication.snapshot.target import SnapshotStatus, SubscriptionSnapshot
from rowtide.replication.targets.postgres import delivery_marks, progress, restorations
from rowtide.replication.targets.postgres.calls import procedures, statements
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.conflicts import released_values
from rowtide.replication.targets.postgres.connecting import closed_on_error, connect_agent
from rowtide.replication.targets.postgres.delivery.streams.several_connections import deliver_over
from rowtide.replication.targets.postgres.new_snapshot import renew_constraints
from rowtide.replication.targets.postgres.recovery import TakenOver, open_agent
from rowtide.replication.targets.postgres.restorations import Until
from rowtide.replication.targets.postgres.schema import alterations
from rowtide.replication.targets.postgres.writing_rights import WrittenTables

_CHARACTER_NOT_HELD = "22P05"
_UNSUPPORTED = "0A000"
_STAGED = "pg_temp.rowtide_copied"
_STAGED_AT_ONCE = 1 << 20
"""Bytes of rows that are inserted by one statement."""
_BINARY_FORM_TOO_SHORT = "08P01"
_Connection = psycopg.Connection[tuple[Any, ...]]


class PostgresSnapshotTarget:
    """A PostgreSQL subscriber that is copied to; see `OpenedSubscriber`."""

    def __init__(self, taken: TakenOver, subscription: Subscription) -> None:
        self._taken = taken
        self._connection = connection = taken.connection
        self._subscription = subscription
        self._guid = subscription.guid
        self._epoch = taken.progress.epoch
        self._delivered: Sequence[Article] = ()
        self._written = WrittenTables(connection, subscription.subscriber, subscription.settings.run_as)
        if subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME:
            delivery_marks.create(connection, self._guid)

    @classmethod
    def open(cls, subscription: Subscription) -> PostgresSnapshotTarget:
        """Connect and take over from any earlier agent. Raises `SubscriberUnprepared`, and as `connect`."""
        taken = open_agent(subscription)
        with closed_on_error(taken.connection):
            return cls(taken, subscription)

    def deliver(self, subscription: Subscription, articles: Sequence[Article]) -> Delivery:
        self._delivered = articles
        return deliver_over(self._taken, subscription, articles)

    def read_state(self) -> SubscriptionSnapshot:
        with translated(), self._connection.pipeline():
            found = self._connection.execute(_STATUS, [self._guid])
            rows = self._connection.execute(_CHUNKS, [self._guid])
        status, end = found.fetchone() or ("", None)
        missing, copied = [], []
        for article_id, number, low, high, snapshot, generation in rows:
            chunk = Chunk(article_id, number, low and tuple(low), high and tuple(high))
            if snapshot is None:
                missing.append(chunk)
            else:
                copied.append(CopiedChunk(chunk, parse_snapshot(snapshot), generation))
        until = None if end is None else Position(end)
        return SubscriptionSnapshot(SnapshotStatus(status), until, tuple(missing), tuple(copied))

    def read_articles(self, articles: Sequence[Article]) -> tuple[Article, ...]:
        return progress.read_articles(self._connection, self._guid, articles)

    def alter(self, followed: Followed) -> None:
        before, article = followed.before, followed.article
        self._learn(before)
        try:
            with self._written.transaction(self._connection), translated():
                self._require_own(self._connection)
                delivery_marks.mark(self._connection, self._guid)
                # What is copied has the former columns. All chunks of the table are copied again with the new ones.
                self._empty(before)
                self._connection.execute(_FORGET_CHUNKS, [self._guid, article.article_id])
                table = (before.schema, before.table)
                for change in followed.changes:
                    self._make(followed, table, change)
                    table = alterations.table_after(table, change)
                for statement in alterations.renew(followed, self._guid, self._written.of(article)):
                    self._connection.execute(sql.SQL(statement))
                if followed.script is not None:
                    self._run_script(article, followed.script)
        except UnexpectedSqlError as error:
            raise CopyRefused(f"{before.schema}.{before.table}", error.sqlstate, error.reason) from error

    def _make(self, followed: Followed, table: tuple[str, str], change: SchemaChange) -> None:
        try:
            with translated():
                for statement in alterations.alter(table, change, self._written.writer_of(followed.article)):
                    self._connection.execute(sql.SQL(statement))
                    self._written.pin()
        except UnexpectedSqlError as error:
            if isinstance(change, ColumnAdded | ColumnDropped):
                raise AlterationRefused(followed.article, change, error.reason) from error
            raise

    def _run_script(self, article: Article, script: CustomSql) -> None:
        try:
            with translated():
                writer = self._written.writer_of(article)
                statement = alterations.run_script((article.schema, article.table), script.text, writer)
                self._connection.execute(sql.SQL(statement))
                self._written.pin()
        except UnexpectedSqlError as error:
            table = article.qualified_name
            raise CustomScriptFailed(script.name, table, script.lsn, error.reason) from error

    def choose_form(self, article: Article) -> CopyForm:
        # In an encoding that lacks characters, the one that is refused has to be found in the rows' text.
        self._learn(article)
        if find_codec(self._connection) is not None or self._written.of(article).is_others:
            return CopyForm.TEXT
        names = [column.name for column in article.columns]
        with translated():
            rows = self._connection.execute(_TYPES, [_table(article), names]).fetchall()
        types: dict[str, int] = dict(rows)
        is_alike = all(
            types.get(column.name) == column.type_code and types[column.name] in SAME_IN_BINARY
            for column in article.columns
        )
        return CopyForm.BINARY if is_alike else CopyForm.TEXT

    @contextmanager
    def load(self, chunk: CopiedChunk, article: Article, form: CopyForm) -> Iterator[Callable[[bytes], None]]:
        # Closed, whatever it is in the middle of: what is not committed is not there.
        with closing(connect_agent(self._subscription, "snapshot")) as connection:
            self._learn(article)
            with translated():
                connection.execute("begin")
            # The fence holds until the commit: an agent that takes over waits for this chunk, and finds it copied.
            self._require_own(connection)
            delivery_marks.mark(connection, self._guid)
            if self._subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME:
                delivery_marks.mark_as_old(connection, self._guid)
            watch = CharacterWatch(article, find_codec(connection))
            try:
                yield from self._copy(connection, article, form, watch)
            except CopyRefused as refused:
                if refused.sqlstate != _CHARACTER_NOT_HELD:
                    raise
                raise CopyRefused(refused.table, refused.sqlstate, refused.reason + watch.describe()) from refused
            failpoint("snapshot_chunk.before")
            with translated():
                # Rows and the record of their chunk, with its snapshot, are committed together: a chunk is there as a
                # whole or not at all.
                connection.execute(_NOTE_CHUNK, self._noted(chunk))
                self._written.end(connection)
                connection.execute("commit")
            failpoint("snapshot_chunk.after")

    def _copy(
        self, connection: _Connection, article: Article, form: CopyForm, watch: CharacterWatch
    ) -> Iterator[Callable[[bytes], None]]:
        """Yield what takes the rows of a chunk."""
        if self._written.of(article).is_others:
            staging = ChunkStaging(connection, article, self._written, watch)
            yield staging.write
            staging.end()
            return
        with translated():
            # Triggers, defaults and checks find by the role's own path what they name; the statement names all.
            connection.execute(USERS_PATH)
        yield _begin_copy(connection, article, form, watch)
        _end_copy(connection, article)
        with translated():
            connection.execute(OWN_PATH)

    def _learn(self, article: Article) -> None:
        if not self._written.knows(article):
            self._written.read([article])

    def discard(self, article: Article) -> None:
        self._learn(article)
        with self._written.transaction(self._connection), translated():
            self._require_own(self._connection)
            delivery_marks.mark(self._connection, self._guid)
            self._empty(article)
            self._connection.execute(_FORGET_CHUNKS, [self._guid, article.article_id])

    def begin_hand_over(self, end: Position, details: Sequence[tuple[Article, TableDetails]]) -> None:
        with self._connection.transaction(), translated():
            self._require_own(self._connection)
            if details:
                renew_constraints(self._connection, self._guid, details)
            self._connection.execute(_BEGIN_HAND_OVER, [SnapshotStatus.HANDING_OVER, end.value, self._guid])
            failpoint("hand_over.before")
        failpoint("hand_over.after")

    def finish(self) -> None:
        with self._connection.transaction():
            with translated():
                due = self._connection.execute(_DUE, [self._guid, SnapshotStatus.HANDING_OVER]).fetchone()
                constraints = self._connection.execute(_STATEMENTS, [self._guid]).fetchall() if due is not None else []
            for (statement,) in constraints:
                self._constrain(statement)
            if due is not None:
                if self._subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME:
                    # The unique indexes are there now.
                    for article in self._delivered:
                        released_values.make_trigger(self._connection, article)
                restorations.restore(self._connection, self._guid, Until.COPIED)
                with translated():
                    for forgetting in _FORGET:
                        self._connection.execute(sql.SQL(forgetting), [self._guid])
                failpoint("snapshot_end.before")
        failpoint("snapshot_end.after")

    def close(self) -> None:
        self._connection.close()

    def _empty(self, article: Article) -> None:
        # Foreign keys may reference a table that was there.
        self._written.execute(article, procedures.truncating(_table(article)))

    def _constrain(self, statement: str) -> None:
        try:
            with translated():
                self._connection.execute(sql.SQL(statement))
        except UnexpectedSqlError as error:
            raise CopyRefused(statement, error.sqlstate, error.reason) from error

    def _require_own(self, connection: _Connection) -> None:
        """Raise `AgentReplaced` after a takeover; an agent that takes over waits for this transaction."""
        with translated():
            row = connection.execute(_FENCE, [self._guid]).fetchone()
        if row is None or row[0] != self._epoch:
            raise AgentReplaced(
                self._subscription.subscriber,
                "no such subscription" if row is None else f"epoch {row[0]}, agent {row[1]}",
            )

    def _noted(self, copied: CopiedChunk) -> dict[str, Any]:
        return {
            "snapshot": format_snapshot(copied.snapshot),
            "generation": copied.generation,
            "guid": self._guid,
            "article": copied.chunk.member_id,
            "chunk": copied.chunk.number,
        }


def _begin_copy(
    connection: _Connection, article: Article, form: CopyForm, watch: CharacterWatch
) -> Callable[[bytes], None]:
    columns = ", ".join(quote(column.name) for column in article.columns)
    statement = f"copy {_table(article)} ({columns}) from stdin{form.value}"
    with translated():
        refused = begin_copy_in(connection, statement)
    _require(article, refused)

    def write(block: bytes) -> None:
        watch.look(block)
        with translated():
            put_copy_data(connection, block)

    return write


def _end_copy(connection: _Connection, article: Article) -> None:
    with translated():
        refused = end_copy_in(connection)
    _require(article, refused)


def _require(article: Article, result: pq.abc.PGresult | None) -> None:
    """Raise the refusal of a COPY, if there is one."""
    if result is None:
        return
    sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    reason = " ".join(result.error_message.decode(errors="replace").split())
    is_of_rows = sqlstate == _BINARY_FORM_TOO_SHORT
    if not sqlstate or (sqlstate.startswith(("08", "57P")) and not is_of_rows):
        raise ConnectionFailed(reason)
    if sqlstate == _UNSUPPORTED and "row-level security" in reason:
        raise RowsHidden(f"{article.qualified_name} at the subscriber has policies")
    said = " ".join((result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace").split())
    context = (result.error_field(pq.DiagnosticField.CONTEXT) or b"").decode(errors="replace")
    # The rest of it, and the detail, are values of the row.
    place = _PLACE_OF_COPY.search(context)
    raise find_outage(sqlstate, reason) or CopyRefused(
        article.qualified_name, sqlstate, said if place is None else f"{said} ({place[0]})"
    )


_PLACE_OF_COPY = re.compile(r"COPY [^:]*, line \d+(?:, column [^:]*)?")


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)


_SUBSCRIPTIONS, _ALL_CHUNKS = f'{SCHEMA}."MSreplication_subscriptions"', f'{SCHEMA}."MSsnapshot_chunks"'

_STATUS = f"select snapshot_status, snapshot_end from {_SUBSCRIPTIONS} where subscription_guid = %s"
# Chunks that are loaded side by side share the row's lock. An agent that takes over updates the row, and waits.
_FENCE = f"select epoch, agent from {_SUBSCRIPTIONS} where subscription_guid = %s for share"
_CHUNKS = f"""
select article_id, chunk, low, high, transaction_snapshot, generation from {_ALL_CHUNKS}
where subscription_guid = %s order by article_id, chunk
"""
_NOTE_CHUNK = f"""
update {_ALL_CHUNKS} set transaction_snapshot = %(snapshot)s, generation = %(generation)s
where subscription_guid = %(guid)s and article_id = %(article)s and chunk = %(chunk)s
"""
_TYPES = """
select attname::text, atttypid::bigint from pg_attribute where attrelid = to_regclass(%s) and attname = any(%s)
"""
_FORGET_CHUNKS = f"""
update {_ALL_CHUNKS} set transaction_snapshot = null, generation = null
where subscription_guid = %s and article_id = %s
"""
_BEGIN_HAND_OVER = f"update {_SUBSCRIPTIONS} set snapshot_status = %s, snapshot_end = %s where subscription_guid = %s"
_DUE = f"""
select from {_SUBSCRIPTIONS}
where subscription_guid = %s and snapshot_status = %s and transaction_timestamp >= snapshot_end for update
"""
_STATEMENTS = f'select statement from {SCHEMA}."MSsnapshot_statements" where subscription_guid = %s order by place'
_FORGET = (
    f'delete from {SCHEMA}."MSsnapshot_statements" where subscription_guid = %s',
    f"delete from {_ALL_CHUNKS} where subscription_guid = %s",
    f"""
    update {_SUBSCRIPTIONS} set snapshot_status = '{SnapshotStatus.DELIVERED}', snapshot_end = null
    where subscription_guid = %s
    """,
)


class ChunkStaging:
    """Rows for a table of another role, which COPY cannot write with that role's rights.

    They are copied to a temporary table as texts, and inserted from there by the function of the table's writer.
    """

    def __init__(
        self, connection: _Connection, article: Article, written: WrittenTables, watch: CharacterWatch
    ) -> None:
        self._connection = connection
        self._article = article
        self._written = written
        self._watch = watch
        self._waiting: list[bytes] = []
        self._size = 0
        columns = ", ".join(f"c{index} text" for index in range(1, len(article.columns) + 1))
        inserting, values = statements.copying(article, _STAGED)
        self._insert = f"select {written.writer_of(article).executing}(%s, {values})", inserting
        connection.prepare_threshold = None
        with translated():
            connection.execute(sql.SQL(f"create temporary table {_STAGED.split('.')[1]} ({columns})"))

    def write(self, block: bytes) -> None:
        """Take a piece of COPY's text, which may end within a row."""
        self._watch.look(block)
        self._waiting.append(block)
        self._size += len(block)
        if self._size >= _STAGED_AT_ONCE:
            # Each COPY has whole rows; the beginning of the next row is sent with the following block.
            whole, newline, rest = b"".join(self._waiting).rpartition(b"\n")
            self._insert_rows(whole + newline)
            self._waiting, self._size = [rest], len(rest)

    def end(self) -> None:
        """Insert the last rows."""
        self._insert_rows(b"".join(self._waiting))

    def _insert_rows(self, rows: bytes) -> None:
        if not rows:
            return
        with translated():
            refused = begin_copy_in(self._connection, f"copy {_STAGED} from stdin")
        _require(self._article, refused)
        with translated():
            put_copy_data(self._connection, rows)
        _end_copy(self._connection, self._article)
        query, inserting = self._insert
        try:
            with translated():
                self._connection.execute(sql.SQL(query), [inserting])
                self._connection.execute(sql.SQL(self._written.pinning))
                self._connection.execute(f"truncate {_STAGED}")
        except UnexpectedSqlError as error:
            raise CopyRefused(self._article.qualified_name, error.sqlstate, error.reason) from error


class CharacterWatch:
    """Searches blocks of whole rows, in COPY format, for the first character that an encoding lacks.

    `codec` is Python's name of the encoding; None if it has every character: then nothing is searched.
    """

    def __init__(self, article: Article, codec: str | None) -> None:
        self._article = article
        self._codec = codec
        self._found: str | None = None

    def look(self, block: bytes) -> None:
        """Search one more block."""
        if self._codec is None or self._found is not None:
            return
        text = block.decode()
        try:
            text.encode(self._codec)
        except UnicodeEncodeError as error:
            self._found = self._describe(text, error.start)

    def describe(self) -> str:
        """Return the column and row of the character; empty if none was found."""
        return f", in {self._found}" if self._found is not None else ""

    def _describe(self, text: str, at: int) -> str:
        begin = text.rfind("\n", 0, at) + 1
        names = [column.name for column in self._article.columns]
        values = dict(zip(names, text[begin:].partition("\n")[0].split("\t"), strict=False))
        key = ", ".join(f"{column.name} = {values.get(column.name)}" for column in self._article.key_columns)
        of_row = f" of the row with key {key}" if key else ""
        return f"column {names[text.count(chr(9), begin, at)]}{of_row} (U+{ord(text[at]):04X})"
