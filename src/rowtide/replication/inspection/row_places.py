"""Where a row is: at the publisher, in the log store as commands, and at each subscriber.

(SQL Server: sp_browsereplcmds lists the commands of the log store, in commit order, delivered or not.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection, Engine

from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.tables import LoggedTable
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.databases.types.registry import kind_of
from rowtide.databases.types.value_type import NUMBERS
from rowtide.log.membership import Enabled
from rowtide.log.store.location import open_own_manifest, open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import ArgumentGroup, CallFormat, Command, KeyUpdates, parts_of
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.encoding import encode
from rowtide.replication.distribution.calls.from_log import are_local
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import RowKeyInvalid
from rowtide.replication.errors.publishing import ArticleUnknown
from rowtide.replication.inspection import differences
from rowtide.replication.inspection.comparing import SubscriberComparison, open_comparison, open_publisher
from rowtide.replication.inspection.rows_at_position import NotComparable
from rowtide.replication.targets.compared_rows import Row, key_of
from rowtide.replication.targets.postgres.comparison.rows import PostgresComparedRows
from rowtide.storage.store import Store

PUBLISHER = "publisher"
PRESENT, ABSENT, FILTERED_OUT = "present", "absent", "left out by the filter"
EQUAL, DIFFERENT, MISSING, EXTRA, NOT_COMPARED = "equal", "different", "missing", "extra", "not compared"
_CALL, _XCALL = Command(CallFormat.CALL), Command(CallFormat.XCALL)


@frozen
class RowPlace:
    """A row at the publisher, or at a subscriber of an article; `row` is a JSON object of texts by column.

    At the publisher, `state` is `present`, `absent`, or `left out by the filter` of the article. At a subscriber the
    row is compared at its `position`: it is `equal`, `different` in `columns`, `missing` or `extra` there, `absent` on
    both sides, or `not compared` for a `reason`. `queued` commands for the row wait for the subscriber.

    `xact_seqno`, `committed_at`, `operation` and `command_id` are of the last command for the row: at the publisher in
    the log store, at a subscriber of those that were delivered. None: the log store has none.
    """

    place: str
    publication: str
    article: str
    state: str
    key: str
    queued: int | None = None
    xact_seqno: CommitLsn | None = None
    committed_at: datetime | None = None
    operation: str | None = None
    command_id: int | None = None
    row: str | None = None
    columns: tuple[str, ...] = ()
    position: Position | None = None
    reason: str | None = None


@frozen
class RowCommand:
    """A command for a row in the log store."""

    lsn: CommitLsn
    command_id: int
    operation: Operation
    committed_at: datetime


def find_row(engine: Engine, url: str, table: str, key: Sequence[str]) -> Iterator[RowPlace]:
    """Yield where a row is, for each article of a table; the key's values are in key order.

    Raises `ArticleUnknown`, `RowKeyInvalid`, and as comparing does.
    """
    with translated(), engine.connect() as connection:
        read_source(connection, url, StoreFormat.require_readable)
        known = publication_records.list_all_articles(connection)
        subscriptions = subscription_records.list_subscriptions(connection)
        articles = publication_records.find_named(connection, known, table)
    if not articles:
        raise ArticleUnknown.of(table, None)
    for article in articles:
        subscribed = [one for one in subscriptions if article.article_id in one.starts and one.joins is None]
        yield from _find(engine, url, article, subscribed, key)


def _find(
    engine: Engine, url: str, article: Article, subscriptions: Sequence[Subscription], given: Sequence[str]
) -> Iterator[RowPlace]:
    with open_publisher(engine, url, [article]) as publisher:
        if article.article_id in publisher.rows.constraints:
            raise RowKeyInvalid(article.name, ", ".join(given), publisher.rows.constraints[article.article_id])
        key = _read_key(publisher.rows.rows, article, given)
        last = next(list_commands(publisher.manifest, article, key, forwards=True), None)
        yield _at_publisher(publisher.rows.rows, article, key, last)
    for subscription in subscriptions:
        with translated(), engine.connect() as connection:
            held = subscription_records.list_subscribed(connection, subscription.agent_id)
        mine = [one for one in held if one.article_id == article.article_id]
        with open_comparison(engine, url, subscription, mine) as comparison:
            for known in comparison.articles:
                yield _at_subscriber(comparison, known, key)


def _read_key(rows: PostgresComparedRows, article: Article, given: Sequence[str]) -> Row:
    """Return the key as the log has it. Raises `RowKeyInvalid`."""
    names = ", ".join(column.name for column in article.key_columns)
    if not names:
        raise RowKeyInvalid(article.name, ", ".join(given), "the table has no primary key")
    if len(given) != len(article.key_columns):
        raise RowKeyInvalid(article.name, ", ".join(given), f"its key has the columns {names}")
    try:
        return rows.read_key(article, given)
    except ValueError as error:
        raise RowKeyInvalid(article.name, ", ".join(given), str(error)) from error


def _at_publisher(rows: PostgresComparedRows, article: Article, key: Row, last: RowCommand | None) -> RowPlace:
    published = rows.find_rows(article, [key])
    present = published or rows.unfiltered().find_rows(article, [key])
    state = PRESENT if published else FILTERED_OUT if present else ABSENT
    place = RowPlace(PUBLISHER, article.publication, article.name, state, differences.key_as_json(article, key))
    return _with_command(replace(place, row=differences.as_json(article, present[0]) if present else None), last)


def _at_subscriber(comparison: SubscriberComparison, article: Article, key: Row) -> RowPlace:
    subscription = comparison.subscription
    place = RowPlace(
        redact(subscription.subscriber),
        subscription.publication,
        article.name,
        NOT_COMPARED,
        differences.key_as_json(article, key),
    )
    try:
        move = comparison.plan(article)
        changes = differences.changes_by_key(article, comparison.list_changes(move, with_values=True), key.__eq__)
    except NotComparable as error:
        return replace(place, reason=error.reason)
    (row,) = differences.read_differing(comparison, article, [key], changes)
    columns = differences.differing_columns(article, row)
    states = {(True, True): DIFFERENT if columns else EQUAL, (True, False): MISSING, (False, True): EXTRA}
    state = states.get((row.published is not None, row.present is not None), ABSENT)
    queued, last = 0, None
    for command in list_commands(comparison.manifest, article, key, forwards=subscription.forwards):
        if move.position.covers(command.lsn):
            last = command
            break
        queued += 1
    described = replace(
        place,
        state=state,
        queued=queued,
        row=differences.as_json(article, row.present),
        columns=columns,
        position=move.position,
    )
    return _with_command(described, last)


def _with_command(place: RowPlace, command: RowCommand | None) -> RowPlace:
    if command is None:
        return place
    return replace(
        place,
        xact_seqno=command.lsn,
        committed_at=command.committed_at,
        operation=command.operation.name.lower(),
        command_id=command.command_id,
    )


def list_commands(manifest: Manifest, article: Article, key: Row, *, forwards: bool) -> Iterator[RowCommand]:
    """Yield the commands for a row, newest first, a segment in memory at a time.

    Without `forwards`, only of the publisher's own changes. A truncate is one of every row.
    """
    state = manifest.state
    versions = [version for version in state.tables.values() if version.shape.source_id == article.source_id]
    tables = {version.table_id for version in versions}
    whole = replace(article, insert=_CALL, update=_XCALL, delete=_XCALL, key_updates=KeyUpdates.UPDATE)
    for segment in reversed(state.segments):
        if tables.isdisjoint(segment.tables):
            continue
        records = read_segment(manifest.store, segment.path)
        is_sent = np.ones(records.num_rows, np.bool_) if forwards else are_local(records)
        table_ids = records["table_id"].to_numpy()
        groups = [
            calls
            for version in versions
            for calls in encode(
                whole, version.shape, records.filter(is_sent & (table_ids == version.table_id)), may_lack_columns=True
            )
        ]
        yield from reversed(list(_of_key(groups, article, key, _commit_times(records))))


def _of_key(groups: Sequence[Calls], article: Article, key: Row, times: dict[int, datetime]) -> Iterator[RowCommand]:
    width = len(article.columns)
    for call in OrderedCalls.of(groups):
        rows = {tuple(call.arguments[:width]), tuple(call.arguments[-width:])} if call.arguments else set()
        if call.operation is Operation.TRUNCATE or any(key_of(article, row) == key for row in rows):
            yield RowCommand(CommitLsn(call.lsn), call.seqval, call.operation, times[call.lsn])


def _commit_times(records: pa.Table) -> dict[int, datetime]:
    pairs = zip(records["commit_lsn"].to_pylist(), records["commit_time"].to_pylist(), strict=True)
    return {lsn: time for lsn, time in pairs if lsn is not None and time is not None}


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
