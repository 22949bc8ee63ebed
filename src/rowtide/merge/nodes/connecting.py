"""Open the node that a URL names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

from rowtide.core.errors import FileNotWritable
from rowtide.core.formats import FormatOutdated, PresentStore
from rowtide.databases.file_access import make_file
from rowtide.databases.sqlite.connect import begin_file
from rowtide.databases.sqlite.guarding import migrating_alone
from rowtide.databases.urls import DatabaseUrl, parse_url
from rowtide.merge.articles import DeviceLimits
from rowtide.merge.errors.publishing import MergePublicationUnknown
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sqlite.metadata.node_form import find_store


@contextmanager
def open_subscriber(url: str, limits: DeviceLimits | None = None) -> Iterator[Node]:
    """As `open_node`; creates a database that is created by writing to it. Raises `FileNotWritable` too."""
    parsed = parse_url(url)
    if parsed.kind.is_file and parsed.database:
        try:
            make_file(Path(parsed.database))
        except OSError as error:
            raise FileNotWritable(parsed.database, error.strerror or str(error)) from error
        begin_file(Path(parsed.database))
    with open_node(parsed, limits) as node:
        yield node


@contextmanager
def open_synchronised(url: str, limits: DeviceLimits | None = None) -> Iterator[Node]:
    """As `open_node`, for a subscriber to be synchronised: a device's file of an older format is migrated first.

    Raises `MigrationMissing` too.
    """
    with ExitStack() as held:
        try:
            node = held.enter_context(open_node(url, limits))
        except FormatOutdated:
            if not parse_url(url).kind.is_file:
                raise
            # Only now: to look first would open each file twice, and opening parses its whole schema.
            with migrating_alone(url):
                # Another process may just have migrated it.
                outdated = _find_outdated(url)
                if outdated is not None:
                    outdated.migrate()
            node = held.enter_context(open_node(url, limits))
        yield node


def _find_outdated(url: str) -> PresentStore | None:
    """Return the metadata of a file of an older format; opening refuses what is newer or has no number."""
    store = find_store(url)
    is_outdated = store is not None and store.stored is not None and store.stored.number < store.format.number
    return store if is_outdated else None


def address(url: str) -> str:
    """Return a URL as it is stored and shown: without a password, with a file's absolute path."""
    parsed = parse_url(url).without_secrets()
    if parsed.kind.is_file and parsed.database:
        parsed = replace(parsed, database=str(Path(parsed.database).absolute()))
    return str(parsed)


@contextmanager
def open_node(url: str | DatabaseUrl, limits: DeviceLimits | None = None) -> Iterator[Node]:
    """Yield the node on its own connection, which is closed at the end; with limits if strangers write to it.

    Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`, and connection errors; turns the database's errors into
    ours.
    """
    parsed = parse_url(url)
    opened: Node = parsed.kind.load_part("rowtide.merge.nodes", "node").open_node(parsed, limits)
    with closing(opened), opened.failing():
        yield opened


class MergeHandle:
    """A node, by its URL."""

    def __init__(self, url: str) -> None:
        self.url = url

    @contextmanager
    def _open_hub(self, publication: str) -> Iterator[Node]:
        with open_node(self.url) as hub:
            knows(hub, publication)
            yield hub


def knows(node: Node, publication: str | None) -> bool:
    """Return whether any table is merged here. Raises `MergePublicationUnknown` for a publication if none is."""
    if not node.tables.is_prepared() and publication is not None:
        raise MergePublicationUnknown(publication)
    return node.tables.is_prepared()
