"""Change tracking of the database that a URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from rowtide.core.errors import ExtraMissing
from rowtide.tracking.api import ChangeTracking
from rowtide.tracking.errors import UnknownDatabase

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

_CONNECTING = {
    "sqlite": "rowtide.databases.sqlite.connect",
    "postgresql": "rowtide.databases.postgres.connect",
}


@contextmanager
def open_tracking(url: str | URL) -> Iterator[ChangeTracking]:
    """Yield tracking on a connection of its own, closed at the end.

    Raises `UnknownDatabase`, `ExtraMissing`, and what connecting raises.
    """
    from sqlalchemy.engine import make_url

    kind = make_url(url).get_backend_name()
    if kind not in _CONNECTING:
        raise UnknownDatabase(kind)
    try:
        connecting = import_module(_CONNECTING[kind])
    except ModuleNotFoundError as error:
        raise ExtraMissing(error.name or "", "postgres") from error
    with closing(connecting.open_url(url)) as connection:
        yield ChangeTracking(connection)
