"""What is asked of publications, articles and comparisons, as commands and methods take it. Pure, and light."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, field
from enum import StrEnum
from typing import Annotated

from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import Operation
from rowtide.core.options import ForGroup, Option, TableName, read_words
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.replication.articles.call_formats import Command, KeyUpdates, parse_command, read_commands
from rowtide.replication.subscription_settings import IfExists, PublicationName, SomeSubscriber

IfCopied = Annotated[
    IfExists | None,
    Option(
        "--if-exists",
        help="What happens to a table that is copied again; default: drop, or truncate if it was kept before.",
        show_default=False,
        sql_server="@pre_creation_cmd",
    ),
]


class MovedPartitions(StrEnum):
    """What happens to the rows of a partition that is attached or detached, which the log does not have.

    (SQL Server: @allow_partition_switch, @replicate_partition_switch.)
    """

    COPY = "copy"
    """The article is copied again."""
    IGNORE = "ignore"
    """Subscribers keep the rows that went, and lack those that came."""


@frozen(kw_only=True)
class GivenCommands:
    """How operations are propagated: a format, and the custom procedure that is called."""

    insert_command: Annotated[
        str | None, Option(help="CALL [PROC], SQL or NONE; CALL at first.", show_default=False, sql_server="@ins_cmd")
    ] = None
    update_command: Annotated[
        str | None,
        Option(
            help="SCALL, CALL, MCALL or XCALL [PROC], SQL or NONE; SCALL at first.",
            show_default=False,
            sql_server="@upd_cmd",
        ),
    ] = None
    delete_command: Annotated[
        str | None,
        Option(help="CALL or XCALL [PROC], SQL or NONE; CALL at first.", show_default=False, sql_server="@del_cmd"),
    ] = None
    commands: Mapping[Operation, Command] = field(default_factory=dict)
    """The same by operation, which may be given as texts; those of all operations that are given, once it is made."""

    def __post_init__(self) -> None:
        """Raise `CommandInvalid`, `UpdatableCallRefused` and `WordUnknown` before a database is asked."""
        read_words(self)
        texts = {
            Operation.INSERT: self.insert_command,
            Operation.UPDATE: self.update_command,
            Operation.DELETE: self.delete_command,
        }
        parsed = {operation: parse_command(operation, text) for operation, text in texts.items() if text is not None}
        object.__setattr__(self, "commands", {**parsed, **read_commands(self.commands)})


@frozen(kw_only=True)
class ArticleRequest(GivenCommands):
    """An article as requested: columns (None for all), commands, the old values that the log carries, and a row filter.

    `before_images` None: whole rows if a command uses changed or old values or rows are filtered, else keys.
    """

    columns: Annotated[
        tuple[str, ...] | None,
        Option(help='Published columns, separated by commas, in "" or [] where needed; default: all.'),
    ] = None
    where: Annotated[
        str | None,
        Option(help="Which rows are published: a condition over published columns.", sql_server="@filter_clause"),
    ] = None
    before_images: Annotated[
        BeforeImages | None,
        Option(
            help="What the log carries of a row before its change: all, or its key; default: what commands need.",
            show_default=False,
        ),
    ] = None
    key_updates: Annotated[
        KeyUpdates, Option(help="How a change of the key is delivered: as an update, or a delete and an insert.")
    ] = KeyUpdates.UPDATE
    moved_partitions: Annotated[
        MovedPartitions,
        Option(
            help="When partitions with rows are attached, detached or dropped: copy the table again, or not.",
            sql_server="@allow_partition_switch",
        ),
    ] = MovedPartitions.COPY


@frozen
class NewArticle(ArticleRequest):
    """An article as it is added (SQL Server: sp_addarticle)."""

    publication: PublicationName
    table: TableName
    _: KW_ONLY
    if_exists: Annotated[
        IfExists,
        Option(
            help="What happens to the table if a subscriber has it: as with add-subscription.",
            sql_server="@pre_creation_cmd",
        ),
    ] = IfExists.FAIL


@frozen
class ArticleChange(GivenCommands):
    """What is to change of an article; what is not given stays (SQL Server: sp_changearticle, sp_articlefilter)."""

    publication: PublicationName
    table: TableName
    _: KW_ONLY
    where: Annotated[
        str | None,
        Option(
            help="Another row filter: a condition over published columns.",
            show_default=False,
            sql_server="@filter_clause",
        ),
    ] = None
    without_filter: Annotated[bool, Option("--no-where", help="Publish all rows.")] = False
    key_updates: Annotated[
        KeyUpdates | None, Option(help="How a change of the key is delivered.", show_default=False)
    ] = None
    moved_partitions: Annotated[
        MovedPartitions | None,
        Option(
            help="Whether partitions that move rows let it be copied again.",
            show_default=False,
            sql_server="@allow_partition_switch",
        ),
    ] = None
    if_exists: IfCopied = None
    add_columns: tuple[str, ...] = ()
    """Columns that are published from now on (SQL Server: sp_articlecolumn)."""
    drop_columns: tuple[str, ...] = ()
    """Columns that are no longer published."""


@frozen
class NewPublication:
    """A publication as it is added, without articles (SQL Server: sp_addpublication)."""

    name: PublicationName
    _: KW_ONLY
    lake: Annotated[
        str | None,
        Option(help="Folder for what is read of the log; not needed where capture is enabled.", show_default=False),
    ] = None
    log_store: Annotated[str | None, Option(help="Folder of the log store; default: LAKE/log.", show_default=False)] = (
        None
    )
    distribution_db: Annotated[
        str | None,
        Option(
            help="Database that records publications and subscriptions: postgresql://user@host/name, without a "
            "password; default: the publisher.",
            show_default=False,
            is_database=True,
        ),
    ] = None
    """Later publications find it (SQL Server: sp_adddistributor)."""
    replicate_ddl: Annotated[
        bool, Option(help="Add at subscribers the columns that are added to its tables.", sql_server="@replicate_ddl")
    ] = True
    for_group: ForGroup = False
    on_wait: Callable[[str], None] = lambda _whom: None
    """Called with what the first publication waits for: open transactions."""


@frozen
class PublicationThresholds:
    """From where on a publication's subscriptions are a warning; None leaves a threshold as it is, 0 is the default.

    (SQL Server: sp_replmonitorchangepublicationthreshold.)
    """

    publication: PublicationName
    _: KW_ONLY
    latency_threshold_s: Annotated[
        int | None,
        Option(
            "--latency-threshold",
            help="Seconds that changes may wait; 300 at first, 0: as at first.",
            min=0,
            show_default=False,
        ),
    ] = None
    expiration_threshold: Annotated[
        int | None,
        Option(
            help="Percent of the retention that may be over; 75 at first, 0: as at first.",
            min=0,
            max=100,
            show_default=False,
        ),
    ] = None


OnCompare = Callable[[str, str, int, int], None]
OneArticle = Annotated[str | None, Option(help="Of this article, by its name or table; default: all.")]
Checksum = Annotated[bool, Option("--checksum", help="Compare values too, not only row counts.")]
DeleteExtra = Annotated[bool, Option("--delete-extra", help="With --repair: delete rows that only the subscriber has.")]


@frozen
class CompareOptions:
    """Which articles and subscribers of a publication are compared; by default all."""

    publication: PublicationName
    _: KW_ONLY
    article: OneArticle = None
    subscriber: SomeSubscriber = None
    wait_s: Annotated[
        float,
        Option("--wait", help="Seconds to wait, while a process delivers, for what cannot be compared yet.", min=0),
    ] = 10
    on_compare: OnCompare = lambda _subscriber, _article, _number, _of: None
    """Called before an article is compared, with the subscriber, the article, its number from 1 and that of all."""


@frozen
class RowValidation(CompareOptions):
    """A comparison by numbers of rows, or by their values too (SQL Server: sp_publication_validation)."""

    checksum: Checksum = field(default=False, kw_only=True)


@frozen
class RowRepair(CompareOptions):
    """A comparison by rows, after which those that differ are repaired; a rehearsal rolls that back."""

    delete_extra: DeleteExtra = field(default=False, kw_only=True)
    is_rehearsal: bool = field(default=False, kw_only=True)


@frozen
class CommandRange:
    """Commands of the log store, both ends of a range included (SQL Server: sp_browsereplcmds)."""

    publication: Annotated[str | None, Option(help="Of this publication; default: all.")] = None
    _: KW_ONLY
    article: OneArticle = None
    from_lsn: Annotated[
        CommitLsn | None,
        Option(
            "--from",
            help="The first transaction's LSN; default: the first that is kept.",
            sql_server="@xact_seqno_start",
        ),
    ] = None
    to_lsn: Annotated[
        CommitLsn | None,
        Option(
            "--to", help="The last transaction's LSN; default: the last that was read.", sql_server="@xact_seqno_end"
        ),
    ] = None
