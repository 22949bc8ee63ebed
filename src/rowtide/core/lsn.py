"""Log sequence numbers: of transactions, which users see (`CommitLsn`), and the progress of readers (`Position`).

Both pack an epoch (7 bits) above a log position (56 bits) into one signed 64-bit integer, so that they order as
integers in every database and in the lake. They are separate types because they mean different things: a `CommitLsn` is
one transaction, and inclusive in ranges; a `Position` is exclusive, everything *below* it is durable. Under load almost
every second transaction starts where the previous one ended, so mixing the two loses rows.
"""

from __future__ import annotations

import re

from rowtide.core.errors import InvalidLsn
from rowtide.core.values import frozen

# 7 bits of epoch and 56 of log position leave the sign bit free, so that packed LSNs order as signed integers.
EPOCH_SHIFT = 56
_LOG_MASK = (1 << EPOCH_SHIFT) - 1
MAX_EPOCH = 127
_LOG_POSITION = re.compile(r"(?P<high>[0-9A-Fa-f]{1,8})/(?P<low>[0-9A-Fa-f]{1,8})")
_LSN = re.compile(r"(?:(?P<epoch>[0-9]{1,3}):)?(?P<position>[^:]+)")


@frozen(order=True)
class _PackedLsn:
    """An epoch and a log position in one integer."""

    value: int

    def __post_init__(self) -> None:
        if not 0 <= self.value < 1 << 63:
            raise InvalidLsn(str(self.value))

    @property
    def epoch(self) -> int:
        return self.value >> EPOCH_SHIFT

    @property
    def log(self) -> int:
        """The position in the database's own log, without the epoch."""
        return self.value & _LOG_MASK

    def __int__(self) -> int:
        return self.value

    def __str__(self) -> str:
        text = format_log_position(self.log)
        return f"{self.epoch}:{text}" if self.epoch else text


class CommitLsn(_PackedLsn):
    """A committed transaction, by the log position of its commit (SQL Server: `start_lsn`)."""

    __slots__ = ()

    @classmethod
    def of(cls, epoch: int, log: int) -> CommitLsn:
        return cls(pack_lsn(epoch, log))

    @classmethod
    def parse(cls, text: str) -> CommitLsn:
        """Parse `X/Y`, `epoch:X/Y` or an integer. Raises `InvalidLsn`."""
        return cls(_parse(text))

    def increment(self) -> CommitLsn:
        """Return the next LSN (SQL Server: fn_cdc_increment_lsn)."""
        return CommitLsn(self.value + 1)

    def decrement(self) -> CommitLsn:
        """Return the previous LSN (SQL Server: fn_cdc_decrement_lsn)."""
        return CommitLsn(self.value - 1)


class Position(_PackedLsn):
    """The progress of a reader: every transaction with `commit_lsn < position` is durable."""

    __slots__ = ()

    @classmethod
    def of(cls, epoch: int, log: int) -> Position:
        return cls(pack_lsn(epoch, log))

    def covers(self, lsn: CommitLsn) -> bool:
        """Return whether a transaction is below this position: such a transaction is dropped if the server sends it
        again.
        """
        return lsn.value < self.value


def pack_lsn(epoch: int, log: int) -> int:
    """Pack an epoch and a log position into one integer. Raises `InvalidLsn` outside 7 and 56 bits."""
    if not (0 <= epoch <= MAX_EPOCH and 0 <= log <= _LOG_MASK):
        raise InvalidLsn(f"{epoch}:{log}")
    return epoch << EPOCH_SHIFT | log


def parse_log_position(text: str) -> int:
    """Parse a database's `X/Y` into an integer. Raises `InvalidLsn`."""
    match = _LOG_POSITION.fullmatch(text)
    if match is None:
        raise InvalidLsn(text)
    return int(match["high"], 16) << 32 | int(match["low"], 16)


def format_log_position(log: int) -> str:
    """Return a log position as `X/Y`, as PostgreSQL prints it."""
    return f"{log >> 32:X}/{log & 0xFFFFFFFF:X}"


def _parse(text: str) -> int:
    stripped = text.strip()
    if re.fullmatch(r"[0-9]+", stripped):
        return int(stripped)
    match = _LSN.fullmatch(stripped)
    if match is None or int(match["epoch"] or 0) > MAX_EPOCH:
        raise InvalidLsn(text)
    return pack_lsn(int(match["epoch"] or 0), parse_log_position(match["position"]))
