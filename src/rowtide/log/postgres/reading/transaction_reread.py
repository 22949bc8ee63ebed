"""One transaction read again by itself, without the tables whose changes the server cannot send. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rowtide.core.lsn import CommitLsn
from rowtide.log.membership import ChangesOmitted, Member
from rowtide.log.postgres.stream.xlog_data import begun_lsn, committed_lsn
from rowtide.log.source import Received


class TransactionReread:
    """The transaction that commits at `lsn`; `reasons` say, by oid, why a table is left out.

    Everything that commits before the transaction is stored: the stream begins with it, or after it if nothing else is
    in it.
    """

    def __init__(self, lsn: CommitLsn, reasons: Mapping[int, str]) -> None:
        self.lsn = lsn
        self.reasons = reasons
        self.is_over = False
        self._has_told = False

    @property
    def end(self) -> int:
        """A log position after the transaction; from there on it is not sent again."""
        return self.lsn.log + 1

    def keep_own(self, received: Received, already: int) -> None:
        """Drop what arrived after the transaction; the first `already` messages were examined before."""
        messages = received.messages
        for place in range(already, len(messages)):
            begun = begun_lsn(messages[place])
            if begun is not None and begun > self.lsn.log:
                self._end(received, place)
                break
            if committed_lsn(messages[place]) == self.lsn.log:
                self._end(received, place + 1)
                break
        if received.keepalive is not None and received.keepalive.position > self.lsn.log:
            self.is_over = True
        # A keepalive's position says nothing here: it covers the changes of left out tables.
        received.keepalive = None
        received.is_marked = False

    def tell(self, members: Iterable[Member]) -> tuple[ChangesOmitted, ...]:
        """Return, the first time, what members lack of the transaction."""
        if self._has_told:
            return ()
        self._has_told = True
        return tuple(
            ChangesOmitted(self.lsn, member.member_id, self.reasons[member.source_id])
            for member in members
            if member.source_id in self.reasons
        )

    def _end(self, received: Received, place: int) -> None:
        received.messages = received.messages[:place].copy()
        received.size = received.messages.size
        self.is_over = True


def find_refused(candidates: Sequence[int], is_refused: Callable[[Sequence[int]], bool]) -> int:
    """Return a table with a refused change, one of `candidates`, by bisection; `is_refused` tries several at once."""
    while len(candidates) > 1:
        half = candidates[: len(candidates) // 2]
        candidates = half if is_refused(half) else candidates[len(half) :]
    return candidates[0]
