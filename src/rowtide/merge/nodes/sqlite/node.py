"""A SQLite file as a node of a merge."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Self

from sqlalchemy import Connection, Select
from sqlalchemy.exc import DBAPIError

from rowtide.core.failpoints import failpoint
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import (
    FileLimits,
    begin_immediate,
    failure_of,
    open_connection,
    path_of,
    rehearsal,
)
from rowtide.databases.sqlite.errors import FileBusy, find_fault, is_busy
from rowtide.databases.sqlite.guarding import writing
from rowtide.databases.sqlite.keys import quote
from rowtide.databases.urls import DatabaseUrl
from rowtide.merge.articles import ROWGUID, Article, DeviceLimits, Subscription
from rowtide.merge.catalogue import list_merged, list_publications, list_purged, read_nickname, read_purged
from rowtide.merge.errors.nodes import FileHasReaders, HandlerFailed, NodeBusy
from rowtide.merge.errors.rows import NOT_UTF_8, RowOutsidePartition, RowsRefused
from rowtide.merge.nodes.roles.rows import Holder, Reach
from rowtide.merge.nodes.roles.writing import Refusal, TemporaryValues, temporary_values
from rowtide.merge.nodes.sending import ChangesRequest, EnumeratedSending
from rowtide.merge.nodes.sqlite.exact_numbers import forget_exact_of_absent
from rowtide.merge.nodes.sqlite.key_moves import (
    DELETING,
    find_referenced,
    list_referrers,
    move_received,
    renumber,
)
from rowtide.merge.nodes.sqlite.metadata import completing, row_metadata
from rowtide.merge.nodes.sqlite.metadata.replaced import is_settled, settle
from rowtide.merge.nodes.sqlite.metadata.row_metadata import (
    FILTERING,
    READER,
    apply_beside,
    apply_log,
    decode,
    is_logged,
    log_own,
    log_update,
    move_columns_of,
    read_asked,
    table_of,
)
from rowtide.merge.nodes.sqlite.metadata.system_tables import AGENT, CONTENTS
from rowtide.merge.nodes.sqlite.rows import (
    find_acting,
    find_clearing,
    find_key_holder,
    find_parents,
    find_reach,
    has_dependents,
    has_followers,
    highest_key,
    pass_on,
    read_buried,
    read_children,
    read_numbering,
    read_parents,
    read_referencing,
    read_rows,
    set_numbering,
)
from rowtide.merge.nodes.sqlite.tables.making import fill
from rowtide.merge.nodes.sqlite.tables.rebuilt import SqliteRebuiltTables
from rowtide.merge.nodes.sqlite.tables.tables import NO_FUNCTIONS, SqliteTables
from rowtide.merge.nodes.sqlite.writing import SqliteEnumeration, close_generation, write, write_temporary
from rowtide.merge.partitions.belonging import ROW, Link, belongs
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.progress import require_session
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write
from rowtide.merge.versions.composition import Composer
from rowtide.merge.versions.identity_ranges import IdentityRange, Numbering
from rowtide.merge.versions.row_metadata import MetadataReader

_CACHE = "pragma cache_size = -65536"
"""Cache size in KiB: metadata and rows are read and written by rowguid, at random places of the file."""
_OF_ROWS = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_ERROR)
"""SQLite's error codes about a row, not about the file."""
_OWN_IS_GONE = re.compile(r"no such (table|index): (main\.)?(MSmerge_|sysmerge|__sys)")
"""What SQLite says once a program has dropped a part of the metadata."""
_FOREIGN_KEY = ("SQLITE_CONSTRAINT_FOREIGNKEY", "FOREIGN KEY constraint failed")
"""The name and the text of SQLite's error for a foreign key."""


def open_node(url: str | DatabaseUrl, limits: DeviceLimits | None = None) -> SqliteNode:
    """Open the file that a URL names. Raises `FileNotOpened`, `SqliteTooOld`."""
    of_file = None if limits is None else FileLimits(limits.statement_s, limits.row_bytes)
    return SqliteNode(open_connection(url, of_file), limits)


class SqliteNode:
    """See `Node`. Foreign keys are enforced for merged rows, even if the file's other programs do not enable them."""

    tries_together = False
    numbers_above_all = True

    def __init__(self, connection: Connection, limits: DeviceLimits | None = None) -> None:
        self.connection = connection
        self.limits = limits
        self._session = _session_of(self.connection)
        self._session.text_factory = decode
        self._session.execute("pragma foreign_keys = on")
        self._session.execute(_CACHE)
        self.path = path_of(self._session)
        self.tables = SqliteTables(self.connection, self._session, self.transaction)
        self.rebuilt = SqliteRebuiltTables(self._session)
        self._spared: Mapping[str, int] = {}
        try:
            if completing.is_there(self._session):
                self.tables.accept()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; an uncommitted transaction is rolled back."""
        self._session.rollback()
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def read_together(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        if not self.tables.is_prepared():
            return [[] for _ in statements]
        return [[dict(row) for row in self.connection.execute(each, values).mappings()] for each in statements]

    def read_ahead(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        return self.read_together(*statements, values=values)

    def require_session(self, subscription: Subscription) -> None:
        require_session(self.connection, subscription)

    @contextmanager
    def failing(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._file_failure(error) from error
        except DBAPIError as error:
            if not isinstance(error.orig, sqlite3.Error):
                raise
            raise self._file_failure(error.orig) from error

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:  # noqa: ARG002 - no server
        return nullcontext()

    @contextmanager
    def transaction(
        self,
        *,
        is_durable: bool = True,
        is_repeatable: bool = False,  # noqa: ARG002 - nothing is sent
    ) -> Iterator[None]:
        self.tables.format.require_writable()
        if self._session.in_transaction:
            # A part of it, as on PostgreSQL.
            with self._savepoint("merge_part"):
                yield
            return
        # Without a write-ahead log it is the commits that keep the file whole.
        is_synced = is_durable or not clock.has_own_snapshots(self._session)
        self._session.execute(f"pragma synchronous = {'full' if is_synced else 'normal'}")
        try:
            begin_immediate(self._session)
        except FileBusy as error:
            raise NodeBusy(self.path, str(error)) from error
        try:
            with writing(self._session, AGENT):
                yield
            failpoint("sqlite_merge_commit.before")
            self._commit()
        except sqlite3.IntegrityError as error:
            # A deferred foreign key.
            self._session.rollback()
            raise self._failure(error, "the transaction") from error
        except sqlite3.Error as error:
            self._session.rollback()
            raise self._file_failure(error) from error
        except BaseException:
            self._session.rollback()
            raise
        failpoint("sqlite_merge_commit.after")

    def _commit(self) -> None:
        try:
            self._session.commit()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or clock.has_own_snapshots(self._session):
                raise
            raise FileHasReaders(self.path, str(error)) from error

    @contextmanager
    def rehearsing(self, statements: list[str]) -> Iterator[None]:
        try:
            with rehearsal(self._session, statements), writing(self._session, AGENT):
                yield
        except FileBusy as error:
            raise NodeBusy(self.path, str(error)) from error

    @contextmanager
    def trying(self) -> Iterator[None]:
        with self.rehearsing([]):
            self._apply()
            yield

    @contextmanager
    def enumerating(self) -> Iterator[SqliteEnumeration]:
        own = read_nickname(self.connection)
        with self._closing(own) as (reader, generation):
            merged = list_merged(self.connection)
            purged = list_purged(self.connection)
            is_beside = is_logged(reader)
            reader.execute(_CACHE)
            reader.text_factory = decode
            if is_beside:
                apply_beside(reader, merged, generation)
            yield SqliteEnumeration(reader, own, generation, purged, self.failing, is_beside=is_beside)

    @contextmanager
    def previewing(self) -> Iterator[SqliteEnumeration]:
        own = read_nickname(self.connection)
        with clock.snapshot(self._session) as reader, _undone(reader):
            merged = list_merged(self.connection)
            purged = list_purged(self.connection)
            is_beside, generation = is_logged(reader), clock.read(reader)
            reader.execute(_CACHE)
            reader.text_factory = decode
            if is_beside:
                apply_beside(reader, merged, generation)
            yield SqliteEnumeration(reader, own, generation, purged, self.failing, is_beside=is_beside)

    @contextmanager
    def sending(self, request: ChangesRequest) -> Iterator[EnumeratedSending]:
        with self.enumerating() as enumeration:
            blocks_writers = enumeration.session is self._session
            yield EnumeratedSending(enumeration.naming_parents(request.parents), request, blocks_writers)

    def apply_log(self) -> None:
        if is_logged(self._session):
            with self.transaction(is_durable=False):
                self._apply()

    def _apply(self) -> None:
        if is_logged(self._session):
            apply_log(self._session, list_merged(self.connection))

    def read_known(
        self, article: Article, rowguids: Sequence[str], subscriber: int | None = None
    ) -> Mapping[str, KnownVersion]:
        self._apply()
        composer = Composer(article, read_nickname(self.connection), read_purged(self.connection, article.nickname))
        reading = MetadataReader(article, composer, READER, self.path, subscriber=subscriber)
        return reading.known(read_asked(self._session, reading.select_known(), rowguids))

    def read_known_of(self, asked: Sequence[tuple[Article, Sequence[str]]]) -> list[Mapping[str, KnownVersion]]:
        return [self.read_known(article, rowguids) for article, rowguids in asked]

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        rows: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        known = [
            self.read_known(article, rowguids, None if holder is None else holder.of(article))
            for article, rowguids in asked
        ]
        return known, [self.read_rows(article, rowguids) for article, rowguids in rows]

    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        return read_rows(self._session, article, rowguids)

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        return read_referencing(self._session, article, columns, keys)

    def next_keys(self, article: Article, count: int) -> Sequence[str]:
        highest = highest_key(self._session, article)
        return [str(highest + number) for number in range(1, count + 1)]

    def read_numbering(self, articles: Sequence[Article]) -> Mapping[int, Numbering]:
        found = {article.nickname: read_numbering(self._session, article) for article in articles}
        return {nickname: Numbering(last, highest, follows_highest=True) for nickname, (last, highest) in found.items()}

    def set_numbering(self, article: Article, owned: IdentityRange) -> None:
        set_numbering(self._session, article, owned)

    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        self._attempt(article, partial(renumber, self._session, article, keys))

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        raise HandlerFailed(article.resolver, subscriber, f"{len(pairs)} rows of {article.name}", NO_FUNCTIONS)

    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        listed = f"{ROWGUID} in (select value from json_each(?)) and {belongs(row_filter, FILTERING)}"
        query = f"select {ROWGUID} from {table_of(row_filter.article)} as {ROW} where {listed}"
        return {rowguid for (rowguid,) in read_asked(self._session, query, rowguids)}

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        return find_key_holder(self._session, article, row)

    def spare(self, articles: Collection[Article]) -> None:
        self._spared = {article.file_table.lower(): article.nickname for article in articles}

    def write(self, article: Article, writes: Sequence[Write]) -> None:
        if not writes:
            return
        if self._would_act(article, writes):
            raise RowsRefused(article.name, *_FOREIGN_KEY)
        self._attempt(article, lambda: write(self._session, article, writes))

    def _would_act(self, article: Article, writes: Sequence[Write]) -> bool:
        """Whether foreign keys' actions would change rows that no delete and no new key is to change."""
        is_publisher = self._is_publisher()
        if is_publisher and not self._spared:
            return False
        spared = self._spared.keys() if is_publisher else None
        deleted = [one.rowguid for one in writes if one.row is None and one.is_live]
        if deleted and has_dependents(self._session, article, deleted, spared):
            return True
        return has_followers(self._session, article, writes, spared)

    def _is_publisher(self) -> bool:
        """Whether foreign keys' actions are those that the publication's tables had before."""
        own = read_nickname(self.connection)
        return any(publication.publisher == own for publication in list_publications(self.connection))

    def write_together(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
    ) -> None:
        self.defer_constraints()
        if not self._is_publisher():
            self._apply()
            parts = [(article, pass_on(self._session, article, writes)) for article, writes in parts]
        for article, writes in parts:
            self._move(article, writes)
            self._attempt(article, partial(write_temporary, self._session, article, self._temporary(article, writes)))
            self.write(article, writes)
        for article, writes in parts:
            self._require_inside(article, writes, bounds)

    def receive(self, parts: Sequence[tuple[Article, Sequence[RowChange]]]) -> None:
        """No effect: nothing is sent."""

    def _temporary(self, article: Article, writes: Sequence[Write]) -> Mapping[str, TemporaryValues]:
        """Return temporary values of the unique columns that change, by row."""
        updated = {one.rowguid: one.row for one in writes if one.row is not None and one.is_live}
        values = temporary_values(article, list(updated), find_referenced(self._session, article))
        found: dict[str, TemporaryValues] = {}
        for rowguid, row in self.read_rows(article, list(updated)).items():
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
        found = [dict(self._halve(article, writes, bounds)) if writes else {} for article, writes in early]
        left = [
            (place, article, one)
            for place, (article, writes) in enumerate(parts)
            for one in writes
            if late is not None and (one.rowguid in late or one.rowguid in found[place])
        ]
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
            with self._savepoint("merge_half"):
                if moves_keys or self._takes_along(article):
                    self._move(article, writes)
                self.write(article, writes)
                self._require_inside(article, writes, bounds)
        except RowsRefused as error:
            if len(writes) > 1:
                middle = len(writes) // 2
                yield from self._halve(article, writes[:middle], bounds)
                yield from self._halve(article, writes[middle:], bounds)
                return
            row = writes[0].row
            yield writes[0].rowguid, Refusal(error, None if row is None else self.find_key_holder(article, row))

    def _takes_along(self, article: Article) -> bool:
        """Whether rows would follow a received key by a foreign key's action, and count as changes of a subscriber's.

        What followed it at the publisher arrives by itself.
        """
        following = list_referrers(self._session, article.file_table, DELETING, is_update=True)
        if not self._is_publisher():
            return any(following)
        return any(child.lower() in self._spared for child, _ in following)

    def _move(self, article: Article, writes: Sequence[Write]) -> None:
        is_publisher = self._is_publisher()
        moving = partial(
            move_received, self._session, article, writes, is_publisher=is_publisher, spared=self._spared.values()
        )
        self._attempt(article, moving)

    def _require_inside(self, article: Article, writes: Sequence[Write], bounds: Mapping[int, RowFilter]) -> None:
        """Raise `RowOutsidePartition` if rows that were written are outside of their bound."""
        if article.nickname in bounds:
            belonging = belongs(bounds[article.nickname], FILTERING)
            listed = f"{ROWGUID} in (select value from json_each(?)) and not {belonging}"
            query = f"select 1 from {table_of(article)} as {ROW} where {listed} limit 1"
            rowguids = [one.rowguid for one in writes if one.row is not None]
            if self._session.execute(query, (json.dumps(rowguids),)).fetchone() is not None:
                raise RowOutsidePartition.of(article.name)

    def _attempt(self, article: Article, work: Callable[[], None]) -> None:
        """Run in one savepoint: all or nothing."""
        try:
            with self._savepoint("merge_rows"):
                work()
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise self._failure(error, article.name) from error

    @contextmanager
    def _savepoint(self, name: str) -> Iterator[None]:
        """Undo what is done within if it raises."""
        self._session.execute(f"savepoint {name}")
        try:
            yield
        except BaseException:
            if self._session.in_transaction:
                self._session.execute(f"rollback to {name}")
            raise
        finally:
            if self._session.in_transaction:
                self._session.execute(f"release {name}")

    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        return read_parents(self._session, link, children)

    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        return read_children(self._session, link, parents)

    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        return find_parents(self._session, link, rows)

    def find_acting(self, articles: Sequence[Article]) -> Set[int]:
        return find_acting(self._session, articles)

    def find_clearing(self, article: Article) -> Set[str]:
        return find_clearing(self._session, article)

    def find_reach(
        self, article: Article, rowguids: Sequence[str], merged: Mapping[int, Article], *, is_update: bool = False
    ) -> Reach:
        return find_reach(self._session, article, rowguids, merged, is_update=is_update)

    def read_buried(self, article: Article, since: int, source: int) -> Sequence[str]:
        return read_buried(self._session, article.nickname, since, source)

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        return row_metadata.lineages(self._session, nickname, generation)

    def forget(self, article: Article, generation: int, most: int) -> int:
        forgotten = row_metadata.forget(self._session, article.nickname, generation, most)
        if not forgotten:
            forget_exact_of_absent(self._session, article)
        return forgotten

    def redefine(self, before: Article, after: Article) -> None:
        self._apply()
        if after.column_tracking:
            move_columns_of(self._session, before, after)

    def forget_tables(self) -> None:
        made = "select type, name from temp.sqlite_schema where name like 'rowtide%' and type in ('table', 'view')"
        for kind, name in self._session.execute(made).fetchall():
            self._session.execute(f"drop {kind} temp.{quote(name)}")

    @contextmanager
    def altering(self) -> Iterator[None]:
        # Dropping a table would delete its rows, with the actions that foreign keys have for that.
        self._session.execute("pragma foreign_keys = off")
        try:
            with self.transaction():
                yield
        finally:
            self._session.execute("pragma foreign_keys = on")

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        log_own(self._session, article, columns, without)

    def log_update(self, article: Article, rowguid: str) -> bool:
        return log_update(self._session, article, rowguid)

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        fill(self._session, article, rows)

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        self._apply()
        own = f"tablenick = {article.nickname} and rowguid = ? and bases is not null"
        values = [(value, rowguid) for rowguid, value in bases.items()]
        self._session.executemany(f"update {CONTENTS} set bases = ? where {own}", values)

    def defer_constraints(self) -> None:
        self._session.execute("pragma defer_foreign_keys = on")

    @contextmanager
    def _closing(self, own: int) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Close the generation, and yield a reader of exactly that state, with its number."""
        session = self._session
        if not clock.has_own_snapshots(session):
            with self.transaction():
                self._apply()
                yield session, close_generation(self.connection, session, own)
            return
        with ExitStack() as stack:
            with self._settled():
                self._apply()
                generation = close_generation(self.connection, session, own)
                # Opened while nobody else can write: it sees what is in the generation, and nothing later.
                reader = stack.enter_context(clock.snapshot(session))
            yield reader, generation

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Write in a transaction that begins with a settled log: a snapshot sees the rows that came back by that."""
        # What is committed a reader need not apply once more.
        self.apply_log()
        while True:
            with self.transaction():
                if is_settled(self._session):
                    yield
                    return
                settle(self._session, list_merged(self.connection))

    def _failure(self, error: Exception, subject: str) -> Exception:
        """Return our error for one raised while writing rows."""
        if isinstance(error, UnicodeError):
            return RowsRefused(subject, *NOT_UTF_8)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISMATCH)
        if code & 0xFF in _OF_ROWS and not _OWN_IS_GONE.match(str(error)):
            name, reason = getattr(error, "sqlite_errorname", type(error).__name__), " ".join(str(error).split())
            # `on delete restrict` is a trigger of SQLite's own.
            return RowsRefused(subject, _FOREIGN_KEY[0] if reason == _FOREIGN_KEY[1] else name, reason)
        return self._file_failure(error)

    def _file_failure(self, error: Exception) -> Exception:
        reason = " ".join(str(error).split())
        limited = failure_of(self._session, self.path, error)
        if limited is not None:
            return limited
        if isinstance(error, sqlite3.Error) and is_busy(error):
            return NodeBusy(self.path, reason)
        return find_fault(self.path, error)


@contextmanager
def _undone(session: sqlite3.Connection) -> Iterator[None]:
    """Read in one transaction, and roll it back."""
    if not session.in_transaction:
        session.execute("begin")
    try:
        yield
    finally:
        session.rollback()


def _session_of(connection: Connection) -> sqlite3.Connection:
    session = connection.connection.driver_connection
    assert isinstance(session, sqlite3.Connection)
    return session
