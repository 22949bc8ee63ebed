"""The numbered errors of agents: 1010 to 1019."""

from __future__ import annotations

from rowtide.core.errors import Retryable, numbered


@numbered
class LogReaderEnded(Retryable):
    """The log reader's process ended without one of our errors: it did not start, or it has a fault."""

    number = 1010
    fact = "the process of the log reader ended with exit code {code}"
    hint = "What it printed says why; it is started again."
    code: int
