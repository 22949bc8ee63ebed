"""How a batch's calls are sent to a PostgreSQL subscriber: row by row, set-based, or in pieces that skip errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from rowtide.core.operations import Operation
from rowtide.replication.distribution.batches import Call
from rowtide.replication.distribution.call_runs import Gatherer, Run
from rowtide.replication.distribution.pieces import Pieces
from rowtide.replication.distribution.skip_errors import SkipErrors
from rowtide.replication.errors import CommandError
from rowtide.replication.targets.postgres.sender import Sender

_FEWEST_AS_ARRAYS = 3
"""Least length of a run sent as arrays."""


class Mode(Protocol):
    """Takes the calls of one batch in log order."""

    def add(self, call: Call) -> None:
        """Send a call, at once or before `flush` returns."""

    def flush(self) -> Sequence[CommandError]:
        """Send the remaining calls; return the errors of the calls that the batch has skipped so far."""


class RowByRow:
    """Each call is a separate statement: an error names the call that caused it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def add(self, call: Call) -> None:
        self._sender.send(call)

    def flush(self) -> Sequence[CommandError]:
        return ()


class SetBased:
    """A run of calls is sent as one call with arrays if `has_arrays` says so of the article's operation.

    `groups`: which articles can influence each other, by article id.
    """

    def __init__(self, sender: Sender, has_arrays: Set[tuple[str, Operation]], groups: Mapping[str, int]) -> None:
        self._sender = sender
        self._has_arrays = has_arrays
        self._gatherer = Gatherer(groups)

    def add(self, call: Call) -> None:
        for run in self._gatherer.add(call):
            self._send(run)

    def flush(self) -> Sequence[CommandError]:
        for run in self._gatherer.end():
            self._send(run)
        return ()

    def _send(self, run: Run) -> None:
        has_arrays = (run.article.article_id, run.operation) in self._has_arrays
        for calls in run.rounds:
            if has_arrays and len(calls) >= _FEWEST_AS_ARRAYS:
                self._sender.send_arrays(run.article, run.operation, [call.arguments for call in calls])
            else:
                for call in calls:
                    self._sender.send(call)


class Skipping:
    """Calls are sent in pieces with savepoints; one whose error is listed is skipped."""

    def __init__(self, sender: Sender, skips: SkipErrors) -> None:
        self._pieces = Pieces(sender.try_piece, skips)

    def add(self, call: Call) -> None:
        self._pieces.add(call)

    def flush(self) -> Sequence[CommandError]:
        return self._pieces.end()
