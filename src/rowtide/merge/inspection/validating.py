"""Compare a subscriber's rows with the hub's, and explain a row at each node (SQL Server: sp_showrowreplicainfo)."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from datetime import UTC, datetime

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Publication, Subscription
from rowtide.merge.catalogue import list_articles, list_publications, read_nickname
from rowtide.merge.errors.publishing import ArticleTableNotFound
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.nodes.node_tables import UnsentColumn
from rowtide.merge.nodes.untyped_values import are_same, as_stored_by_server
from rowtide.merge.progress import list_retry_reasons, list_subscriptions, set_subscription
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.messages import DeviceState
from rowtide.merge.session.pairing import HUB, Pairing, require_same_schema, require_tables, unsent_columns
from rowtide.merge.versions.changes import KnownVersion, Row
from rowtide.merge.versions.comparison import Presence

_SHOWN = 3
Rows = Iterator[Sequence[tuple[str, Row]]]
"""Batches of rows with their rowguids, by rowguid."""


@frozen
class ArticleValidation:
    """Result of comparing a table.

    `checksum` is the hub's, over all rows and values in rowguid order; None if only rows were counted. `differing`
    lists the first rows that only one node has, or that have different values; `unsent` the columns that only one node
    has, which are not compared.
    """

    article: str
    publisher_rows: int
    subscriber_rows: int
    checksum: str | None
    is_equal: bool
    differing: tuple[str, ...]
    unsent: tuple[str, ...] = ()


def validate(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    *,
    checksum: bool,
    on_progress: Callable[[str], None] = lambda _article: None,
) -> Sequence[ArticleValidation]:
    """Compare all tables but upload-only ones, each node in one snapshot.

    Changes that are not exchanged yet count as differences.
    Raises `DefinitionsDiffer`, `MergedTableAltered`.
    """
    require_same_schema(hub, pairing)
    require_tables(hub, HUB, pairing.going_down)
    require_tables(subscriber, pairing.at_hub.subscriber, pairing.going_down)
    unsent = unsent_columns(pairing, *(node.tables.examine(pairing.articles).unsent for node in (hub, subscriber)))
    with hub.changes.enumerating() as ours, subscriber.changes.enumerating() as theirs:
        found = []
        for article in pairing.going_down:
            on_progress(article.name)
            row_filter = pairing.filters.get(article.nickname)
            rows = (ours.rows(article, row_filter), theirs.rows(article))
            compared = _compare(article, *rows) if checksum else _count(article, *rows)
            named = tuple(str(each) for each in unsent if each.table == article.qualified_name)
            found.append(replace(compared, unsent=named))
        return found


def record_validation(hub: Node, pairing: Pairing, found: Sequence[ArticleValidation]) -> None:
    """Store at the hub that a subscriber was validated, and whether all rows were equal."""
    _record(hub, pairing, is_equal=all(each.is_equal for each in found))


def _record(hub: Node, pairing: Pairing, *, is_equal: bool) -> None:
    now = datetime.now(UTC)
    dates = {"attempted_validate": now} | ({"last_validated": now} if is_equal else {})
    with hub.transaction():
        set_subscription(hub.connection, pairing.at_hub.subid, **dates)


def _count(article: Article, ours: Rows, theirs: Rows) -> ArticleValidation:
    counts = [sum(map(len, rows)) for rows in (ours, theirs)]
    return ArticleValidation(article.name, counts[0], counts[1], None, counts[0] == counts[1], ())


def _compare(article: Article, ours: Rows, theirs: Rows) -> ArticleValidation:
    one, other = _NodeRows(ours), _NodeRows(theirs)
    differing: list[str] = []
    is_equal = True
    while one.rowguid is not None or other.rowguid is not None:
        first = min(each.rowguid for each in (one, other) if each.rowguid is not None)
        is_same = one.rowguid == other.rowguid and are_same(article, one.row, other.row)
        if not is_same:
            is_equal = False
            if len(differing) < _SHOWN:
                differing.append(first)
        for each in (one, other):
            if each.rowguid == first:
                each.step()
    return ArticleValidation(article.name, one.count, other.count, one.checksum, is_equal, tuple(differing))


class _NodeRows:
    """A node's rows one by one, by rowguid; at the end `rowguid` is None."""

    def __init__(self, batches: Rows) -> None:
        self._rows = (pair for batch in batches for pair in batch)
        self._hash = hashlib.sha256()
        self.count = -1
        self.rowguid: str | None = None
        self.row: Row = ()
        self.step()

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()[:32]

    def step(self) -> None:
        self.count += 1
        self.rowguid, self.row = next(self._rows, (None, ()))
        if self.rowguid is not None:
            self._hash.update(repr((self.rowguid, self.row)).encode())


# Validation of a device that reaches its hub by requests: each end makes digests of its rows, in buckets by rowguid;
# the device names the first rows of the buckets that differ.

BUCKETS = 256
_DIGEST_BYTES = 16
_MOST_BUCKETS = 3
"""Number of buckets whose rows are compared one by one: more rows differ in them than are named."""


@frozen
class ArticleDigest:
    """Rows of an article at the hub: how many, their checksum, and the digests of their buckets, if values count."""

    article: int
    rows: int
    checksum: str | None = None
    buckets: Sequence[bytes] = ()


@frozen
class ValidateRequest:
    """A device compares its rows with its hub's: all, in `buckets` those of some, by the article's nickname.

    With `is_equal` it says what it has found, and nothing is compared.
    """

    state: DeviceState
    has_checksum: bool = False
    buckets: Mapping[int, Sequence[int]] = field(default_factory=dict)
    is_equal: bool | None = None


@frozen
class ValidateAnswer:
    """Rows of the hub, or digests of the rows of some buckets, by the article's nickname.

    `unsent` are columns that its tables have and that are not sent.
    """

    articles: Sequence[ArticleDigest] = ()
    rows: Mapping[int, Mapping[str, bytes]] = field(default_factory=dict)
    unsent: Mapping[int, Sequence[str]] = field(default_factory=dict)


def serve_validation(hub: Node, pairing: Pairing, request: ValidateRequest) -> ValidateAnswer:
    """Return what a device's rows are compared with. Raises `DefinitionsDiffer`, `MergedTableAltered`."""
    if request.is_equal is not None:
        _record(hub, pairing, is_equal=request.is_equal)
        return ValidateAnswer()
    require_same_schema(hub, pairing)
    require_tables(hub, HUB, pairing.going_down)
    with hub.changes.enumerating() as enumeration:
        reading = {
            article.nickname: (article, enumeration.rows(article, pairing.filters.get(article.nickname)))
            for article in pairing.going_down
        }
        if request.buckets:
            wanted = {number: set(buckets) for number, buckets in request.buckets.items() if number in reading}
            return ValidateAnswer(
                rows={number: _digest_some(*reading[number], buckets) for number, buckets in wanted.items()}
            )
        found = [_digest_all(*each, has_checksum=request.has_checksum) for each in reading.values()]
    return ValidateAnswer(found, unsent=hub.tables.examine(pairing.articles).unsent)


def validate_device(
    device: DeviceHalf,
    subscriber_name: str,
    ask: Callable[[ValidateRequest], ValidateAnswer],
    *,
    checksum: bool,
    on_progress: Callable[[str], None] = lambda _article: None,
) -> Sequence[ArticleValidation]:
    """Compare all tables of a device with its hub's but upload-only ones, each end in one snapshot; see `validate`.

    Values of columns without a type are compared as texts. Raises what `serve_validation` raises; `NodeCopied`.
    """
    state = replace(device.describe(examines=False), definitions=device.known)
    going_down = [article for article in device.known if not article.is_upload_only]
    require_tables(device.node, subscriber_name, going_down)
    answer = ask(ValidateRequest(state, checksum))
    there = {each.article: each for each in answer.articles}
    unsent = {HUB: answer.unsent, subscriber_name: device.node.tables.examine(device.known).unsent}
    found: list[ArticleValidation] = []
    with device.node.changes.enumerating() as enumeration:
        for article in going_down:
            on_progress(article.name)
            ours = there[article.nickname]
            theirs = _digest_all(article, enumeration.rows(article), has_checksum=checksum)
            differing = [
                number
                for number, (one, other) in enumerate(zip(ours.buckets, theirs.buckets, strict=True))
                if one != other
            ][:_MOST_BUCKETS]
            named: tuple[str, ...] = ()
            if differing:
                wanted = {article.nickname: differing}
                rows = ask(ValidateRequest(state, checksum, wanted)).rows.get(article.nickname, {})
                own = _digest_some(article, enumeration.rows(article), set(differing))
                named = tuple(sorted(rowguid for rowguid, _ in rows.items() ^ own.items()))
            is_equal = ours.rows == theirs.rows and not differing
            columns = tuple(
                str(UnsentColumn(article.qualified_name, column, node))
                for node, listed in unsent.items()
                if not (article.vertical_partition and node == HUB)
                for column in listed.get(article.nickname, ())
            )
            first = tuple(dict.fromkeys(named))[:_SHOWN]
            found.append(
                ArticleValidation(article.name, ours.rows, theirs.rows, ours.checksum, is_equal, first, columns)
            )
    ask(ValidateRequest(state, checksum, is_equal=all(each.is_equal for each in found)))
    return found


def _digest_all(article: Article, batches: Rows, *, has_checksum: bool) -> ArticleDigest:
    if not has_checksum:
        return ArticleDigest(article.nickname, sum(map(len, batches)))
    buckets, count, checksum = [0] * BUCKETS, 0, hashlib.sha256()
    for batch in batches:
        count += len(batch)
        for rowguid, row in batch:
            checksum.update(repr((rowguid, row)).encode())
            buckets[_bucket_of(rowguid)] ^= int.from_bytes(_digest(article, rowguid, row))
    digests = [number.to_bytes(_DIGEST_BYTES) for number in buckets]
    return ArticleDigest(article.nickname, count, checksum.hexdigest()[:32], digests)


def _digest_some(article: Article, batches: Rows, buckets: Set[int]) -> dict[str, bytes]:
    return {
        rowguid: _digest(article, rowguid, row)
        for batch in batches
        for rowguid, row in batch
        if _bucket_of(rowguid) in buckets
    }


def _bucket_of(rowguid: str) -> int:
    return zlib.crc32(rowguid.encode()) % BUCKETS


def _digest(article: Article, rowguid: str, row: Row) -> bytes:
    said = repr((rowguid, as_stored_by_server(article, row))).encode()
    return hashlib.blake2b(said, digest_size=_DIGEST_BYTES).digest()


@frozen
class RowReplica:
    """What this node knows of a row at one node; `version` is the last change of that node that the row includes.

    `rowversion_table` is the table that has the version: contents or tombstone; None if the row has no metadata.
    """

    publication: str
    server: str
    nickname: str
    version: int | None
    state: str
    rowversion_table: str | None
    comment: str


def explain(node: Node, table: str, rowguid: str) -> Sequence[RowReplica]:
    """Return one `RowReplica` for each node. Raises `ArticleTableNotFound`."""
    found = [
        (publication, article)
        for publication in list_publications(node.connection)
        for article in list_articles(node.connection, publication.pubid)
        if article.is_named(table)
    ]
    if not found:
        raise ArticleTableNotFound(table)
    return [row for publication, article in found for row in _explain(node, publication, article, rowguid.lower())]


def _explain(node: Node, publication: Publication, article: Article, rowguid: str) -> Iterator[RowReplica]:
    own = read_nickname(node.connection)
    known = transact_at(node, lambda: node.versions.read_known(article, [rowguid])).get(rowguid)
    others = list_subscriptions(node.connection, publication.pubid)
    names = {own: "this node"} | {other.nickname: _name(publication, other) for other in others}
    source = _source(known)
    yield RowReplica(
        publication.name, "this node", f"{own:012x}", _version(known, own), _state(known), source, _said(known, names)
    )
    for other in others:
        reason = list_retry_reasons(node.connection, other.nickname, article.nickname).get(rowguid)
        comment = f"its row was refused here and is requested again: {reason}" if reason else _sent(known, other)
        state = "unknown" if known is None else ("pending" if _is_pending(known, other) else _state(known))
        nickname = f"{other.nickname:012x}"
        version = _version(known, other.nickname)
        yield RowReplica(publication.name, names[other.nickname], nickname, version, state, source, comment)


def _name(publication: Publication, other: Subscription) -> str:
    return "the publisher" if other.nickname == publication.publisher else other.subscriber


def _version(known: KnownVersion | None, nickname: int) -> int | None:
    return (known.version.lineage.version_of(nickname) or None) if known is not None else None


def _state(known: KnownVersion | None) -> str:
    return "unknown" if known is None else known.version.presence.value


def _source(known: KnownVersion | None) -> str | None:
    if known is None or known.generation is None:
        return None
    return "contents" if known.version.presence is Presence.LIVE else "tombstone"


def _said(known: KnownVersion | None, names: dict[int, str]) -> str:
    if known is None:
        return "there is no such row, and nothing is known of one"
    if known.generation is None:
        return "it has not been changed since all nodes have it"
    if known.origin is None:
        return f"changed here, in generation {known.generation}"
    made = "" if known.version.last is None else names.get(known.version.last.nickname, "another node")
    return f"came from {names.get(known.origin, 'another node')}, made by {made}, in generation {known.generation} here"


def _is_pending(known: KnownVersion, other: Subscription) -> bool:
    return known.generation is not None and known.origin != other.nickname and known.generation > other.sent


def _sent(known: KnownVersion | None, other: Subscription) -> str:
    if known is None:
        return "nothing is to be sent"
    if known.generation is None:
        return "it has the row since its snapshot, or a synchronisation long ago"
    if known.origin == other.nickname:
        return "the version is its own"
    if _is_pending(known, other):
        return f"still to be sent: generation {known.generation}, and {other.sent} is the last that was"
    return f"sent: generation {known.generation} of {other.sent}"
