"""How a batch's calls are sent to a PostgreSQL subscriber: row by row, set-based, or in pieces that skip errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rowtide.replication.distribution.calls.batches import MAX_CALLS, Block, CallSequence, Gatherer, ProcedureCall
from rowtide.replication.distribution.calls.pieces import Pieces
from rowtide.replication.distribution.skip_errors import SkipErrors
from rowtide.replication.errors.delivery import CommandError
from rowtide.replication.targets.postgres.delivery.sender import Sender
from rowtide.replication.targets.postgres.delivery.table_relations import SetPlan

_FEWEST_AS_ARRAYS = 3
"""Least length of a run sent as arrays."""
FEWEST_AS_COPY = 1000
"""Least number of inserts sent by COPY, which waits for all that was sent before."""


class Mode(Protocol):
    """Takes the calls of one batch in log order."""

    def add(self, call: ProcedureCall) -> None:
        """Send a call, at once or before `flush` returns."""

    def add_block(self, block: Block) -> None:
        """Send the calls of a block, as `add`."""

    def flush(self) -> Sequence[CommandError]:
        """Send the remaining calls; return the errors of the calls that the batch has skipped so far."""


class RowByRow:
    """Each call is a separate statement: an error names the call that caused it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def add(self, call: ProcedureCall) -> None:
        self._sender.send(call)

    def add_block(self, block: Block) -> None:
        for call in block.calls():
            self._sender.send(call)

    def flush(self) -> Sequence[CommandError]:
        return ()


class SetBased:
    """A run of calls is sent as one call with arrays, or by COPY, if the plan says so of the article's operation."""

    def __init__(self, sender: Sender, plan: SetPlan) -> None:
        self._sender = sender
        self._plan = plan
        self._gatherer = Gatherer(plan.groups, plan.folded)

    def add(self, call: ProcedureCall) -> None:
        for run in self._gatherer.add(call):
            self._send(run)

    def add_block(self, block: Block) -> None:
        for run in self._gatherer.add_block(block):
            self._send(run)

    def flush(self) -> Sequence[CommandError]:
        for run in self._gatherer.end():
            self._send(run)
        return ()

    def _send(self, run: CallSequence) -> None:
        for calls in run.rounds:
            self._send_calls(run, calls)
        if run.article.article_id in self._plan.copied and sum(len(one.rows) for one in run.blocks) >= FEWEST_AS_COPY:
            self._sender.copy(run.article, [block.rows for block in run.blocks])
            return
        for block in run.blocks:
            calls = list(block.calls())
            for start in range(0, len(calls), MAX_CALLS):
                self._send_calls(run, calls[start : start + MAX_CALLS])

    def _send_calls(self, run: CallSequence, calls: Sequence[ProcedureCall]) -> None:
        has_arrays = (run.article.article_id, run.operation) in self._plan.has_arrays
        if has_arrays and len(calls) >= _FEWEST_AS_ARRAYS:
            self._sender.send_arrays(run.article, run.operation, [call.arguments for call in calls])
        else:
            for call in calls:
                self._sender.send(call)


class Skipping:
    """Calls are sent in pieces with savepoints; one whose error is listed is skipped."""

    def __init__(self, sender: Sender, skips: SkipErrors) -> None:
        self._pieces = Pieces(sender.try_piece, skips)

    def add(self, call: ProcedureCall) -> None:
        self._pieces.add(call)

    def add_block(self, block: Block) -> None:
        for call in block.calls():
            self._pieces.add(call)

    def flush(self) -> Sequence[CommandError]:
        return self._pieces.end()
