"""Where delivery goes on: what the subscriber holds, and what the log store knows of the log behind that. Pure.

A subscriber is not written to while the log has nothing for it. So what it recorded stays behind, and the log store
lets go of the log in between; the reader's entry says that nothing was there.
"""

from __future__ import annotations

from rowtide.core.lsn import Position
from rowtide.log.state import Reader
from rowtide.replication.distribution.delivery import Progress


def resume_position(progress: Progress, reader: Reader) -> Position:
    """Return the position below which the subscriber has everything.

    A subscriber that went back further than the log is empty goes on from what it holds: it lacks what lies between.
    """
    if progress.position >= reader.position:
        return progress.position
    has_nothing_between = (
        # Log stores from before rowtide recorded how far the log is empty: the same batch was the subscriber's last.
        reader.cycle == progress.batch if reader.idle_from is None else reader.idle_from <= progress.position
    )
    return reader.position if has_nothing_between else progress.position
