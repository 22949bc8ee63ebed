"""What is merged: publications, their articles, and what each node knows of the others. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

ROWGUID = "rowguid"
"""The column that identifies the rows of a merged table, whatever their keys become."""


DEFAULT_RETENTION_DAYS = 14
ADDITIVE = "additive"
"""The resolver that adds changes up."""


class SubscriberType(IntEnum):
    """What a subscriber's changes count in conflicts (SQL Server: sysmergesubscriptions.subscriber_type)."""

    SERVER = 1
    """They keep the subscription's own priority."""
    CLIENT = 2
    """Once they are merged they count as the publisher's: the first to synchronise wins."""


@dataclass(frozen=True, slots=True)
class ArticleColumn:
    """A published column; `type_text` is what PostgreSQL's SQL calls the type of its values, on every database."""

    name: str
    type_text: str
    is_nullable: bool
    key_ordinal: int | None


class PartitionOptions(IntEnum):
    """How the rows of subscribers may lie (SQL Server: @partition_options)."""

    OVERLAPPING = 0
    """Rows may be in several partitions, and subscribers may move them out of theirs."""
    ONE_SUBSCRIBER = 3
    """A partition has one subscriber, which may not move rows out of it."""


@dataclass(frozen=True, slots=True)
class Partition:
    """What the functions of filters give for a subscriber; None where none of an article's filters asks."""

    host_name: str | None = None
    suser_name: str | None = None


@dataclass(frozen=True, slots=True)
class JoinFilter:
    """Rows that fit `condition` with a row of article `parent` are where that is (SQL Server: sp_addmergefilter)."""

    parent: str
    condition: str


@dataclass(frozen=True, slots=True)
class Article:
    """A published table (SQL Server: sysmergearticles).

    `nickname` is the table's number in all metadata, the same at every node; `columns` are the published ones in the
    table's order, without `rowguid`; `unique_columns` are those of any unique key; `processing_order` puts parents
    before their children; `resolver` is what was written for `--resolver`, `subset_filter` for `--where`.
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

    @property
    def is_filtered(self) -> bool:
        """Whether subscribers have some of its rows only."""
        return self.subset_filter is not None or bool(self.join_filters)

    def is_filtered_as(self, other: Article) -> bool:
        """Whether another definition has the same filters."""
        return (self.subset_filter, self.join_filters) == (other.subset_filter, other.join_filters)

    @property
    def additive_column(self) -> ArticleColumn | None:
        """The column whose changes add up, where `resolver` names one."""
        name, _, column = self.resolver.partition(":")
        return next((each for each in self.columns if name == ADDITIVE and each.name == column), None)

    @property
    def qualified_name(self) -> str:
        """Schema and table, as `TableDescription.name` has them at the publisher."""
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def key_columns(self) -> tuple[ArticleColumn, ...]:
        """The primary key's columns, in the key's order."""
        in_key = [column for column in self.columns if column.key_ordinal is not None]
        return tuple(sorted(in_key, key=lambda column: column.key_ordinal or 0))

    def place_of(self, name: str) -> int | None:
        """Return a column's place in rows, None where there is none of this name."""
        return next((place for place, column in enumerate(self.columns) if column.name == name), None)

    def encode(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, encoded: str) -> Article:
        """Read what `encode` wrote."""
        fields: dict[str, Any] = json.loads(encoded)
        columns = tuple(ArticleColumn(**column) for column in fields.pop("columns"))
        return cls(
            columns=columns,
            unique_columns=tuple(fields.pop("unique_columns")),
            join_filters=tuple(JoinFilter(**join) for join in fields.pop("join_filters")),
            partition_options=PartitionOptions(fields.pop("partition_options")),
            **fields,
        )


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication; the publisher is the hub of all its subscriptions (SQL Server: sysmergepublications)."""

    pubid: str
    name: str
    publisher: int
    retention_days: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The last generations of both nodes that a synchronisation has exchanged: the keeper's, and the other's."""

    own: int
    other: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """A node's part in a publication, as another node, or it itself, keeps it (SQL Server: sysmergesubscriptions).

    `sent` is the last of the keeper's generations that was sent there, `received` the last of its that came from
    there. `state` is the mark that the last synchronisation left at both ends, `next_state` the one that the current
    synchronisation is leaving. `session` counts synchronisations: a later one puts an earlier one out.
    `settled` is the last of the keeper's generations that nothing can be at odds with any more that is still to come.
    `waiting` is the one that will be next, once the other node has purged its own generation of that synchronisation.
    `partition` is the subscriber's, None where no article is filtered.
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
