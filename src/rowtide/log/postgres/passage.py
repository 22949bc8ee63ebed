"""One transaction read by itself, without the tables of which the server cannot send a change. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rowtide.core.lsn import CommitLsn
from rowtide.log.membership import LeftOut, Member
from rowtide.log.postgres.xlog_data import begun_lsn, committed_lsn
from rowtide.log.source import Received


class Passage:
    """What a stream has of the transaction that commits at `lsn`; `reasons` say, by oid, why a table is left out.

    All that commits before the transaction is stored: the stream begins with it, or behind it where nothing else is in
    it.
    """

    def __init__(self, lsn: CommitLsn, reasons: Mapping[int, str]) -> None:
        self.lsn = lsn
        self.reasons = reasons
        self.is_over = False
        self._has_told = False

    @property
    def end(self) -> int:
        """A log position behind the transaction from which on it is not sent again."""
        return self.lsn.log + 1

    def keep_own(self, received: Received, already: int) -> None:
        """Drop what arrived behind the transaction, if anything did; the first `already` messages are known."""
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
        # Where the log stands says nothing: the left out tables' changes are in it.
        received.keepalive = None
        received.is_marked = False

    def tell(self, members: Iterable[Member]) -> tuple[LeftOut, ...]:
        """Return, the first time, what members lack of the transaction."""
        if self._has_told:
            return ()
        self._has_told = True
        return tuple(
            LeftOut(self.lsn, member.member_id, self.reasons[member.source_id])
            for member in members
            if member.source_id in self.reasons
        )

    def _end(self, received: Received, place: int) -> None:
        received.size -= sum(map(len, received.messages[place:]))
        del received.messages[place:]
        self.is_over = True


def find_refused(candidates: Sequence[int], is_refused: Callable[[Sequence[int]], bool]) -> int:
    """Return a table of which a change is refused, one of `candidates`; `is_refused` tries some of them together."""
    while len(candidates) > 1:
        half = candidates[: len(candidates) // 2]
        candidates = half if is_refused(half) else candidates[len(half) :]
    return candidates[0]
