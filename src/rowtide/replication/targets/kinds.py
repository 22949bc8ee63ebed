"""The kinds of subscriber databases. All branching by kind is here; what a kind needs is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rowtide.databases.urls import DatabaseKind, parse_url

if TYPE_CHECKING:
    from rowtide.replication.targets.subscriber_kind import SubscriberKind


def _postgres() -> SubscriberKind:
    from rowtide.replication.targets.postgres.kind import KIND

    return KIND


def _sqlite() -> SubscriberKind:
    from rowtide.replication.targets.sqlite.kind import KIND

    return KIND


_KINDS: Mapping[DatabaseKind, Callable[[], SubscriberKind]] = {
    DatabaseKind.POSTGRESQL: _postgres,
    DatabaseKind.SQLITE: _sqlite,
}


def kind_of(url: str) -> SubscriberKind:
    """Return the kind of subscriber that a URL names. Raises `UrlNotRead`, `DatabaseKindUnknown`."""
    return kind_named(parse_url(url).kind)


def kind_named(kind: DatabaseKind) -> SubscriberKind:
    """Return a kind of subscriber. Raises `KeyError` for one that has none."""
    return _KINDS[kind]()
