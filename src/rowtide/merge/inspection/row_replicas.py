"""What each node is known to have of a row, and why (SQL Server: sp_showrowreplicainfo)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Publication, Subscription
from rowtide.merge.catalogue import list_articles, list_publications, read_nickname
from rowtide.merge.errors.publishing import ArticleTableNotFound
from rowtide.merge.exchange_state import list_retry_reasons, list_subscriptions
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.versions.changes import KnownVersion
from rowtide.merge.versions.comparison import Presence


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
