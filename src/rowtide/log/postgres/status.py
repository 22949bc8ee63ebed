"""How far a server's log is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rowtide.log.postgres.backlog import Backlog
from rowtide.log.store.state import ManifestState


@dataclass(frozen=True, slots=True)
class ReadingStatus:
    """How far the log is read, at the server's time `now`.

    `reader` is the holder of the log's lease, None if no process reads. All that was committed by `as_of` was read;
    `unread_bytes` of the server's log were not, None where the log store does not say. `kept_bytes` is the WAL that the
    server keeps for the slot.
    """

    now: datetime
    reader: str | None
    as_of: datetime | None
    unread_bytes: int | None
    kept_bytes: int | None

    @property
    def lag_s(self) -> float | None:
        """How long ago all was read that was committed by then; 0 at the log's end, None where it is not known."""
        return 0.0 if self.unread_bytes == 0 else seconds_between(self.as_of, self.now)


def describe_reading(backlog: Backlog, state: ManifestState | None, reader: str | None) -> ReadingStatus:
    """Put together what was read; without a log store that can be read it is not known. Pure."""
    return ReadingStatus(
        now=backlog.now,
        reader=reader,
        as_of=state.as_of if state is not None else None,
        unread_bytes=max(backlog.log_end - state.position.log, 0) if state is not None else None,
        kept_bytes=backlog.kept_bytes,
    )


def seconds_between(earlier: datetime | None, later: datetime) -> float | None:
    """Return how long ago a time was, never below 0; None where it is not known."""
    return max((later - earlier).total_seconds(), 0.0) if earlier is not None else None
