"""The node that a URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module

from sqlalchemy.engine import URL, make_url

from rowtide.core.errors import ExtraMissing
from rowtide.merge.errors import UnknownMergeDatabase
from rowtide.merge.node import Node

_NODES = {
    "sqlite": ("rowtide.merge.sqlite.node", "SqliteNode"),
    "postgresql": ("rowtide.merge.postgres.node", "PostgresNode"),
}


@contextmanager
def open_node(url: str | URL) -> Iterator[Node]:
    """Yield the node on a connection of its own, closed at the end.

    Raises `UnknownMergeDatabase`, `ExtraMissing`, and what connecting raises.
    """
    kind = make_url(url).get_backend_name()
    if kind not in _NODES:
        raise UnknownMergeDatabase(kind)
    module, name = _NODES[kind]
    try:
        opened: Node = getattr(import_module(module), name).open(str(url))
    except ModuleNotFoundError as error:
        raise ExtraMissing(error.name or "", "postgres") from error
    with closing(opened):
        yield opened
