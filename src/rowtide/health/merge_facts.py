"""Reading what health knows of merge replication, on any database that takes part in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from rowtide.health.facts import MergeFacts
from rowtide.merge.catalogue import list_merged
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.nodes.node import Node
from rowtide.merge.status import list_status


def read_merge(url: str) -> MergeFacts | None:
    """Return what a node knows, None where nothing is merged. Raises what connecting raises."""
    with open_node(url) as node:
        listed = list_status(node)
        return MergeFacts(datetime.now(UTC), listed, tuple(_find_damage(node))) if listed else None


def _find_damage(node: Node) -> Iterator[tuple[str, str]]:
    for article in list_merged(node.connection):
        damage = node.tables.find_damage(article)
        if damage is not None:
            yield article.name, damage
