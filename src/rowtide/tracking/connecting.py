"""Change tracking of the database that a URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module

from rowtide.core.extras import naming_extras
from rowtide.databases.urls import POSTGRESQL, SQLITE, DatabaseUrl, parse_url
from rowtide.tracking.api import ChangeTracking

_CONNECTING = {
    SQLITE: "rowtide.databases.sqlite.connect",
    POSTGRESQL: "rowtide.databases.postgres.connect",
}


@contextmanager
def open_tracking(url: str | DatabaseUrl) -> Iterator[ChangeTracking]:
    """Yield tracking on a connection of its own, closed at the end.

    Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`, and what connecting raises.
    """
    parsed = parse_url(url)
    with naming_extras():
        connecting = import_module(_CONNECTING[parsed.kind])
    with closing(connecting.open_url(parsed)) as connection:
        yield ChangeTracking(connection)
