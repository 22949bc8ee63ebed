"""Compare the rows of a device that reaches its hub by requests with the hub's.

Each end makes digests of its rows, in buckets by rowguid; the device names the first rows of the buckets that differ.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field, replace

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.inspection.validating import SHOWN, ArticleValidation, Rows, record_result
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import UnsentColumn
from rowtide.merge.nodes.untyped_values import as_stored_by_server
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.messages import DeviceState
from rowtide.merge.session.pairing import HUB, Pairing, require_same_schema, require_tables
from rowtide.merge.versions.changes import Row

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
        record_result(hub, pairing, is_equal=request.is_equal)
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
            first = tuple(dict.fromkeys(named))[:SHOWN]
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
