"""The node that a URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from rowtide.core.errors import ExtraMissing, FileNotWritable
from rowtide.merge.errors import UnknownMergeDatabase
from rowtide.merge.node import Node

_NODES = {
    "sqlite": ("rowtide.merge.sqlite.node", "SqliteNode"),
    "postgresql": ("rowtide.merge.postgres.node", "PostgresNode"),
}
_MADE_BY_WRITING = frozenset({"sqlite"})
"""Kinds of databases that an empty file is one of."""


@contextmanager
def open_subscriber(url: str) -> Iterator[Node]:
    """As `open_node`; where a database can be made by writing to it, it is. Raises `FileNotWritable` too."""
    path = make_url(url).database
    if make_url(url).get_backend_name() in _MADE_BY_WRITING and path:
        try:
            Path(path).touch()
        except OSError as error:
            raise FileNotWritable(path, error.strerror or str(error)) from error
    with open_node(url) as node:
        yield node


def address(url: str) -> str:
    """Return a URL as it is kept and shown: without a password, a file's path whole."""
    made = make_url(url)
    if made.get_backend_name() in _MADE_BY_WRITING and made.database:
        made = made.set(database=str(Path(made.database).absolute()))
    return made.set(password=None).render_as_string()


@contextmanager
def open_node(url: str | URL) -> Iterator[Node]:
    """Yield the node on a connection of its own, closed at the end.

    Raises `UnknownMergeDatabase`, `ExtraMissing`, and what connecting raises; for the database's own errors ours.
    """
    kind = make_url(url).get_backend_name()
    if kind not in _NODES:
        raise UnknownMergeDatabase(kind)
    module, name = _NODES[kind]
    try:
        opened: Node = getattr(import_module(module), name).open(str(url))
    except ModuleNotFoundError as error:
        raise ExtraMissing(error.name or "", "postgres") from error
    with closing(opened), opened.failing():
        yield opened
