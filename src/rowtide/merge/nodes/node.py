"""The interface of a database to merge: one class per database, one connection per synchronisation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from sqlalchemy import Connection, Select

from rowtide.databases.kinds import DatabaseKind
from rowtide.merge.articles import Article, ArticleColumn, JoinFilter, Subscription
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.nodes.table_changes import TableChange
from rowtide.merge.nodes.table_parts import Omission, Part
from rowtide.merge.partitions.candidates import Candidate
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.links import Link
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import Known, Row, RowChange, Write
from rowtide.merge.versions.identity_ranges import IdentityRange, Numbering


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: the columns and the table that it references, named as in the node's catalogue.

    `on_delete` and `on_update` are its actions, as SQL.
    """

    columns: tuple[str, ...]
    referenced_table: str
    referenced_columns: tuple[str, ...]
    on_delete: str = "no action"
    on_update: str = "no action"


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as the node's catalogue describes it, for publishing.

    `name` is the exact schema and table name; `unique_keys` are the columns of each unique key but the primary key;
    `references` name tables by their `name`; `parts` are what else the table has; `statement` creates it in a database
    of the same kind, where that keeps it as a text. `table_id` is the catalogue's, empty where it has none;
    `fingerprint` is that of `Examination`.
    """

    kind: DatabaseKind
    name: str
    schema: str
    table: str
    columns: tuple[ArticleColumn, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    references: tuple[Reference, ...]
    parts: tuple[Part, ...] = ()
    statement: str | None = None
    table_id: str = ""
    fingerprint: str = ""


class TableAlteration(Protocol):
    """Alters a table in two steps; in between, the hub's values are written into new and retyped columns.

    `adopted` are new columns that the table had already, `defaulted` those whose rows have got the default since
    `begin`; `omissions` are the parts that the database does not have. Each
    raises `SchemaChangeRefused`. The user's triggers do not fire; ours are gone.
    """

    @property
    def adopted(self) -> Collection[str]: ...

    @property
    def defaulted(self) -> Collection[str]: ...

    @property
    def omissions(self) -> Sequence[Omission]: ...

    def begin(self) -> None:
        """Rename, drop, retype and add columns; new ones may be null yet."""

    def finish(self) -> None:
        """Give columns their defaults and constraints, and the table its other parts."""


def say_damage(columns: Sequence[str], triggers: Sequence[str], partitions: Sequence[str] = ()) -> str | None:
    """Describe the missing columns and triggers of a table and its partitions; None if nothing is missing."""
    missing = [f"column {name} is missing" for name in columns] + [f"trigger {name} is missing" for name in triggers]
    return ", ".join(missing + [f"triggers of partition {name} are missing" for name in partitions]) or None


@dataclass(frozen=True, slots=True)
class Request:
    """What a node is to send to another, which has everything up to generation `since`.

    `again` are rows that it requests once more, `filters` those of its partition, both by the article's nickname. With
    `names_parents`, each row comes with the rows that its foreign keys reference.
    """

    articles: Sequence[Article]
    since: int
    destination: int
    again: Mapping[int, Sequence[str]]
    filters: Mapping[int, RowFilter]
    names_parents: bool = field(default=False, kw_only=True)

    @property
    def parents(self) -> dict[int, Article]:
        """The articles whose rows foreign keys are resolved to, by nickname."""
        return {article.nickname: article for article in self.articles} if self.names_parents else {}


class Sending(Protocol):
    """What a node sends on a request, read in the snapshot of the generation closed for it; each part once.

    A tombstone counts only while the row is absent, a row's metadata only while it is present. Changes that came from
    the destination are left out.
    """

    @property
    def generation(self) -> int:
        """The generation closed last: everything sent belongs to it or to an earlier one."""

    @property
    def blocks_writers(self) -> bool:
        """Whether the node's programs cannot write until everything is read."""

    def upserts(self, article: Article) -> Iterator[Sequence[RowChange]]:
        """Yield batches of the rows of an unfiltered article that were inserted or updated."""

    def deletes(self, article: Article) -> Iterator[Sequence[RowChange]]:
        """Yield batches of tombstones in the same way."""

    def asked(self, article: Article) -> Sequence[RowChange]:
        """Return the rows or tombstones of an unfiltered article that are requested again; unknown ones are left out.

        A row without metadata has change number 0, which every node that has the row includes.
        """

    def entering(self, article: Article) -> Iterator[Sequence[tuple[Candidate, RowChange | None]]]:
        """Yield batches of rows of a filtered article that may have entered or left the destination's partition.

        Rows to be sent again are included. Each comes with its row or tombstone, None if nothing is known of it.
        """


class Enumeration(Protocol):
    """The changes that a node has to send, read in the snapshot of the generation closed for it.

    A tombstone counts only while the row is absent, a row's metadata only while it is present.
    """

    @property
    def generation(self) -> int:
        """The generation closed last: everything sent belongs to it or to an earlier one."""

    def naming_parents(self, parents: Mapping[int, Article]) -> Enumeration:
        """Return what reads the same with the rows that foreign keys to these articles, by nickname, reference."""

    def upserts(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        """Yield batches of the rows inserted or updated after a generation.

        Changes that came from the destination are left out.
        """

    def deletes(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        """Yield batches of tombstones in the same way."""

    def again(self, article: Article, rowguids: Sequence[str]) -> Sequence[RowChange]:
        """Return rows or tombstones by their rowguids; unknown rowguids are left out.

        A row without metadata has change number 0, which every node that has the row includes.
        """

    def candidates(
        self, row_filter: RowFilter, since: int, destination: int, asked: Sequence[str]
    ) -> Iterator[Sequence[Candidate]]:
        """Yield batches of rows of a filtered article that may have entered or left the destination's partition.

        Rows to be sent again are included.
        """

    def members(self, row_filter: RowFilter) -> Iterator[Sequence[tuple[str, tuple[str, ...]]]]:
        """Yield batches of the rowguids of all rows of an article in a partition, each with `Candidate.parents`."""

    def rows(
        self, article: Article, row_filter: RowFilter | None = None, where: str | None = None
    ) -> Iterator[Sequence[tuple[str, Row]]]:
        """Yield batches of all rows of an article, or of those in a partition, each with its rowguid; by rowguid.

        `where` is a condition of their columns in the database's SQL.
        """

    def included(self, article: Article) -> bytes:
        """Return the lineage of rows without metadata: what was purged, and all of this node's own changes."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row was not written: `holder` is the local row with its primary key, `is_locked`: it may be taken later."""

    error: RowsRefused
    holder: str | None
    is_locked: bool = field(default=False, kw_only=True)


class Node(Protocol):
    """A database that takes part in a merge, over its own connection.

    Outside of `transaction` each statement is its own transaction. `connection` is for the tables of `definitions`,
    which are the same on every database.
    """

    @property
    def connection(self) -> Connection: ...

    @property
    def tables(self) -> NodeTables:
        """Creates, alters and describes tables on this node."""

    @property
    def tries_together(self) -> bool:
        """Whether a retry by `write_each` tries rows together first; else that takes a transaction of its own."""

    @property
    def rebuilt(self) -> RebuiltTables:
        """Works on tables that a program made or rebuilt."""

    def read_together(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        """Return the rows of queries of the tables of `definitions`, in one round trip; none without such tables.

        `values` are those of their parameters, by name. A query that is made once is compiled once; none has a list of
        values that is expanded. Columns have the types of Python that the driver gives.
        """

    def read_ahead(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        """Return the rows of queries as `read_together` does.

        A server is asked, in the same round trip, what the exchange that follows needs to know of all tables, and of
        its generations from the one that the other end has, the value `since_generation`.
        """

    def require_session(self, subscription: Subscription) -> None:
        """Raise `SessionReplaced` if another synchronisation of a subscription has begun, within a transaction.

        A server's answer comes with the next one that is waited for.
        """

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""

    def failing(self) -> AbstractContextManager[None]:
        """Raise our errors for the database's, whatever the statement."""

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        """Within, take steps of other work while a server is waited for; a step returns whether there is another one.

        A step does not use this node, and does not raise.
        """

    def transaction(self, *, is_durable: bool = True) -> AbstractContextManager[None]:
        """Write in one transaction, committed at the end, rolled back on an error.

        Isolation is snapshot: raises `NodeBusy` if another session changed the same rows first, or holds a lock too
        long. If it is not durable, a machine failure may undo it until the next durable transaction commits.
        """

    def rehearsing(self, statements: list[str]) -> AbstractContextManager[None]:
        """Roll back at the end; the statements that would alter tables are appended to a list."""

    def trying(self) -> AbstractContextManager[None]:
        """Open a transaction, with the log applied, that is rolled back at the end; `transaction` is a part of it."""

    def enumerating(self) -> AbstractContextManager[Enumeration]:
        """Close the open generation, if it has changes, and yield its reader (SQL Server: sp_MSmakegeneration).

        Not within a transaction. Writers are not blocked; on SQLite they wait while the generation is closed.
        """

    def previewing(self) -> AbstractContextManager[Enumeration]:
        """Yield a reader as `enumerating` does, and write nothing: the number of the open generation is prospective.

        Not within a transaction.
        """

    def sending(self, request: Request) -> AbstractContextManager[Sending]:
        """Close the open generation as `enumerating` does, and yield what is to be sent.

        Not within a transaction. A server does this on the node's own connection, in one round trip and one for each
        few thousand rows.
        """

    def apply_log(self) -> None:
        """Apply the log of users' changes to the metadata of rows, in its own transaction.

        Not within a transaction; `read_known` applies what is logged later. Raises `NodeBusy`.
        """

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Known]:
        """Return the metadata of rows (SQL Server: sp_MSgetmetadata), within a transaction.

        A row that this node never had is left out.
        """

    def read_known_of(self, asked: Sequence[tuple[Article, Sequence[str]]]) -> list[Mapping[str, Known]]:
        """Return what `read_known` does for rows of several articles, in one round trip."""

    def read_known_and_rows(
        self, asked: Sequence[tuple[Article, Sequence[str]]], rows: Sequence[tuple[Article, Sequence[str]]]
    ) -> tuple[list[Mapping[str, Known]], list[Mapping[str, Row]]]:
        """Return what `read_known_of` does, and of other articles' rows what `read_rows` does, in one round trip."""

    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        """Return those of the rows that exist."""

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        """Return an article's rows that have one of some keys, none of them with NULL, in these columns."""

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
        """Let programs get numbers of ranges, within a transaction; one that is in the primary one goes on there."""

    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        """Give rows new values of a key of one column, with the rows that reference them, within a transaction.

        They are logged as changes of this node. Raises `RowsRefused`; the transaction continues.
        """

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        """Return the function's rows, for rows by rowguid and the subscriber's versions of them; None where it is NULL.

        The function is that of the article's resolver. Within a transaction. Raises `HandlerFailed`.
        """

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        """Return the rowguid of the local row with the same primary key as a received row."""

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

    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguid of each row's parent as the tables have it now; rows without one are left out."""

    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguids of the rows that have any of some parents, each with its parent's."""

    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        """Return for each row, as it travels, the rowguid of the local row that its foreign key references, if any."""

    def read_buried(self, article: Article, since: int, source: int) -> Sequence[str]:
        """Return the rowguids of tombstones after a generation that came not from a node.

        Not within a transaction; the log is to be applied before.
        """

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        """Return the distinct lineages of a table's metadata up to a generation, without this node's own changes."""

    def forget(self, article: Article, generation: int, most: int) -> int:
        """Remove metadata of rows up to a generation, within a transaction; return how many."""

    def redefine(self, before: Article, after: Article) -> None:
        """Apply the log by one definition of an article, and move the metadata of rows to another's columns.

        Within a transaction. Where column tracking begins, all columns of changed rows count as changed.
        """

    def forget_tables(self) -> None:
        """Forget what this session knows of articles' tables; not within a transaction."""

    def altering(self) -> AbstractContextManager[None]:
        """Write in one transaction in which tables may be altered; see `transaction`."""

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        """Log as this node's changes the rows that have values in any of some columns, within a transaction.

        Rows in `without` are left out.
        """

    def log_update(self, article: Article, rowguid: str) -> bool:
        """Log a row as updated by this node, within a transaction; return whether the row exists."""

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        """Write values into columns of rows that exist, within `altering`; nothing is logged.

        `article` has these columns alone.
        """

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        """Store the values that an additive column was sent with, by rowguid, within a transaction; see `bases`."""

    def defer_constraints(self) -> None:
        """Defer constraint checks to the end of the transaction, where constraints allow that."""


@dataclass(frozen=True, slots=True)
class Original:
    """The database that a node was copied or moved from; `is_here`: on the same server."""

    copy: str
    description: str
    is_here: bool


@dataclass(frozen=True, slots=True)
class Examination:
    """Whether a node and its tables are as they were left: `damages` by the article's nickname, if there are any.

    `is_recorded`: the node's place is recorded already. `fingerprints` change whenever a table is altered; `unsent` are
    columns of tables that the articles do not have and that no system or expression fills.
    """

    original: Original | None
    damages: Mapping[int, str]
    is_recorded: bool
    fingerprints: Mapping[int, str] = field(default_factory=dict)
    unsent: Mapping[int, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnsentColumn:
    """A column that a node's table has, and its article has not."""

    table: str
    column: str
    node: str

    def __str__(self) -> str:
        return f"column {self.column} of {self.table} at {self.node}"


class NodeTables(Protocol):
    """Tables of a node: its own metadata, and the merged tables."""

    def prepare(self) -> None:
        """Create the metadata tables that do not exist."""

    def is_prepared(self) -> bool:
        """Whether the metadata tables exist; those of an earlier build are completed. Raises `NodeOutdated`."""

    def read_documented(
        self, name: str, rowguids: Sequence[str] | None = None
    ) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
        """Return the columns of a documented table, and its rows, or those of some rowguids; see `documented`.

        A rowguid is a text.
        """

    def renew_views(self) -> None:
        """Make the documented tables say what publications, articles and filters now are."""

    def find_original(self) -> Original | None:
        """Return the database in which the metadata was created, if it is another one that may still exist."""

    def examine(self, articles: Sequence[Article]) -> Examination:
        """Return what `find_original` and `find_damage` say, and what the catalogue has, in one round trip."""

    def lock(self, article: Article) -> None:
        """Keep others from writing to a table until the transaction ends; before anything else in it."""

    def find_renames(self, article: Article, description: TableDescription) -> Mapping[str, str]:
        """Return the new names of an article's columns that were renamed here, by the old ones."""

    def run_alter(self, article: Article, clause: str) -> None:
        """Run `alter table` for an article's table with a clause of the user's, within a transaction.

        Our triggers may be gone after it. Raises `TableNotAltered`.
        """

    def alter(self, change: TableChange) -> TableAlteration:
        """Return what alters a table, within `altering`. Raises `ColumnsCollide`."""

    def record_place(self) -> None:
        """Record that the metadata belongs to this database; not within a transaction."""

    def remove(self) -> None:
        """Remove the metadata tables, once no table is merged here."""

    def describe(self, name: str) -> TableDescription:
        """Return a table by the name that a user gives. Raises `ArticleTableNotFound`."""

    def describe_all(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        """Return articles' tables, in few round trips. Raises `ArticleTableNotFound`."""

    def find_damage(self, article: Article) -> str | None:
        """Describe the missing columns or triggers of an article's table; None if nothing is missing."""

    def take_in_partitions(self, article: Article) -> bool:
        """Track the partitions attached to an article's table since it was tracked, with their rows as inserts.

        Returns whether there were any. Not within a transaction. Raises `LockNotObtained`.
        """

    def is_there(self, article: Article) -> bool:
        """Whether an article's table exists here."""

    def make(
        self,
        tables: Sequence[tuple[Article, TableDescription]],
        *,
        present: Sequence[Article] = (),
        refers_later: bool = False,
    ) -> Sequence[Omission]:
        """Create the tables of articles, parents first, with their keys, parts, and the foreign keys between them.

        Tables of `present` exist, and are only referenced; with `refers_later`, `refer` follows. Return the parts that
        this database does not have. Within a transaction, in which `load` fills the tables; foreign keys may be created
        or checked at its end. Raises `UnsupportedColumnType`.
        """

    def refer(self, tables: Sequence[tuple[Article, TableDescription]], *, present: Sequence[Article] = ()) -> None:
        """Create the foreign keys of tables that are filled; rows may reference others that are still to come."""

    def load(self, article: Article, rows: Iterable[Sequence[tuple[str, Row]]]) -> int:
        """Fill a table that was just created, within a transaction; return the number of rows."""

    def clear(self, article: Article) -> None:
        """Delete all rows of a table, within a transaction."""

    def check_filter(self, article: Article, condition: str) -> None:
        """Raise `FilterRefused` if the database rejects an article's row filter, given as SQL."""

    def check_join(self, child: Article, join: JoinFilter, parent: Article, condition: str) -> None:
        """Raise `FilterRefused` if the database rejects a join filter, given as SQL."""

    def check_procedure(self, article: Article) -> None:
        """Raise `ResolverRefused` unless the function that an article's resolver names can decide its conflicts."""

    def has_rowguid(self, article: Article) -> bool:
        """Whether a table has a usable column `rowguid`: not null, with its own unique key."""

    def add_rowguid(self, article: Article) -> None:
        """Add the column `rowguid` if the table lacks it; not within a transaction.

        A repeat completes an interrupted call.
        """

    def drop_rowguid(self, article: Article) -> None:
        """Drop the column that `add_rowguid` added, within a transaction."""

    def track(self, article: Article) -> None:
        """Create the triggers MSmerge_ins_, MSmerge_upd_, MSmerge_del_ of an article, within a transaction."""

    def untrack(self, article: Article) -> None:
        """Drop an article's triggers and remove the metadata of its rows, within a transaction."""


class RebuiltTables(Protocol):
    """Tables that a program made or rebuilt: their rows may not have a rowguid, and changes were not tracked."""

    def find_misfits(self, article: Article) -> Sequence[str]:
        """Describe why a table cannot take an article's rows: missing columns, another key, other types."""

    def rewriting(self, article: Article) -> AbstractContextManager[None]:
        """Give a table a usable column `rowguid`, whose values may be set, and drop our triggers; in a transaction.

        Rows without a value, or with one that another row has, get a new one. Programs' triggers do not fire. Raises
        `RowguidUnfit`.
        """

    def rows(self, article: Article) -> Iterator[Sequence[tuple[str, Row]]]:
        """Yield batches of all rows with their rowguids, within a transaction."""

    def set_rowguids(self, article: Article, rowguids: Mapping[str, str]) -> None:
        """Replace rowguids, earlier to later ones, in `rewriting`."""

    def log(
        self, article: Article, kind: Logged, rowguids: Collection[str], columns: frozenset[int] | None = None
    ) -> None:
        """Log changes as the triggers do, within a transaction: of all columns, or of those at some positions."""

    def is_logged(self) -> bool:
        """Whether there are changes that no generation has."""
