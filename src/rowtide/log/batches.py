"""Where to cut what arrived from the log: whole transactions together, or parts of one that is too large.

Pure: two questions are asked of a message, whether it is a commit and where that commit ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

MAX_BATCH_BYTES = 32 * 1024 * 1024
MAX_BATCH_MESSAGES = 100_000
LARGE_MESSAGE_BYTES = MAX_BATCH_BYTES
"""A message of this size is a cut of its own: it fills a batch by itself, and PostgreSQL sends up to a gigabyte."""
MAX_BATCH_AGE_S = 0.5
QUIET_S = 0.1


@dataclass(frozen=True, slots=True)
class Whole:
    """Transactions from begin to commit; `end` is the log position behind the last commit."""

    messages: Sequence[bytes]
    end: int


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of one transaction whose commit has not arrived; not readable yet."""

    messages: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class LastPart:
    """The piece of a large transaction that ends with its commit."""

    messages: Sequence[bytes]
    end: int


Cut = Whole | Part | LastPart


class Commits(Protocol):
    """How a database's log marks the end of a transaction."""

    def is_commit(self, message: bytes) -> bool: ...

    def commit_end(self, message: bytes) -> int: ...


def cut_batch(
    messages: Sequence[bytes], commits: Commits, *, in_parts: bool, is_full: bool
) -> tuple[list[Cut], Sequence[bytes]]:
    """Cut what has arrived; return the cuts, in order, and the messages to keep for the next call.

    `in_parts`: an earlier cut was a `Part` whose `LastPart` has not come. `is_full`: no more may be buffered,
    so an unfinished transaction becomes a `Part`.
    """
    cuts: list[Cut] = []
    if in_parts:
        first = _first_commit(messages, commits)
        if first is None:
            return (_parts(messages), []) if is_full and messages else ([], messages)
        cuts.append(LastPart(messages[: first + 1], commits.commit_end(messages[first])))
        messages = messages[first + 1 :]
    last = _last_commit(messages, commits)
    if last is not None:
        cuts.append(Whole(messages[: last + 1], commits.commit_end(messages[last])))
        messages = messages[last + 1 :]
    elif is_full and messages and not cuts:
        cuts += _parts(messages)
        messages = []
    return cuts, messages


def _parts(messages: Sequence[bytes]) -> list[Cut]:
    """Cut an unfinished transaction: each large message by itself, the messages between them together."""
    parts: list[Cut] = []
    for is_large, group in groupby(messages, lambda message: len(message) >= LARGE_MESSAGE_BYTES):
        together = list(group)
        parts += [Part([message]) for message in together] if is_large else [Part(together)]
    return parts


def _first_commit(messages: Sequence[bytes], commits: Commits) -> int | None:
    return next((index for index, message in enumerate(messages) if commits.is_commit(message)), None)


def _last_commit(messages: Sequence[bytes], commits: Commits) -> int | None:
    return next((index for index in range(len(messages) - 1, -1, -1) if commits.is_commit(messages[index])), None)
