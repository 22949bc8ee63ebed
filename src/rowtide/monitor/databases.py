"""The databases that a monitor polls, by the names that its metrics have as the label `database`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from rowtide.configuration.settings import DatabaseSettings
from rowtide.core.values import frozen
from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.monitor.errors import DatabaseGivenTwice


@frozen
class NamedUrl:
    """A database to be polled."""

    name: str
    url: str


def name_databases(given: Sequence[str], find_url: Callable[[str], str] = str) -> tuple[NamedUrl, ...]:
    """Name databases by the names that `find_url` knows, those that are given by URLs by their own, or with servers.

    Raises `DatabaseGivenTwice`, `UrlNotRead`, `DatabaseKindUnknown`.
    """
    urls = [find_url(text) for text in given]
    parsed = [parse_url(url) if url == text else None for text, url in zip(given, urls, strict=True)]
    shared = Counter(_own_name(one) for one in parsed if one is not None)

    def name(text: str, one: DatabaseUrl | None) -> str:
        if one is None:
            return text
        return _own_name(one) if shared[_own_name(one)] == 1 else _full_name(one)

    named = tuple(NamedUrl(name(text, one), url) for text, one, url in zip(given, parsed, urls, strict=True))
    require_distinct(named)
    return named


class OperatorUrls(Mapping[str, str]):
    """The operators' URLs of databases, by name; the file may name others while the monitor runs."""

    def __init__(self, found: Mapping[str, str]) -> None:
        self._found = found

    def replace(self, found: Mapping[str, str]) -> None:
        """Use other URLs from the next action on."""
        self._found = found

    def __getitem__(self, name: str) -> str:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


def find_operator_urls(databases: Iterable[NamedUrl], settings: Mapping[str, DatabaseSettings]) -> dict[str, str]:
    """Return the operators' URLs of databases, by name; one that only has the name of a configured one has none."""
    found: dict[str, str] = {}
    for one in databases:
        known = settings.get(one.name)
        if known is not None and known.operator_url is not None and parse_url(one.url) == known.url:
            found[one.name] = str(known.operator_url)
    return found


def find_audit_days(databases: Iterable[NamedUrl], settings: Mapping[str, DatabaseSettings]) -> dict[str, int]:
    """Return how long the audits of configured databases keep entries, by name."""
    return {one.name: settings[one.name].audit_days for one in databases if one.name in settings}


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
