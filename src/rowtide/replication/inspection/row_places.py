"""Where a row is on its way: at the publisher, in the log store, and at each subscriber."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
from sqlalchemy import Engine

from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat, Command, KeyUpdates
from rowtide.replication.distribution.calls.encoding import encode
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls
from rowtide.replication.distribution.log_calls import are_local
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import RowKeyInvalid
from rowtide.replication.errors.publishing import ArticleUnknown
from rowtide.replication.inspection.comparing import SubscriberComparison, open_comparison, open_publisher
from rowtide.replication.inspection.differences import (
    as_json,
    changes_by_key,
    differing_columns,
    key_as_json,
    read_differing,
)
from rowtide.replication.inspection.moving import NotComparable
from rowtide.replication.publisher import read_source
from rowtide.replication.targets.compared_rows import Row, key_of
from rowtide.replication.targets.postgres.comparison.rows import PostgresRows

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


def _read_key(rows: PostgresRows, article: Article, given: Sequence[str]) -> Row:
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


def _at_publisher(rows: PostgresRows, article: Article, key: Row, last: RowCommand | None) -> RowPlace:
    published = rows.find_rows(article, [key])
    present = published or rows.unfiltered().find_rows(article, [key])
    state = PRESENT if published else FILTERED_OUT if present else ABSENT
    place = RowPlace(PUBLISHER, article.publication, article.name, state, key_as_json(article, key))
    return _with_command(replace(place, row=as_json(article, present[0]) if present else None), last)


def _at_subscriber(comparison: SubscriberComparison, article: Article, key: Row) -> RowPlace:
    subscription = comparison.subscription
    place = RowPlace(
        redact(subscription.subscriber), subscription.publication, article.name, NOT_COMPARED, key_as_json(article, key)
    )
    try:
        move = comparison.plan(article)
        changes = changes_by_key(article, comparison.list_changes(move, with_values=True), key.__eq__)
    except NotComparable as error:
        return replace(place, reason=error.reason)
    (row,) = read_differing(comparison, article, [key], changes)
    columns = differing_columns(article, row)
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
        row=as_json(article, row.present),
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
