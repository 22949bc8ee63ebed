"""Conflicts that a function of the hub's database decides, as named by `--resolver procedure:schema.name`. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.core.values import frozen
from rowtide.merge.conflicts.resolution import Contest, Custom, Verdict, Winner
from rowtide.merge.conflicts.resolvers import by_priority
from rowtide.merge.versions.changes import Row


@frozen
class Answered:
    """The function's rows, by rowguid; rows that it was not asked about, or left open, go by priority."""

    rows: Mapping[str, Row | None]

    def resolve(self, contest: Contest) -> Verdict:
        """Decide a conflict; the version that the row is not is the loser, by priority if it is neither."""
        row = None if contest.is_of_keys else self.rows.get(contest.sent.rowguid)
        if row is None:
            return by_priority(contest)
        if row == contest.subscriber_row:
            return Winner.SUBSCRIBER
        return Winner.PUBLISHER if row == contest.publisher_row else Custom(by_priority(contest), row)
