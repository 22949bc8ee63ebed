"""What a subscriber is told when it subscribes."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.core.lsn import Position
from rowtide.replication.articles import Article
from rowtide.replication.snapshot.chunks import Chunk
from rowtide.replication.snapshot.table_details import TableDetails
from rowtide.replication.sync_types import Constraints, IfExists


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """Tables that are to be made and copied to; `details` are of each article."""

    if_exists: IfExists
    details: tuple[TableDetails, ...]
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A subscription; its changes begin at `position` of the publisher's log.

    `has_procedures`: they were made by hand. `snapshot` None: the subscriber has the tables and their rows already.
    """

    guid: str
    publication: str
    publisher_system: str
    position: Position
    articles: tuple[Article, ...]
    has_procedures: bool = False
    constraints: Constraints | None = None
    snapshot: NewSnapshot | None = None
