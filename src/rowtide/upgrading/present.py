"""The stores of the database that a URL names, in the order in which they are migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rowtide.core.upgrades import PresentStore
from rowtide.databases.urls import parse_url


def list_stores(url: str) -> tuple[PresentStore, ...]:
    """Return the stores of a database, none in one where nothing was enabled.

    Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`, `FormatNewer`, `FormatUnnumbered`, and what reading
    them raises.
    """
    found: Callable[[str], Iterable[PresentStore]] = (
        parse_url(url).kind.load_part("rowtide.upgrading", "present").list_stores
    )
    return tuple(found(url))
