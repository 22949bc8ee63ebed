"""What a subscriber receives when it subscribes."""

from __future__ import annotations

from dataclasses import dataclass, field

from rowtide.copying.chunks import Chunk
from rowtide.core.lsn import Position
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed
from rowtide.replication.snapshot.needs import Need
from rowtide.replication.snapshot.scripts import Script
from rowtide.replication.snapshot.table_details import TableDetails
from rowtide.replication.subscription_settings import SubscriptionSettings
from rowtide.replication.sync_types import Constraints, IfExists
from rowtide.replication.targets.identity import Originators


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """Tables to be created and copied; `details` are each article's, `scripts` those of schema-only articles."""

    if_exists: IfExists
    details: tuple[TableDetails, ...]
    chunks: tuple[Chunk, ...]
    scripts: tuple[Script, ...] = ()


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A subscription whose changes start at `position` of the publisher's log.

    `has_procedures`: the user created them; delivery that looks for conflicts has none. `needs` is what the columns'
    types need. `snapshot` None: the subscriber already has the tables and their rows. `beside` are the articles of the
    subscription that it joins, None if none; `replaced` is what the subscriber has of the article that joins, whose
    table may have another name there, and `altered` is what it is brought through if it is kept, emptied.
    """

    guid: str
    publication: str
    publisher_system: str
    position: Position
    articles: tuple[Article, ...]
    originators: Originators
    has_procedures: bool = False
    settings: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    constraints: Constraints | None = None
    snapshot: NewSnapshot | None = None
    needs: tuple[Need, ...] = ()
    beside: tuple[Article, ...] | None = None
    replaced: Article | None = None
    altered: tuple[Followed, ...] = ()

    @property
    def renamed(self) -> tuple[tuple[str, str], Article] | None:
        """The schema and name that the joining article's table has at the subscriber, if it has others by now."""
        if self.replaced is None:
            return None
        (article,) = self.articles
        before = (self.replaced.schema, self.replaced.table)
        return None if before == (article.schema, article.table) else (before, article)
