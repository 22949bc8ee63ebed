"""What is asked of articles, new ones and changed ones, as commands and methods take it. Pure, and light."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from enum import StrEnum
from typing import Annotated

from rowtide.core.operations import Operation
from rowtide.core.options import Option, TableName, read_words
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.replication.articles.call_formats import Command, KeyUpdates, parse_command, read_commands
from rowtide.replication.subscription_settings import IfExists, PublicationName

IfCopied = Annotated[
    IfExists | None,
    Option(
        "--if-exists",
        help="What becomes of a table that is copied again; default: drop, truncate where what was there was kept.",
        show_default=False,
        sql_server="@pre_creation_cmd",
    ),
]


class MovedPartitions(StrEnum):
    """What becomes of rows that partitions bring to a table, or take away, of which the log has nothing.

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
            help="What becomes of the table where a subscriber has it: as with add-subscription.",
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
