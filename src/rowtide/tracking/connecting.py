"""Change tracking of the database that a URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from rowtide.core.extras import naming_extras
from rowtide.databases.urls import POSTGRESQL, SQLITE, DatabaseUrl, parse_url
from rowtide.tracking.api import ChangeTracking

if TYPE_CHECKING:
    from rowtide.tracking.api import Connection

_CONNECTING = {
    SQLITE: "rowtide.databases.sqlite.connect",
    POSTGRESQL: "rowtide.databases.postgres.connect",
}


@contextmanager
def open_tracking(url: str | DatabaseUrl) -> Iterator[ChangeTracking]:
    """Yield tracking on a connection of its own, closed at the end. Raises as `connect`."""
    with closing(connect(url)) as connection:
        yield ChangeTracking(connection)


def connect(url: str | DatabaseUrl) -> Connection:
    """Open a connection that `ChangeTracking` takes.

    Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`, and what connecting raises.
    """
    parsed = parse_url(url)
    with naming_extras():
        connecting = import_module(_CONNECTING[parsed.kind])
    connection: Connection = connecting.open_url(parsed)
    return connection
