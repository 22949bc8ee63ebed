"""One of several connections that a batch is divided among, which prepares its part or rolls it back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NoReturn

import psycopg

from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.errors import ConnectionFailed, find_outage, translated
from rowtide.replication.distribution.calls.batches import Call
from rowtide.replication.distribution.delivery import BatchUndone, CallNotHeld, Progress
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import AgentReplaced, BatchRefused
from rowtide.replication.targets.postgres.delivery.modes import Mode
from rowtide.replication.targets.postgres.delivery.pipeline import Refused
from rowtide.replication.targets.postgres.delivery.sender import Sender
from rowtide.replication.targets.postgres.prepared_transactions import PreparedName

LOCK_TIMEOUT_S = 5
_SENT_BETWEEN_LOOKS = 64
_GONE = "42704"
_REFUSALS = (RowtideError, BatchUndone, CallNotHeld)


class Stream:
    """A connection to the subscriber; used by one thread at a time, except for `stop`."""

    def __init__(
        self,
        connection: psycopg.Connection,
        sender: Sender,
        subscription: Subscription,
        make_mode: Callable[[Sender], Mode],
    ) -> None:
        self.process_id = connection.info.backend_pid
        self._connection = connection
        self._subscriber = subscription.subscriber
        self._guid = subscription.guid.encode()
        self._sender = sender
        self._make_mode = make_mode
        self._is_stopped = threading.Event()
        self._prepared: PreparedName | None = None
        self._mode: Mode | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a part of a batch is running, which is neither prepared nor rolled back."""
        return self._mode is not None

    def begin(self, known: Progress, *, is_first: bool) -> None:
        """Begin a part of a batch, the first stream's or another's."""
        self._is_stopped.clear()
        self._mode = self._make_mode(self._sender)
        self._sender.begin_stream(self._guid, known, is_first=is_first, lock_timeout_s=LOCK_TIMEOUT_S)

    def add(self, call: Call) -> None:
        """Send a call, at once or before `prepare` returns. Raises as `prepare`."""
        assert self._mode is not None
        try:
            self._mode.add(call)
        except _REFUSALS as error:
            self._undo_after(error)

    def flush(self) -> None:
        """Wait until all calls so far have run. Raises as `prepare`."""
        assert self._mode is not None
        try:
            self._mode.flush()
            self._sender.synchronize()
        except _REFUSALS as error:
            self._undo_after(error)

    def prepare(self, calls: Sequence[Call], name: PreparedName, reached: Position) -> None:
        """Run the last calls, and prepare the part for commit, under a name; the first stream moves the progress too.

        Raises `BatchUndone` if the part is rolled back, `AgentReplaced`, `ConnectionFailed`.
        """
        assert self._mode is not None
        try:
            self._run(self._mode, calls)
            self._sender.prepare(self._guid, name, reached)
        except _REFUSALS as error:
            self._undo_after(error)
        self._mode, self._prepared = None, name

    def _undo_after(self, error: Exception) -> NoReturn:
        """Roll back what the server has not rolled back itself, and say that the batch is undone if it can go on."""
        self._mode = None
        match error:
            case ConnectionFailed() | AgentReplaced() | BatchUndone():
                raise error
            case CallNotHeld():
                # Rolled back already. On one connection it is found again, and its article suspended.
                raise BatchUndone from error
            case _:
                self._sender.roll_back()
                raise BatchUndone from error

    def give_up(self) -> None:
        """Let what runs in another thread end as soon as it can, at the latest after a wait for a lock."""
        self._is_stopped.set()

    def stop(self) -> None:
        """End what runs in another thread, as an error does; without effect if nothing does."""
        self.give_up()
        with translated():
            self._connection.cancel_safe()

    def roll_back(self) -> None:
        """Roll back what has begun or is prepared, if anything is."""
        if self._mode is not None:
            self._mode = None
            self._sender.roll_back()
        name, self._prepared = self._prepared, None
        if name is not None:
            self._require(self._sender.end_prepared(name.rolls_back), or_gone=True)

    def decide(self) -> None:
        """Commit the part of a batch's first stream. Raises `AgentReplaced` if another agent has rolled it back."""
        failpoint("stream_decision.before")
        self._commit(or_gone=False)
        failpoint("stream_decision.after")

    def commit(self) -> None:
        """Commit the part of another stream, of a batch that is decided."""
        failpoint("stream_commit.before")
        self._commit(or_gone=True)
        failpoint("stream_commit.after")

    def close(self) -> None:
        """Close the connection; what is not prepared is rolled back."""
        self._sender.close()

    def _run(self, mode: Mode, calls: Sequence[Call]) -> None:
        for place, call in enumerate(calls):
            if place % _SENT_BETWEEN_LOOKS == 0 and self._is_stopped.is_set():
                self._sender.roll_back()
                raise BatchUndone
            mode.add(call)
        mode.flush()

    def _commit(self, *, or_gone: bool) -> None:
        name, self._prepared = self._prepared, None
        assert name is not None
        self._require(self._sender.end_prepared(name.commits), or_gone=or_gone)

    def _require(self, refused: Refused | None, *, or_gone: bool) -> None:
        if refused is None or (or_gone and refused.sqlstate == _GONE):
            # A process that recovered the batch meanwhile has done the same.
            return
        if refused.sqlstate == _GONE:
            raise AgentReplaced(self._subscriber, refused.message)
        raise find_outage(refused.sqlstate, refused.message) or BatchRefused(refused.sqlstate, refused.message)
