"""Where transactions end in messages that have arrived, found in all of them together."""

from __future__ import annotations

import numpy as np

from rowtide.log.messages import Messages
from rowtide.log.postgres.stream.xlog_data import COMMIT, HEADER_BYTES


def find_commits(messages: Messages) -> tuple[int, int] | None:
    """Return the first and the last Commit, None if there is none."""
    if not messages:
        return None
    octets = np.frombuffer(messages.buffer, np.uint8)
    kinds = np.frombuffer(messages.starts, np.int64) + HEADER_BYTES
    ends = np.frombuffer(messages.ends, np.int64)
    complete = np.flatnonzero(kinds < ends)
    commits = complete[octets[kinds[complete]] == COMMIT]
    return (int(commits[0]), int(commits[-1])) if len(commits) else None
