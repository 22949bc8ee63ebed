"""The tables of a node: how they are described, examined, made and altered, and the format of its metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from rowtide.core.formats import StoredFormat, StoreFormat, require
from rowtide.core.values import frozen
from rowtide.databases.source_table import RunAs
from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import Article, ArticleColumn, JoinFilter
from rowtide.merge.nodes.table_definitions import Omission, Part, TableChange
from rowtide.merge.versions.apply import Logged
from rowtide.merge.versions.changes import Row

if TYPE_CHECKING:
    from sqlalchemy import MetaData


class MetadataFormat:
    """The format that a node's metadata record, once it was read."""

    def __init__(self, own: StoreFormat) -> None:
        self._own = own
        self._found: tuple[str, StoredFormat | None] | None = None

    def accept(self, place: str, stored: StoredFormat | None) -> None:
        """Keep what was read. Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` if it may not be read."""
        require(StoreFormat.require_readable, self._own, place, stored)
        self._found = place, stored

    @property
    def is_known(self) -> bool:
        """Whether the format was read."""
        return self._found is not None

    @property
    def is_own(self) -> bool:
        """Whether the metadata that were read have this build's format."""
        return self._found is not None and self._found[1] == self._own.recorded

    def require_writable(self) -> None:
        """Raise as `accept` if the metadata that were read may not be written; nothing where there were none."""
        if self._found is not None:
            require(StoreFormat.require_writable, self._own, *self._found)


@frozen
class RewritingTrigger:
    """A trigger by which a row that arrives becomes another one; `exemption` is the condition that prevents it."""

    name: str
    table: str
    exemption: str

    def __str__(self) -> str:
        return (
            f"trigger {self.name} changes rows of {self.table} that arrive: they are uploaded again, and conflict, "
            f"without end where several nodes do so. Let it leave the agent's writes out: when ({self.exemption})"
        )


@frozen
class TableReference:
    """A foreign key: the columns and the table that it references, named as in the node's catalogue.

    `on_delete` and `on_update` are its actions, as SQL.
    """

    columns: tuple[str, ...]
    referenced_table: str
    referenced_columns: tuple[str, ...]
    on_delete: str = "no action"
    on_update: str = "no action"


@frozen
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
    references: tuple[TableReference, ...]
    parts: tuple[Part, ...] = ()
    statement: str | None = None
    table_id: str = ""
    fingerprint: str = ""


class TableAlteration(Protocol):
    """Alters a table in two steps; in between, the hub's values are written into new and retyped columns.

    `adopted` are new columns that the table had already, `defaulted` those whose rows got the default in `begin`;
    `omissions` are the parts that the database does not have. Each step raises `SchemaChangeRefused`. The user's
    triggers do not fire; ours are gone.
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


NOT_THERE = "it is not there"
"""What is said of a table that was dropped or renamed."""


def say_damage(columns: Sequence[str], triggers: Sequence[str], partitions: Sequence[str] = ()) -> str | None:
    """Describe the missing columns and triggers of a table and its partitions; None if nothing is missing."""
    missing = [f"column {name} is missing" for name in columns] + [f"trigger {name} is missing" for name in triggers]
    return ", ".join(missing + [f"triggers of partition {name} are missing" for name in partitions]) or None


@frozen
class Original:
    """The database that a node was copied or moved from; `is_here`: on the same server."""

    copy: str
    description: str
    is_here: bool


@frozen
class Examination:
    """Whether a node and its tables are as rowtide left them: `damages` by the article's nickname, if there are any.

    `is_recorded`: the node's place is recorded already. `fingerprints` change whenever a table is altered; `unsent` are
    columns of tables that the articles do not have and that no system or expression fills.
    """

    original: Original | None
    damages: Mapping[int, str]
    is_recorded: bool
    fingerprints: Mapping[int, str] = field(default_factory=dict)
    unsent: Mapping[int, Sequence[str]] = field(default_factory=dict)


@frozen
class UnsentColumn:
    """A column that a node's table has, and its article has not."""

    table: str
    column: str
    node: str

    def __str__(self) -> str:
        return f"column {self.column} of {self.table} at {self.node}"


class NodeMetadata(Protocol):
    """A node's own tables: its metadata, and the documented tables."""

    def prepare(self) -> None:
        """Create the metadata tables that do not exist."""

    def is_prepared(self) -> bool:
        """Whether the metadata tables exist; functions of another build are replaced. Raises `NodeOutdated`."""

    def add(self, later: MetaData) -> None:
        """Create tables that only some nodes need, within a transaction; they get the owner of the others."""

    def remove(self) -> None:
        """Remove the metadata tables, once no table is merged here."""

    def record_identity(self) -> None:
        """Record that the metadata belongs to this database; not within a transaction."""

    def find_original(self) -> Original | None:
        """Return the database in which the metadata was created, if it is another one that may still exist."""

    def read_documented(
        self, name: str, rowguids: Sequence[str] | None = None
    ) -> tuple[tuple[str, ...], Sequence[Sequence[object]]]:
        """Return the columns of a documented table, and its rows, or those of some rowguids; see `documented_views`.

        A rowguid is a text.
        """

    def renew_views(self) -> None:
        """Update the documented tables to the present publications, articles and filters."""


class TableExamination(Protocol):
    """What merged tables are, and whether they can be merged."""

    def is_there(self, article: Article) -> bool:
        """Whether an article's table exists here."""

    def describe(self, name: str) -> TableDescription:
        """Return a table by the name that a user gives. Raises `ArticleTableNotFound`."""

    def describe_all(self, articles: Sequence[Article]) -> Mapping[Article, TableDescription]:
        """Return articles' tables, in few round trips. Raises `ArticleTableNotFound`."""

    def has_rowguid(self, article: Article) -> bool:
        """Whether a table has a usable column `rowguid`: not null, with its own unique key."""

    def find_damage(self, article: Article) -> str | None:
        """Describe the missing columns or triggers of an article's table; None if nothing is missing."""

    def find_rewriting(self, article: Article) -> Sequence[RewritingTrigger]:
        """Return the triggers of programs that change rows of an article's table as they arrive."""

    def examine(self, articles: Sequence[Article]) -> Examination:
        """Return what `find_original` and `find_damage` say, and what the catalogue has, in one round trip."""

    def require_owners(self, articles: Sequence[Article], run_as: RunAs | None = None) -> None:
        """Raise unless articles' tables may be written without handing their owners the rights of this node's role.

        `run_as` is that of a publication which does not have them yet. Raises `OwnersDiffer`, `OwnerNotHeld`,
        `DeferredCodeOfOwner`.
        """

    def check_filter(self, article: Article, condition: str) -> None:
        """Raise `FilterRefused` if the database rejects an article's row filter, given as SQL."""

    def check_join(self, child: Article, join: JoinFilter, parent: Article, condition: str) -> None:
        """Raise `FilterRefused` if the database rejects a join filter, given as SQL."""

    def check_procedure(self, article: Article) -> None:
        """Raise `ResolverRefused` unless the function that an article's resolver names can decide its conflicts."""


class TableCreation(Protocol):
    """Tables that a subscriber gets, and fills."""

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


class TableTracking(Protocol):
    """What a table gets so that its changes are merged."""

    def add_rowguid(self, article: Article) -> None:
        """Add the column `rowguid` if the table lacks it; not within a transaction.

        A repeat completes an interrupted call.
        """

    def drop_rowguid(self, article: Article) -> None:
        """Drop the column that `add_rowguid` added, within a transaction; not if a trigger or a view needs it."""

    def track(self, article: Article) -> None:
        """Create the triggers MSmerge_ins_, MSmerge_upd_, MSmerge_del_ of an article, within a transaction."""

    def untrack(self, article: Article) -> None:
        """Drop an article's triggers and remove the metadata of its rows, within a transaction."""

    def attach_partitions(self, article: Article) -> bool:
        """Track the partitions attached to an article's table since it was tracked, with their rows as inserts.

        Returns whether there were any. Not within a transaction. Raises `LockNotObtained`.
        """


class TableAlterations(Protocol):
    """Alterations of merged tables."""

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


class NodeTables(NodeMetadata, TableExamination, TableCreation, TableTracking, TableAlterations, Protocol):
    """All that a node does with tables: its own metadata, and the merged tables."""


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
