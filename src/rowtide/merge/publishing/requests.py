"""Requests to a publisher: new articles and subscriptions, as commands and methods take them. Pure, and light."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from rowtide.core.errors import OptionsContradict
from rowtide.core.options import MOST_DAYS, Argument, Option, WordsRead, values_of
from rowtide.core.values import frozen
from rowtide.databases.source_table import RunAs
from rowtide.databases.urls import lasting
from rowtide.merge.articles import (
    DEFAULT_RETENTION_DAYS,
    HostName,
    Login,
    Partition,
    PartitionOptions,
    SubscriberType,
    UnseenChildren,
    UploadOptions,
)
from rowtide.merge.nodes.node_tables import RewritingTrigger
from rowtide.merge.nodes.table_definitions import Omission

PublicationName = Annotated[str, Argument(metavar="PUBLICATION", help="a publication's name")]
SubscriberUrl = Annotated[
    str,
    Option(
        "--subscriber",
        help="The subscriber's database: sqlite:///folder/file.db, postgresql://user@host/name",
        check=lasting,
        is_database=True,
    ),
]
RETENTION_DAYS = "Reinitialise subscribers that have not synchronised for this many days; 0: never."
REPLICATE_DDL = "Subscribers follow when published tables are altered; else new columns are not sent."
AS_IT_IS = "as it is"
UPLOAD_OPTIONS = "allowed: all, and it is uploaded; kept-local: all, and nothing is uploaded; prohibited: nothing."
UNSEEN_CHILDREN = (
    "A subscriber's delete reaches rows at the publisher, by foreign keys' actions, that the subscriber had not seen. "
    "refuse: the row returns; record: each row that is lost becomes a conflict."
)
RUN_AS = (
    "With whose rights triggers, defaults, checks and other code of tables of other roles run that {node} writes on "
    "PostgreSQL: owner, or agent, whose owners are trusted."
)


@frozen
class NewMergePublication(WordsRead):
    """A publication as it is added, without articles (SQL Server: sp_addmergepublication)."""

    name: PublicationName
    _: KW_ONLY
    retention_days: Annotated[int, Option(help=RETENTION_DAYS, min=0, max=MOST_DAYS, sql_server="@retention")] = (
        DEFAULT_RETENTION_DAYS
    )
    conflict_retention_days: Annotated[
        int,
        Option(
            "--conflict-retention",
            metavar="DAYS",
            help="Remove kept conflicts after this many days; 0: never.",
            min=0,
            max=MOST_DAYS,
            sql_server="@conflict_retention",
        ),
    ] = 0
    allow_partition_realignment: Annotated[
        bool,
        Option(
            "--partition-realignment/--no-partition-realignment",
            help="Rows that leave a partition leave its subscribers; else they stay there, as they were then.",
            sql_server="@allow_partition_realignment",
        ),
    ] = True
    replicate_ddl: Annotated[bool, Option(help=REPLICATE_DDL, sql_server="@replicate_ddl")] = True
    run_as: Annotated[RunAs, Option(help=RUN_AS.format(node="the publisher"))] = RunAs.OWNER


@frozen
class MergePublicationChanges(WordsRead):
    """What is to change of a publication; None leaves an option as it is (SQL Server: sp_changemergepublication)."""

    name: PublicationName
    _: KW_ONLY
    retention_days: Annotated[
        int | None,
        Option(help=RETENTION_DAYS, min=0, max=MOST_DAYS, show_default=AS_IT_IS, sql_server="@retention"),
    ] = None
    replicate_ddl: Annotated[
        bool | None, Option(help=REPLICATE_DDL, show_default=AS_IT_IS, sql_server="@replicate_ddl")
    ] = None
    run_as: Annotated[RunAs | None, Option(help=RUN_AS.format(node="the publisher"), show_default=AS_IT_IS)] = None


@frozen(kw_only=True)
class ArticleRequest(WordsRead):
    """The options of a new article."""

    resolver: Annotated[
        str,
        Option(
            help="Who wins a conflict: priority (of subscriptions; the publisher stands above all), publisher-wins, "
            "subscriber-wins; by a column's values later-wins:COLUMN, earlier-wins, maximum, minimum, priority-column; "
            "with values made of both additive:COLUMN, averaging, merge-text:COLUMN[:DELIMITER]; upload-only, "
            "download-only; procedure:schema.function of the hub's database; or python:module.Class, a handler.",
            sql_server="@article_resolver",
        ),
    ] = "priority"
    where: Annotated[
        str | None,
        Option(
            help="Which rows a subscriber has: a condition over the table's columns, host_name() and suser_name().",
            show_default="all",
            sql_server="@subset_filterclause",
        ),
    ] = None
    partition_options: Annotated[
        PartitionOptions,
        Option(
            help="overlapping: rows may be in several partitions, and move between them; unmoved: subscribers do not "
            "change what filters use; shared: a row is in one partition, and subscribers do not move it out; "
            "one-subscriber: each partition has one subscriber, too.",
            sql_server="@partition_options",
        ),
    ] = PartitionOptions.OVERLAPPING
    columns: Annotated[
        Sequence[str] | None,
        Option(
            metavar="NAME,NAME...",
            help="The columns that subscribers have, separated by commas; the key is always among them.",
            show_default="all",
        ),
    ] = None
    upload_options: Annotated[
        UploadOptions,
        Option(
            "--subscriber-upload-options",
            help=f"What subscriptions of type client may change. {UPLOAD_OPTIONS}",
            sql_server="@subscriber_upload_options",
        ),
    ] = UploadOptions.ALLOWED
    on_unseen_children: Annotated[UnseenChildren, Option(help=UNSEEN_CHILDREN)] = UnseenChildren.REFUSE
    column_tracking: Annotated[
        bool,
        Option(
            "--column-tracking",
            help="Changes of different columns of a row are merged, without conflict.",
            sql_server="@column_tracking",
        ),
    ] = False
    compensate_for_errors: Annotated[
        bool,
        Option(
            "--compensate-for-errors",
            help="What the publisher does not take is undone at the subscriber, instead of being tried again.",
            sql_server="@compensate_for_errors",
        ),
    ] = False
    record_conflict_detection: Annotated[
        bool,
        Option(
            "--record-conflict-detection",
            help="Any concurrent changes of a logical record conflict.",
            sql_server="@logical_record_level_conflict_detection",
        ),
    ] = False
    """Option of the logical records whose top article this is."""
    record_conflict_resolution: Annotated[
        bool,
        Option(
            "--record-conflict-resolution",
            help="The whole logical record of the winner remains.",
            sql_server="@logical_record_level_conflict_resolution",
        ),
    ] = False
    """As `record_conflict_detection`, of those logical records."""
    identity_range: Annotated[
        int,
        Option(
            help="Numbers in each of a node's two ranges, from which its programs number new rows.",
            min=0,
            show_default="no ranges",
            sql_server="@identity_range",
        ),
    ] = 0
    publisher_identity_range: Annotated[
        int,
        Option(
            help="Numbers in each range that a subscriber of type server gives to its own subscribers.",
            min=0,
            show_default="none",
            sql_server="@pub_identity_range",
        ),
    ] = 0
    threshold: Annotated[
        int,
        Option(
            help="A node gets new numbers once this percentage of a range is used.",
            min=1,
            max=100,
            sql_server="@threshold",
        ),
    ] = 100
    renumber: Annotated[
        bool,
        Option(
            "--renumber",
            help="Of two rows inserted with one key, the loser gets a new key, and keeps its children.",
        ),
    ] = False


@frozen
class NewMergeArticle(ArticleRequest):
    """An article as it is added (SQL Server: sp_addmergearticle)."""

    publication: PublicationName
    table: Annotated[str, Argument(metavar="TABLE", help="a table, on PostgreSQL as schema.table")]


@frozen
class MergeArticleChanges(WordsRead):
    """What is to change of an article; None leaves an option as it is (SQL Server: sp_changemergearticle)."""

    publication: PublicationName
    article: Annotated[str, Argument(metavar="ARTICLE", help="an article's name, or its table")]
    _: KW_ONLY
    where: Annotated[
        str | None, Option(help="Its row filter.", show_default=AS_IT_IS, sql_server="@subset_filterclause")
    ] = None
    joins: Annotated[
        Mapping[str, str],
        Option(
            "--join",
            metavar="PARENT=JOIN_EXPR",
            help="A join filter, by the parent that it has. May be repeated.",
            show_default=AS_IT_IS,
            sql_server="@join_filterclause",
        ),
    ] = field(default_factory=dict)
    upload_options: Annotated[
        UploadOptions | None,
        Option(
            "--subscriber-upload-options",
            help=f"What clients may change. {UPLOAD_OPTIONS}",
            show_default=AS_IT_IS,
            sql_server="@subscriber_upload_options",
        ),
    ] = None
    resolver: Annotated[
        str | None, Option(help="As of add-article.", show_default=AS_IT_IS, sql_server="@article_resolver")
    ] = None
    on_unseen_children: Annotated[UnseenChildren | None, Option(help=UNSEEN_CHILDREN, show_default=AS_IT_IS)] = None
    column_tracking: Annotated[
        bool | None, Option(help="As of add-article.", show_default=AS_IT_IS, sql_server="@column_tracking")
    ] = None
    compensate_for_errors: Annotated[
        bool | None, Option(help="As of add-article.", show_default=AS_IT_IS, sql_server="@compensate_for_errors")
    ] = None


# Without slots, so that it can be one of several bases.
@frozen(kw_only=True, slots=False)
class FilterValues:
    """The partition of a subscriber: by the values of the filter functions, or as one object."""

    host_name: HostName = None
    login: Login = None
    partition: Partition | None = None

    @property
    def chosen_partition(self) -> Partition:
        """The partition that is meant. Raises `OptionsContradict`."""
        return choose_partition(self.partition, self.host_name, self.login)


def choose_partition(partition: Partition | None, host_name: str | None, login: str | None) -> Partition:
    """Return a partition that is given as one object or by its values. Raises `OptionsContradict`."""
    by_values = Partition(host_name, login)
    if partition is not None and by_values not in (Partition(), partition):
        raise OptionsContradict("partition", "host_name and login")
    return partition or by_values


@frozen
class MergeSubscriptionRequest(FilterValues, WordsRead):
    """A subscription as it is added."""

    publication: PublicationName
    subscriber: SubscriberUrl
    _: KW_ONLY
    subscriber_type: Annotated[
        SubscriberType,
        Option(
            "--type",
            help="client: its changes count as the publisher's once they are merged, the first to synchronise wins; "
            "server: they keep the priority of its subscription.",
            sql_server="@subscriber_type",
        ),
    ] = SubscriberType.CLIENT
    priority: Annotated[
        float,
        Option(help="Of a server, below the publisher's 100.", min=0.0, max=99.99, sql_server="@subscription_priority"),
    ] = 0.0
    run_as: Annotated[RunAs, Option("--run-as", help=RUN_AS.format(node="the subscriber"))] = RunAs.OWNER
    on_progress: Callable[[str, int], None] = lambda _article, _rows: None
    on_omission: Callable[[Omission], None] = lambda _omission: None
    """Called with each part of the publisher's tables that the subscriber's database does not have."""


@frozen
class NewMergeSubscription(MergeSubscriptionRequest):
    """A subscription whose tables are made and filled (SQL Server: sp_addmergesubscription)."""

    _: KW_ONLY
    snapshot: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Fill the tables from files that `rowtide merge snapshot` made, of their partition. An interrupted "
            "command continues when it is repeated.",
            show_default=False,
        ),
    ] = None

    def taking_over(self, existing: Existing, *, absent_is_delete: bool) -> ExistingSubscription:
        """Return the same subscription of a database that has tables and rows already."""
        given = values_of(MergeSubscriptionRequest, self)
        return ExistingSubscription(existing=existing, absent_is_delete=absent_is_delete, **given)


class Existing(StrEnum):
    """What happens to rows of a subscriber that differ from the hub's."""

    KEEP = "keep"
    """They are uploaded: the subscriber's version of rows that both have, and rows that only it has."""
    OVERWRITE = "overwrite"
    """They get the hub's version; rows that only the subscriber has are deleted there."""


@frozen
class ExistingRows:
    """How many rows of a table both nodes have, equal or different, and how many only one of them has.

    `rewriting` are the triggers of the subscriber's table that change arriving rows, and so cause endless traffic.
    """

    article: str
    equal: int
    different: int
    only_subscriber: int
    only_publisher: int
    rewriting: tuple[RewritingTrigger, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.article}: {self.equal:,} rows equal, {self.different:,} different, "
            f"{self.only_subscriber:,} only at the subscriber, {self.only_publisher:,} only at the publisher"
        )


@frozen
class ExistingSubscription(MergeSubscriptionRequest):
    """A subscription of a database that has tables and rows already (SQL Server: @sync_type none)."""

    existing: Existing
    _: KW_ONLY
    absent_is_delete: bool = False
    on_existing: Callable[[ExistingRows], None] = lambda _rows: None
    """Called with what each table had."""
