"""Complete at a subscriber what an agent that was killed left prepared, without the publisher."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.recovered import RecoveredTransaction


def recover(subscriber: str) -> Sequence[RecoveredTransaction]:
    """Commit or roll back what agents left prepared at a subscriber, each batch as a whole; return that.

    An agent that is at work there stops, as another has taken over (7113); start it again. Nothing is left prepared by
    one stream, nor in a SQLite file. Raises `DatabaseKindUnknown`, and what connecting to the subscriber raises.
    """
    return kind_of(subscriber).recover(subscriber)
