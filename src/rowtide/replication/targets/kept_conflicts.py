"""Conflicts as `replication conflicts` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class KeptConflict:
    """A conflict at a subscriber: rows as JSON objects of texts, null for none.

    `present_rows` are those that the change met, `present_times` when and where each was written last, where that is
    known.
    """

    logged_at: datetime
    publication: str
    subscriber: str
    article: str
    kind: str
    resolution: str
    operation: str
    xact_seqno: str
    command_id: int
    old_row: str | None
    new_row: str | None
    present_rows: str
    commit_time: datetime | None
    present_times: str
