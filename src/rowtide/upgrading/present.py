"""The stores of the database that a URL names, in the order in which they are migrated."""

from __future__ import annotations

from collections.abc import Callable

from rowtide.core.formats import PresentStore
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url


@frozen
class Present:
    """What is there: stores, and schemas with rowtide's names whose tables are somebody else's."""

    stores: tuple[PresentStore, ...]
    foreign: tuple[str, ...] = ()


def find_present(url: str) -> Present:
    """Return the stores of a database, none in one where nothing was enabled; also those that cannot be migrated.

    Where the definitions in a database cannot be read, the stores outside of it are not known. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`, `DatabaseCopied`, and what connecting raises.
    """
    find: Callable[[str], Present] = parse_url(url).kind.load_part("rowtide.upgrading", "present").find_present
    return find(url)
