"""A node of a merge, by its URL: what the parts of `rowtide.connect(url).merge` share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.merge.errors.publishing import MergePublicationUnknown
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import Node


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
