"""Change tracking of the database that a URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.tracking.api import ChangeTracking

if TYPE_CHECKING:
    from rowtide.tracking.api import Connection


@contextmanager
def open_tracking(url: str | DatabaseUrl) -> Iterator[ChangeTracking]:
    """Yield tracking on its own connection, which is closed at the end. Raises as `connect`."""
    with closing(connect(url)) as connection:
        yield ChangeTracking(connection)


def connect(url: str | DatabaseUrl) -> Connection:
    """Open a connection for `ChangeTracking`.

    Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`, and connection errors.
    """
    parsed = parse_url(url)
    connection: Connection = parsed.kind.load_part("rowtide.databases", "connect").open_url(parsed)
    return connection
