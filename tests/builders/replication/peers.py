"""Databases that publish the same tables to each other, delivered in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builders.capture.captured_databases import LoggedDatabase
from builders.replication.replicated_databases import deliver_all
from rowtide.handle import connect
from rowtide.replication.subscription_settings import IfExists, SyncType

PUBLICATION = "peers"


class Peer(LoggedDatabase):
    """A database of the topology, whose tables are in its publication `peers`."""

    def publish(self, *tables: str, **options: Any) -> None:
        """Publish tables."""
        replication = connect(self.url).replication
        replication.add_publication(PUBLICATION, lake=str(self.lake))
        for table in tables:
            replication.add_article(PUBLICATION, table, **options)

    def subscribe(
        self, other: Peer, sync_type: SyncType = SyncType.REPLICATION_SUPPORT_ONLY, **options: Any
    ) -> tuple[str, ...]:
        """Let another peer have this one's changes; by itself, with the tables and rows that it has."""
        return connect(self.url).replication.add_subscription(PUBLICATION, other.url, sync_type=sync_type, **options)

    def unsubscribe(self, other: Peer) -> None:
        """End another peer's subscription."""
        connect(self.url).replication.drop_subscription(PUBLICATION, other.url)

    def reinitialize(self, if_exists: IfExists) -> None:
        """Copy the tables to all subscribers again."""
        connect(self.url).replication.reinitialize(PUBLICATION, if_exists=if_exists)

    def deliver(self) -> int:
        """Deliver what is committed to all its subscribers; return the number of commands."""
        return sum(report.commands for report in deliver_all(self))

    def rows(self, table: str) -> list[str]:
        """Return a table's rows as text, in order."""
        return [row for (row,) in self.execute(f"select t::text from {table} t order by 1")]


def deliver_until_quiet(peers: Sequence[Peer]) -> int:
    """Deliver in turn until none has anything for another; return the number of commands."""
    commands = 0
    while delivered := sum(peer.deliver() for peer in peers):
        commands += delivered
        assert commands < 10_000, "changes go around"
    return commands
