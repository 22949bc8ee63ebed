"""Errors of agents: 1010 to 1019."""

from __future__ import annotations

from rowtide.core.errors import Retryable


class LogReaderEnded(Retryable, number=1010):
    """The log reader's process ended without one of rowtide's errors: it could not start, or it crashed."""

    fact = "the process of the log reader ended with exit code {code}"
    hint = "Its messages on stderr give the reason; the agent restarts it."
    code: int
