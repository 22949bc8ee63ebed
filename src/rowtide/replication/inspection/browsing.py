"""The commands in the log store as text, in commit order, delivered or not (SQL Server: sp_browsereplcmds)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from sqlalchemy import Connection, Engine

from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import NUMBERS
from rowtide.log.membership import Enabled
from rowtide.log.store.location import open_own_manifest, open_store
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import ArgumentGroup, CallFormat, parts_of
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.encoding import encode
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls
from rowtide.replication.distributor import publication_records
from rowtide.replication.errors.publishing import ArticleUnknown
from rowtide.replication.publisher import read_source
from rowtide.storage.store import Store


@frozen
class BrowsedCommand:
    """A command as it is delivered; `command_id` is the number of its change in its transaction."""

    xact_seqno: CommitLsn
    publication: str
    article: str
    operation: str
    command_id: int
    command: str


def browse_commands(
    engine: Engine,
    database: str,
    publication: str | None,
    article: str | None,
    from_lsn: CommitLsn | None,
    to_lsn: CommitLsn | None,
) -> Iterator[BrowsedCommand]:
    """Yield the commands of a range, both ends included, one segment in memory at a time.

    Raises `DatabaseNotPublished`, `PublicationUnknown`, `ArticleUnknown` before the first; `ColumnNotLogged` where
    delivery would stop.
    """
    with translated(), engine.connect() as connection:
        source = read_source(connection, database, StoreFormat.require_readable)
        articles = _find_articles(connection, publication, article)
    store = open_store(source.log_store)
    state = open_own_manifest(source, store).state
    first = Position(from_lsn.value) if from_lsn is not None else state.low
    end = Position(to_lsn.value + 1) if to_lsn is not None else state.position
    return _browse(store, state, articles, first, min(end, state.position))


def _find_articles(connection: Connection, publication: str | None, name: str | None) -> Sequence[Article]:
    names = [publication] if publication is not None else publication_records.list_publications(connection)
    ids = [publication_records.get_publication(connection, found) for found in names]
    articles = [article for found in ids for article in publication_records.list_articles(connection, found)]
    if name is None:
        return articles
    named = publication_records.find_named(connection, articles, name)
    if not named:
        raise ArticleUnknown.of(name, publication)
    return named


def _browse(
    store: Store, state: ManifestState, articles: Iterable[Article], first: Position, end: Position
) -> Iterator[BrowsedCommand]:
    begun = {event.member.member_id: event.commit_lsn for event in state.events if isinstance(event, Enabled)}
    versions = [
        (article, version, max(first, _after(begun.get(article.article_id))))
        for article in articles
        for version in state.tables.values()
        if version.shape.source_id == article.source_id
    ]
    for segment in segments_between(state, first, end):
        present = [found for found in versions if found[1].table_id in segment.tables]
        if not present:
            continue
        for call in OrderedCalls.of(_encode(read_segment(store, segment.path), present, end)):
            lsn, command_id, article, operation, arguments = call
            text = command_text(article, operation, arguments)
            name = operation.name.lower()
            yield BrowsedCommand(CommitLsn(lsn), article.publication, article.name, name, command_id, text)


def _after(lsn: CommitLsn | None) -> Position:
    """Return records after the article was added: earlier ones may have other columns."""
    return Position(lsn.value + 1) if lsn is not None else Position(0)


def _encode(
    records: pa.Table, present: Iterable[tuple[Article, LoggedTable, Position]], end: Position
) -> Iterator[Calls]:
    lsns, table_ids = records["commit_lsn"].to_numpy(), records["table_id"].to_numpy()
    for article, version, start in present:
        is_inside = (lsns >= start.value) & (lsns < end.value) & (table_ids == version.table_id)
        yield from encode(article, version.shape, records.filter(is_inside), may_lack_columns=True)


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?")


def command_text(article: Article, operation: Operation, arguments: Arguments) -> str:
    """Return an operation's command with its arguments.

    A call is written in its format's syntax, `{CALL "sp_MSins_publicorders" (1, 'x', null)}`; with format SQL it is the
    statement, without the check that a subscriber adds.
    """
    if operation is Operation.TRUNCATE:
        return f"truncate {_table(article)}"
    command = article.command(operation)
    values = list(_literals(article, operation, arguments))
    if command.call_format is CallFormat.SQL:
        return _statement(article, operation, values)
    name = command.procedure or quote(article.generated_procedure(operation))
    return f"{{{command.call_format} {name} ({', '.join(values)})}}"


def _literals(article: Article, operation: Operation, arguments: Arguments) -> Iterator[str]:
    columns: list[PublishedColumn | None] = []
    for part in parts_of(operation, article.command(operation).call_format):
        match part:
            case ArgumentGroup.NEW | ArgumentGroup.CHANGED | ArgumentGroup.OLD:
                columns += article.columns
            case ArgumentGroup.OLD_KEY:
                columns += article.key_columns
            case ArgumentGroup.BITMAP:
                columns.append(None)
    for column, value in zip(columns, arguments, strict=True):
        yield _bitmap(value) if column is None else _literal(column, value)


def _bitmap(value: bytes | None) -> str:
    return f"0x{(value or b'').decode().removeprefix(chr(92) + 'x')}"


def _literal(column: PublishedColumn, value: bytes | None) -> str:
    if value is None:
        return "null"
    text = value.decode(errors="replace")
    is_number = kind_of(column.type_text) in NUMBERS and _NUMBER.fullmatch(text) is not None
    return text if is_number else quote_literal(text)


def _statement(article: Article, operation: Operation, values: Sequence[str]) -> str:
    names = [quote(column.name) for column in article.columns]
    key = [quote(column.name) for column in article.key_columns]
    match operation:
        case Operation.INSERT:
            return f"insert into {_table(article)} ({', '.join(names)}) values ({', '.join(values)})"
        case Operation.UPDATE:
            changes = ", ".join(_pairs(names, values[: len(names)]))
            where = " and ".join(_pairs(key, values[len(names) :]))
            return f"update {_table(article)} set {changes} where {where}"
        case _:
            return f"delete from {_table(article)} where {' and '.join(_pairs(key, values))}"


def _pairs(names: Iterable[str], values: Iterable[str]) -> Iterator[str]:
    return (f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)
