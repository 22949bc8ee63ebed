"""Errors of the log of events."""

from __future__ import annotations

from rowtide.core.errors import RowtideError


class LogNotWritable(RowtideError, number=1180):
    """The file of the log of events cannot be opened."""

    fact = "the log file {path} cannot be written: {reason}"
    hint = "Name a file in a folder that this user may write to, with --log-destination, or stderr or journal."
    path: str
    reason: str
