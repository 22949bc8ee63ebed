"""Articles: a table in a publication, with its columns, and how each operation is propagated.

(SQL Server: sp_addarticle.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache

from rowtide.copying.chunks import CopiedTable, KeyColumn
from rowtide.core.json_records import JsonOf
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind
from rowtide.log.membership import Member
from rowtide.replication.articles.call_formats import DEFAULTS, ArgumentGroup, CallFormat, Command, KeyUpdates, parts_of
from rowtide.replication.articles.requests import ArticleRequest, MovedPartitions
from rowtide.replication.errors.publishing import (
    ArticleNeedsKey,
    ArticleTooWide,
    ImagesLackKey,
    ImagesNeeded,
    KeyCheckedLate,
    KeyGenerated,
    PartitionImagesVary,
    PartitionNotPublishable,
    PublishedColumnListedTwice,
    PublishedColumnUnknown,
    PublishedKeyColumnMissing,
    TableNotPublishable,
    VirtualColumnPublished,
)
from rowtide.replication.filters import Condition, FilterColumn, as_sql, parse_filter

FEATURE = "replication"
MAX_PARAMETERS = 100
"""PostgreSQL's limit for a procedure."""
MAX_NAME_BYTES = 63
"""PostgreSQL truncates longer names, so that two procedures could silently get the same one."""
_IN_THE_DISTRIBUTION_DATABASE = "{}"
_CHANGING = (Operation.UPDATE, Operation.DELETE)
_PREFIXES = {Operation.INSERT: "sp_MSins_", Operation.UPDATE: "sp_MSupd_", Operation.DELETE: "sp_MSdel_"}


@frozen
class PublishedColumn:
    """A published column; its position among the article's columns, from 1, is its bit in bitmaps.

    `number` is its attnum at the publisher, `type_text` the type as SQL writes it, `type_code` and `type_modifier` as
    the log has them; `key_ordinal` is its position in the key, from 1.
    """

    number: int
    name: str
    type_text: str
    type_code: int
    type_modifier: int
    is_nullable: bool
    key_ordinal: int | None
    value_type_text: str
    """The type of its values: of a domain, the base type."""
    has_deterministic_collation: bool


@frozen
class OmittedColumn:
    """A column that was added to a published table and is not published, and why; `number` None: it is not known.

    `is_kept`: it was dropped from the published table, and the subscriber still has it.
    """

    number: int | None
    name: str
    reason: str
    is_kept: bool = False


@frozen
class GeneratedColumn:
    """A stored column computed from others; `number` is its position in the table."""

    number: int
    name: str
    type_text: str
    expression: str


@frozen
class Article:
    """A published table; `article_id` is its member id in the log, never reused.

    `procedures` are the names of the generated procedures, whether they are called or not.
    """

    article_id: str
    publication: str
    name: str
    source_id: int
    schema: str
    table: str
    columns: tuple[PublishedColumn, ...]
    insert: Command
    update: Command
    delete: Command
    insert_procedure: str
    update_procedure: str
    delete_procedure: str
    before_images: BeforeImages
    has_all_columns: bool
    """Whether the user listed no columns: then a column added to the table later is missing from the article."""
    generated_columns: tuple[str, ...]
    """The table's generated columns, which are never published; the server may log them nevertheless."""
    filter_clause: str | None = None
    """The row filter's text, None for all rows; see `filters`."""
    is_partitioned: bool = False
    key_updates: KeyUpdates = KeyUpdates.UPDATE
    moved_partitions: MovedPartitions = MovedPartitions.COPY
    left_out: tuple[OmittedColumn, ...] = ()
    """What was added to the table since and is missing from the article, which was to have all columns; and what was
    dropped and a subscriber keeps."""
    defined_at: int = 0
    """The log position at which the table has these columns: earlier schema changes are in them."""
    joined_at: int = 0
    """Of one that joined a subscription: the subscription's position then. As a subscriber has it."""
    generated: tuple[GeneratedColumn, ...] = ()
    """Of the generated columns those that are stored."""

    @property
    def qualified_name(self) -> str:
        """The published table's schema and name, unquoted."""
        return f"{self.schema}.{self.table}"

    @property
    def key_columns(self) -> tuple[PublishedColumn, ...]:
        """The key's columns in key order; empty for an article that publishes inserts only."""
        in_key = (column for column in self.columns if column.key_ordinal is not None)
        return tuple(sorted(in_key, key=lambda column: column.key_ordinal or 0))

    @property
    def needs_whole_rows(self) -> bool:
        """Whether updates or deletes need values that the log is certain to carry only with the whole old row."""
        commands = {operation: self.command(operation) for operation in _CHANGING}
        return any(reasons_for_whole_rows(commands, self.filter_clause, self.key_updates))

    @property
    def condition(self) -> Condition | None:
        """The parsed row filter, None for all rows."""
        return None if self.filter_clause is None else _parse_filter(self.filter_clause, self.columns)

    def command(self, operation: Operation) -> Command:
        """Return how an operation is propagated."""
        return {Operation.INSERT: self.insert, Operation.UPDATE: self.update, Operation.DELETE: self.delete}[operation]

    def generated_procedure(self, operation: Operation) -> str:
        """Return the name of the generated procedure for an operation."""
        return {
            Operation.INSERT: self.insert_procedure,
            Operation.UPDATE: self.update_procedure,
            Operation.DELETE: self.delete_procedure,
        }[operation]


def define_article(
    table: SourceTable, publication: str, request: ArticleRequest, article_id: str, taken_names: Iterable[str]
) -> Article:
    """Return the definition of a new article; `taken_names` are other articles' procedures.

    Raises the errors of tables, columns, commands and filters.
    """
    if table.kind not in (TableKind.ORDINARY, TableKind.PARTITIONED):
        raise TableNotPublishable(table.qualified_name, table.kind.value)
    for partition in table.row_holders:
        if partition.kind is not TableKind.ORDINARY:
            raise PartitionNotPublishable(table.qualified_name, partition.qualified_name, partition.kind.value)
    commands = {**DEFAULTS, **request.commands}
    _require_key(table, commands)
    columns = tuple(_published(column) for column in _choose_columns(table, request.columns))
    if request.where is not None:
        _parse_filter(request.where, columns)
    _require_room(table, columns, commands)
    procedures = _name_procedures(table, article_id, set(taken_names))
    return Article(
        article_id=article_id,
        publication=publication,
        name=table.name,
        source_id=table.source_id,
        schema=table.schema,
        table=table.name,
        columns=columns,
        insert=commands[Operation.INSERT],
        update=commands[Operation.UPDATE],
        delete=commands[Operation.DELETE],
        insert_procedure=procedures[Operation.INSERT],
        update_procedure=procedures[Operation.UPDATE],
        delete_procedure=procedures[Operation.DELETE],
        before_images=_choose_images(table, commands, request),
        has_all_columns=request.columns is None,
        generated_columns=tuple(column.name for column in table.columns if column.is_generated),
        filter_clause=request.where,
        is_partitioned=table.kind is TableKind.PARTITIONED,
        key_updates=request.key_updates,
        moved_partitions=request.moved_partitions,
        generated=tuple(
            GeneratedColumn(column.number, column.name, column.type_text, column.expression)
            for column in table.columns
            if column.expression is not None and not column.is_virtual
        ),
    )


def with_conflict_detection(article: Article, *, is_divided: bool) -> Article:
    """Return an article whose changes carry whole rows, old and new, for delivery that looks for conflicts.

    `is_divided`: a change of the key is a delete and an insert.
    """
    return replace(
        article,
        insert=Command(CallFormat.CALL),
        update=Command(CallFormat.XCALL),
        delete=Command(CallFormat.XCALL),
        key_updates=KeyUpdates.DELETE_INSERT if is_divided else KeyUpdates.UPDATE,
    )


def as_member(article: Article) -> Member:
    """Return the article as the log sees it."""
    return Member(
        member_id=article.article_id,
        feature=FEATURE,
        name=f"{article.publication}/{article.name}",
        source_id=article.source_id,
        schema=article.schema,
        table=article.table,
        columns=tuple(column.name for column in article.columns),
        column_numbers=tuple(column.number for column in article.columns),
        takes_added=article.has_all_columns,
        definition=_IN_THE_DISTRIBUTION_DATABASE,
    )


def as_copied(article: Article) -> CopiedTable:
    """Return the article's rows as a snapshot copies them."""
    return CopiedTable(
        member_id=article.article_id,
        source_id=article.source_id,
        schema=article.schema,
        table=article.table,
        columns=tuple(column.name for column in article.columns),
        numbers=tuple(column.number for column in article.columns),
        key_columns=tuple(KeyColumn(column.name, column.value_type_text) for column in article.key_columns),
        condition=as_sql(article.condition) if article.condition is not None else None,
        is_partitioned=article.is_partitioned,
    )


_ARTICLE = JsonOf[Article](Article)


def encode_article(article: Article) -> str:
    """Return the definition as JSON."""
    return _ARTICLE.encode(article)


def decode_article(definition: str) -> Article:
    """Read a definition written by `encode_article`."""
    return _ARTICLE.decode(definition)


@lru_cache
def _parse_filter(filter_clause: str, columns: tuple[PublishedColumn, ...]) -> Condition:
    """Return a filter that refers to an article's columns by position."""
    known = (
        FilterColumn(
            index, column.name, column.value_type_text, has_deterministic_collation=column.has_deterministic_collation
        )
        for index, column in enumerate(columns)
    )
    return parse_filter(filter_clause, known)


def _published(column: SourceColumn) -> PublishedColumn:
    return PublishedColumn(
        column.number,
        column.name,
        column.type_text,
        column.type_code,
        column.type_modifier,
        column.is_nullable,
        column.key_ordinal,
        column.value_type_text,
        column.has_deterministic_collation,
    )


def _require_key(table: SourceTable, commands: dict[Operation, Command]) -> None:
    if all(commands[operation].call_format is CallFormat.NONE for operation in _CHANGING):
        return
    if not table.key_columns:
        raise ArticleNeedsKey(table.qualified_name)
    if not _has_identity(table):
        raise KeyCheckedLate(table.qualified_name)
    computed = next((column.name for column in table.key_columns if column.is_generated), None)
    if computed is not None:
        raise KeyGenerated(table.qualified_name, computed)


def _has_identity(table: SourceTable) -> bool:
    """Return whether the primary key identifies rows in the log: the server takes no deferrable one."""
    is_late = any(index.name == table.key_name and not index.is_immediate for index in table.indexes)
    return bool(table.key_columns) and not is_late


def _choose_columns(table: SourceTable, wanted: Sequence[str] | None) -> tuple[SourceColumn, ...]:
    """Return the published columns, in the table's order. Generated ones are computed again at the subscriber."""
    stored = {column.name: column for column in table.columns if not column.is_generated}
    if wanted is None:
        return tuple(stored.values())
    for index, name in enumerate(wanted):
        if name not in stored:
            raise PublishedColumnUnknown(table.qualified_name, name)
        if name in wanted[:index]:
            raise PublishedColumnListedTwice(table.qualified_name, name)
    for column in table.key_columns:
        if column.name not in wanted:
            raise PublishedKeyColumnMissing(table.qualified_name, column.name)
    return tuple(column for name, column in stored.items() if name in wanted)


def _require_room(
    table: SourceTable, columns: Sequence[PublishedColumn], commands: Mapping[Operation, Command]
) -> None:
    keys = sum(column.key_ordinal is not None for column in columns)
    sizes = {ArgumentGroup.OLD_KEY: keys, ArgumentGroup.BITMAP: 1}
    for operation, command in commands.items():
        if command.procedure is None:
            # One that is generated is given whole rows where that would be too many.
            continue
        count = sum(sizes.get(part, len(columns)) for part in parts_of(operation, command.call_format))
        if count > MAX_PARAMETERS:
            raise ArticleTooWide(table.qualified_name, str(command), count, MAX_PARAMETERS)


def _choose_images(table: SourceTable, commands: Mapping[Operation, Command], request: ArticleRequest) -> BeforeImages:
    """Return the old values that the log must carry: an update omits TOASTed values that it did not change.

    A command that takes all values needs the whole old row to fill these in. A bitmap says that they were omitted, but
    not their values. Of a published table the server refuses the application's updates and deletes, delivered or not,
    where nothing identifies its rows; and with a virtual column where the log is to have whole old rows.
    """
    if not _has_identity(table) and request.before_images is BeforeImages.KEY:
        raise ImagesLackKey(table.qualified_name)
    virtual = next((column.name for column in table.columns if column.is_virtual), None)
    for need in reasons_for_whole_rows(commands, request.where, request.key_updates):
        if request.before_images is BeforeImages.KEY:
            raise ImagesNeeded(table.qualified_name, need)
        if table.kind is TableKind.PARTITIONED:
            # A partition that is attached later has a replica identity of its own.
            raise PartitionImagesVary(table.qualified_name, need)
        if virtual is not None:
            raise VirtualColumnPublished(table.qualified_name, virtual, need)
    if virtual is not None:
        if not _has_identity(table):
            raise VirtualColumnPublished(table.qualified_name, virtual, "a table that no primary key identifies")
        if request.before_images is BeforeImages.FULL:
            raise VirtualColumnPublished(table.qualified_name, virtual, "--before-images full")
        return BeforeImages.KEY
    is_deleting_by_key = commands[Operation.DELETE].call_format is not CallFormat.XCALL
    needs_keys_alone = commands[Operation.UPDATE].call_format is CallFormat.NONE and is_deleting_by_key
    if needs_keys_alone and request.where is None and _has_identity(table):
        return request.before_images or BeforeImages.KEY
    return request.before_images or BeforeImages.FULL


def reasons_for_whole_rows(
    commands: Mapping[Operation, Command], filter_clause: str | None, key_updates: KeyUpdates
) -> Iterator[str]:
    """Yield what needs values of updates and deletes that the log is certain to carry only with the whole old row."""
    for operation in _CHANGING:
        command = commands[operation]
        if command.call_format is CallFormat.NONE:
            continue
        if not {ArgumentGroup.NEW, ArgumentGroup.OLD}.isdisjoint(parts_of(operation, command.call_format)):
            yield str(command)
        if filter_clause is not None:
            yield "a row filter"
        if key_updates is KeyUpdates.DELETE_INSERT and operation is Operation.UPDATE:
            yield "--key-updates delete-insert"


def _name_procedures(table: SourceTable, article_id: str, taken: set[str]) -> dict[Operation, str]:
    """Return the documented names, with a part of the article's id if they are taken or too long.

    Schema `a` with table `bc` and schema `ab` with table `c` give the same name.
    """
    documented = {operation: f"{prefix}{table.schema}{table.name}" for operation, prefix in _PREFIXES.items()}
    if all(name not in taken and len(name.encode()) <= MAX_NAME_BYTES for name in documented.values()):
        return documented
    suffix = f"_{article_id.replace('-', '')[:8]}"
    room = MAX_NAME_BYTES - len(suffix)
    return {operation: name.encode()[:room].decode(errors="ignore") + suffix for operation, name in documented.items()}


class ArticleType(StrEnum):
    """A table's rows, or the text of another object."""

    TABLE = "table"
    """The rows of a table."""
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized-view"
    FUNCTION = "function"
    PROCEDURE = "procedure"
    PROCEDURE_EXECUTION = "procedure-execution"
    """Refused: the log has what a procedure did, not that it was called."""
