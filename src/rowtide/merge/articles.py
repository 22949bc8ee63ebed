"""Publications, their articles, and what each node stores about the others. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, field, replace
from datetime import datetime
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import Annotated, Any

from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.databases.source_table import RunAs
from rowtide.merge.errors.nodes import MetadataMalformed

ROWGUID = "rowguid"
"""The column that identifies the rows of a merged table, even if their keys change."""


DEFAULT_RETENTION_DAYS = 14
ADDITIVE = "additive"
"""The resolver that adds up concurrent changes."""
PROCEDURE = "procedure"
"""What is written before the name of a function of the hub's database that resolves conflicts."""
UPLOAD_ONLY, DOWNLOAD_ONLY = "upload-only", "download-only"
"""The resolvers of articles whose changes travel in one direction."""


PUBLISHER_PRIORITY = 100.0
"""The weight of changes of a publisher that is nobody's subscriber."""


class SubscriberType(IntEnum):
    """Weight of a subscriber's changes in conflicts (SQL Server: sysmergesubscriptions.subscriber_type)."""

    SERVER = 1
    """Its changes keep the subscription's own priority."""
    CLIENT = 2
    """Its changes count as the publisher's once merged: the first subscriber to synchronise wins."""


@frozen
class DeviceLimits:
    """What a synchronisation accepts from a subscriber at most; a device's owner may write anything into its file.

    `statement_s` is how long a statement in a file may take, `row_bytes` the size of a row, `rows` and `upload_bytes`
    those of all that is uploaded at once.
    """

    statement_s: Annotated[
        float,
        Option("--statement-timeout", metavar="SECONDS", min=0.01, help="Of a statement in the subscriber's file."),
    ] = 60.0
    row_bytes: Annotated[
        int, Option("--max-row-bytes", min=1000, max=1_000_000_000, help="Of a row that the subscriber uploads.")
    ] = 1 << 27
    rows: Annotated[int, Option("--max-upload-rows", min=1, help="That are uploaded at once.")] = 10_000_000
    upload_bytes: Annotated[
        int, Option("--max-upload-bytes", min=1000, help="Of all rows that are uploaded at once.")
    ] = 1 << 34


DEFAULT_LIMITS = DeviceLimits()
"""The limits of a subscriber unless the caller says others."""
Progress = Callable[[str, int, int], None]
"""Called with the direction, the number of changes done, and the number of changes read so far."""


class ExchangeType(IntEnum):
    """What a synchronisation does (SQL Server: -ExchangeType)."""

    UPLOAD = 1
    DOWNLOAD = 2
    BOTH = 3
    """Upload, then download."""

    @property
    def uploads(self) -> bool:
        return self is not ExchangeType.DOWNLOAD

    @property
    def downloads(self) -> bool:
        return self is not ExchangeType.UPLOAD


@frozen
class ArticleColumn:
    """A published column; `type_text` is the PostgreSQL name of its values' type, on every database.

    `number` identifies it in all definitions of its article, also when it is renamed; a number is given once. `attnum`
    is the column's number in the hub's catalogue, where that has numbers.
    """

    name: str
    type_text: str
    is_nullable: bool
    key_ordinal: int | None
    number: int | None = None
    attnum: int | None = None


class PartitionOptions(IntEnum):
    """How subscribers' partitions may overlap (SQL Server: @partition_options)."""

    OVERLAPPING = 0
    """Rows may be in several partitions, and subscribers may move them out of theirs."""
    UNMOVED = 1
    """Rows may be in several partitions; subscribers do not change the columns that decide which."""
    SHARED = 2
    """A row is in one partition, of one or several subscribers, which may not move rows out of it."""
    ONE_SUBSCRIBER = 3
    """A partition has one subscriber, which may not move rows out of it."""

    @property
    def is_overlapping(self) -> bool:
        """Whether a row may be in several partitions."""
        return self in (PartitionOptions.OVERLAPPING, PartitionOptions.UNMOVED)


class UnseenChildren(StrEnum):
    """What happens to a delete whose foreign keys' actions reach rows at the hub that its sender had not seen."""

    REFUSE = "refuse"
    """The row returns, with those that were deleted with it."""
    RECORD = "record"
    """It runs, and each of these rows becomes a conflict."""


class UploadOptions(IntEnum):
    """What subscriptions of type client may do with an article (SQL Server: @subscriber_upload_options)."""

    ALLOWED = 0
    """Change rows; the changes are uploaded."""
    KEPT_LOCAL = 1
    """Change rows; the changes are not uploaded, and the hub's next change of such a row replaces them."""
    PROHIBITED = 2
    """Read rows."""


HostName = Annotated[
    str | None,
    Option("--host-name", help="What host_name() is in filters.", show_default=False, sql_server="@hostname"),
]
Login = Annotated[str | None, Option("--login", help="What suser_name() is in filters.", show_default=False)]


@frozen
class Partition:
    """A subscriber's values of the filter functions; None for a function that no article's filter uses."""

    host_name: HostName = None
    suser_name: Login = None


class FilterType(IntEnum):
    """What a join of two articles is for (SQL Server: @filter_type)."""

    JOIN = 1
    """A join filter: a child's rows follow the parent's."""
    RECORD = 2
    """A link of logical records; it filters nothing."""
    BOTH = 3


@frozen
class JoinFilter:
    """Rows that satisfy `condition` with a row of article `parent` follow that row (SQL Server: sp_addmergefilter).

    `unique_key`: a child's row matches one row of the parent at most (SQL Server: @join_unique_key).
    """

    parent: str
    condition: str
    unique_key: bool = False
    filter_type: FilterType = FilterType.JOIN

    @property
    def is_filtering(self) -> bool:
        """Whether the child's rows follow the parent's."""
        return self.filter_type is not FilterType.RECORD

    @property
    def is_link(self) -> bool:
        """Whether both rows belong to one logical record."""
        return self.filter_type is not FilterType.JOIN


@frozen
class ArticleReference:
    """A foreign key to a published table: its columns, the parent's nickname, and the columns that it references."""

    columns: tuple[str, ...]
    parent: int
    parent_columns: tuple[str, ...]


@frozen
class Article:
    """A published table (SQL Server: sysmergearticles).

    `nickname` is the table's number in all metadata, the same at every node; `columns` are the published ones in the
    table's order, without `rowguid`; `unique_columns` are those of any unique key; `processing_order` puts parents
    before their children; `resolver` is the text given to `--resolver`, `subset_filter` the text given to `--where`;
    `table_in_files` is its name in SQLite files if a table of another schema has its own there. `last_number` is the
    last number given to a column; `table_id` and `fingerprint` are what the hub's catalogue said of the table when the
    definition was made, `shape` the parts of its columns and its checks (see `TableChange`). `is_dropped`: it has been
    dropped, and stays until each subscriber has uploaded what it had changed. `vertical_partition`: the table has
    columns that are not published. `is_tracked` is false in the definition that a client subscriber stores of an
    article whose `subscriber_upload_options` let it upload nothing: it has no metadata of the rows.
    `record_conflict_detection` and `record_conflict_resolution` are those of the logical records that it is the top of.
    `references` are its foreign keys to articles of the same publication; with `renumber` a row that loses its key gets
    a new one. `identity_range` is the number of keys in each of a node's ranges, 0 without ranges,
    `publisher_identity_range` the same for a subscriber's own subscribers; a node gets new ranges once it has used
    `threshold` percent. `on_unseen_children` says what happens to deletes that reach rows which their sender has not
    seen. `place` is the schema in which a PostgreSQL node has the table of an article that names none; it is not part
    of the definition.
    """

    name: str
    schema: str
    table: str
    nickname: int
    columns: tuple[ArticleColumn, ...]
    processing_order: int = 0
    column_tracking: bool = False
    resolver: str = "priority"
    compensate_for_errors: bool = False
    unique_columns: tuple[str, ...] = ()
    subset_filter: str | None = None
    join_filters: tuple[JoinFilter, ...] = ()
    partition_options: PartitionOptions = PartitionOptions.OVERLAPPING
    table_in_files: str = ""
    last_number: int = 0
    table_id: str = ""
    fingerprint: str = ""
    shape: str = ""
    is_dropped: bool = False
    vertical_partition: bool = False
    record_conflict_detection: bool = False
    record_conflict_resolution: bool = False
    references: tuple[ArticleReference, ...] = ()
    renumber: bool = False
    subscriber_upload_options: UploadOptions = UploadOptions.ALLOWED
    is_tracked: bool = True
    identity_range: int = 0
    publisher_identity_range: int = 0
    threshold: int = 100
    on_unseen_children: UnseenChildren = UnseenChildren.REFUSE
    place: str = field(default="", compare=False)

    @property
    def file_table(self) -> str:
        """The table's name in SQLite files, which have no schemas."""
        return self.table_in_files or self.table

    @property
    def is_filtered(self) -> bool:
        """Whether subscribers may have only some of its rows."""
        return self.subset_filter is not None or bool(self.filtering_joins)

    @property
    def filtering_joins(self) -> tuple[JoinFilter, ...]:
        """The join filters, without mere links of logical records."""
        return tuple(join for join in self.join_filters if join.is_filtering)

    def is_filtered_as(self, other: Article) -> bool:
        """Whether another definition gives subscribers the same rows."""
        mine, others = (
            (article.subset_filter, [(join.parent, join.condition) for join in article.filtering_joins])
            for article in (self, other)
        )
        return mine == others

    def at_subscriber(self, subscriber_type: SubscriberType) -> Article:
        """Return the definition that a subscriber stores; servers are exempt from the upload options."""
        may_upload = self.subscriber_upload_options is UploadOptions.ALLOWED
        return replace(self, is_tracked=may_upload or subscriber_type is SubscriberType.SERVER)

    @property
    def is_prohibited(self) -> bool:
        """Whether programs may not change rows at this node."""
        return not self.is_tracked and self.subscriber_upload_options is UploadOptions.PROHIBITED

    def is_directed_as(self, other: Article) -> bool:
        """Whether another definition exchanges changes of the rows in the same directions."""
        mine, others = ((each.is_tracked, each.is_prohibited, each.is_upload_only) for each in (self, other))
        return mine == others

    @property
    def is_upload_only(self) -> bool:
        """Whether subscribers' changes go to the hub, and nothing comes from there."""
        return self.resolver == UPLOAD_ONLY

    @property
    def is_download_only(self) -> bool:
        """Whether the hub undoes what subscribers change."""
        return self.resolver == DOWNLOAD_ONLY

    @property
    def procedure(self) -> str | None:
        """The function of the hub's database that resolves conflicts; None if `resolver` names none."""
        kind, _, name = self.resolver.partition(":")
        return name if kind == PROCEDURE and name else None

    @property
    def additive_column(self) -> ArticleColumn | None:
        """The column whose concurrent changes are added up, if `resolver` names one."""
        name, _, column = self.resolver.partition(":")
        return next((each for each in self.columns if name == ADDITIVE and each.name == column), None)

    @property
    def qualified_name(self) -> str:
        """Schema and table, as `TableDescription.name` has them at the publisher."""
        return f"{self.schema}.{self.table}" if self.schema else self.table

    def is_named(self, name: str) -> bool:
        """Whether a user's name for an article is its own or its table's, literally or quoted as in SQL."""
        own, schema, table = (
            (part, '"' + part.replace('"', '""') + '"') for part in (self.name, self.schema or "", self.table)
        )
        return name in own or (bool(self.schema) and name in {f"{one}.{other}" for one in schema for other in table})

    @property
    def key_columns(self) -> tuple[ArticleColumn, ...]:
        """The primary key's columns, in the key's order."""
        in_key = [column for column in self.columns if column.key_ordinal is not None]
        return tuple(sorted(in_key, key=lambda column: column.key_ordinal or 0))

    def same_column(self, column: ArticleColumn) -> ArticleColumn | None:
        """Return a column of another definition as this one has it; None if it has not."""
        if column.number is None or any(each.number is None for each in self.columns):
            return next((each for each in self.columns if each.name == column.name), None)
        return next((each for each in self.columns if each.number == column.number), None)

    def as_table_of(self, other: Article, before: Article | None = None) -> Article:
        """Return another publication's article of the same table with this one's table.

        Types that are as they were in an earlier definition, `before`, stay the other's: a republisher may be another
        kind of database than its publisher.
        """
        columns: list[ArticleColumn] = []
        for column in self.columns:
            was, theirs = None if before is None else before.same_column(column), other.same_column(column)
            is_as_before = was is not None and was.type_text == column.type_text
            columns.append(replace(column, type_text=theirs.type_text) if theirs and is_as_before else column)
        return replace(
            other,
            columns=tuple(columns),
            unique_columns=self.unique_columns,
            last_number=self.last_number,
            table_id=self.table_id,
            fingerprint=self.fingerprint,
            shape=self.shape,
        )

    def indexes_in(self, before: Article) -> list[int]:
        """Return the positions that this definition's columns had in an earlier one, where they were in it."""
        was = (before.same_column(column) for column in self.columns)
        return [before.columns.index(column) for column in was if column is not None]

    def only(self, columns: Sequence[str]) -> Article:
        """Return the article with only these columns, in this order, for reading parts of its rows."""
        named = {column.name: column for column in self.columns}
        return replace(self, columns=tuple(named[name] for name in columns))

    def index_of(self, name: str) -> int | None:
        """Return the position of a column in rows; None if there is no column of this name."""
        return next((index for index, column in enumerate(self.columns) if column.name == name), None)

    def __hash__(self) -> int:
        # Of few of the fields: rows look their article up by it.
        return hash((self.nickname, self.name))

    def encode(self) -> str:
        """Return it as JSON."""
        return json.dumps({name: value for name, value in asdict(self).items() if name != "place"})

    @classmethod
    @lru_cache(maxsize=256)
    def decode(cls, encoded: str) -> Article:
        """Read what `encode` wrote. Raises `MetadataMalformed` for anything else."""
        fields: dict[str, Any] = json.loads(encoded)
        try:
            return cls._of_fields(**fields)
        except (TypeError, ValueError) as error:
            raise MetadataMalformed("sysmergearticles", f"article {fields.get('name')}", str(error)) from error

    @classmethod
    def _of_fields(cls, **fields: Any) -> Article:
        columns = tuple(ArticleColumn(**column) for column in fields.pop("columns"))
        return cls(
            columns=columns,
            unique_columns=tuple(fields.pop("unique_columns")),
            join_filters=tuple(_decode_join(**join) for join in fields.pop("join_filters")),
            partition_options=PartitionOptions(fields.pop("partition_options")),
            references=tuple(_reference(**each) for each in fields.pop("references")),
            subscriber_upload_options=UploadOptions(fields.pop("subscriber_upload_options")),
            on_unseen_children=UnseenChildren(fields.pop("on_unseen_children")),
            **fields,
        )


def _decode_join(*, filter_type: int, **fields: Any) -> JoinFilter:
    return JoinFilter(**fields, filter_type=FilterType(filter_type))


def _reference(columns: Sequence[str], parent: int, parent_columns: Sequence[str]) -> ArticleReference:
    return ArticleReference(tuple(columns), parent, tuple(parent_columns))


@frozen
class Publication:
    """A publication; the publisher is the hub of all its subscriptions (SQL Server: sysmergepublications).

    0 days of a retention are no limit. `run_as` is each node's own.
    """

    pubid: str
    name: str
    publisher: int
    retention_days: int
    replicates_ddl: bool = True
    realigns: bool = True
    conflict_retention_days: int = 0
    run_as: RunAs = RunAs.OWNER


@frozen
class Waiting:
    """The last generations that a synchronisation exchanged: this node's own, and the other node's.

    Once the other node has purged `other`, all its subscribers have got `own`: it is settled.
    """

    own: int
    other: int


@frozen
class Subscription:
    """A node's part in a publication, as stored by another node or by itself (SQL Server: sysmergesubscriptions).

    `sent` is the last of the storing node's generations that was sent to the other node, `received` the last of the
    other node's that was received. `state` is the mark that the last synchronisation left at both ends, `next_state`
    the mark that the running synchronisation will leave. `session` counts synchronisations: a later one replaces an
    earlier one. `settled` is the last of the storing node's generations that no later change can conflict with.
    `waiting` becomes settled once the other node has purged its own generation of that synchronisation. `partition` is
    the subscriber's; None if no article is filtered. `last_sync` is when it last synchronised, by the storing node's
    clock. `schema_version` is the last of the publication's schema changes that the subscriber has, with its guid.
    """

    subid: str
    pubid: str
    subscriber: str
    nickname: int
    subscriber_type: SubscriberType
    priority: float
    sent: int = 0
    received: int = 0
    state: str = ""
    next_state: str | None = None
    session: int = 0
    settled: int = 0
    waiting: Waiting | None = None
    partition: Partition | None = None
    last_sync: datetime | None = None
    schema_version: int = 0
    schema_guid: str | None = None
