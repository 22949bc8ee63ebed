"""The databases that a monitor polls, by the names that its metrics have as the label `database`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath

from rowtide.core.values import frozen
from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.monitor.errors import DatabaseGivenTwice


@frozen
class NamedUrl:
    """A database to be polled."""

    name: str
    url: str


def name_databases(urls: Iterable[str]) -> tuple[NamedUrl, ...]:
    """Name databases by their own names, those of one name with their servers.

    Raises `DatabaseGivenTwice`, `UrlNotRead`, `DatabaseKindUnknown`.
    """
    parsed = [(url, parse_url(url)) for url in urls]
    shared = Counter(_own_name(one) for _, one in parsed)
    named = tuple(
        NamedUrl(_own_name(one) if shared[_own_name(one)] == 1 else _full_name(one), url) for url, one in parsed
    )
    require_distinct(named)
    return named


def require_distinct(databases: Iterable[NamedUrl]) -> None:
    """Raise `DatabaseGivenTwice` if two databases have one name."""
    counted = Counter(one.name for one in databases)
    for name, count in counted.items():
        if count > 1:
            raise DatabaseGivenTwice(name)


def _own_name(url: DatabaseUrl) -> str:
    if url.kind.is_file:
        return PurePath(url.database or "").name
    return url.name


def _full_name(url: DatabaseUrl) -> str:
    if url.kind.is_file:
        return url.database or ""
    given = url.parameters
    place = ":".join(given[part] for part in ("host", "port") if part in given)
    return f"{place}/{url.name}" if place else url.name
