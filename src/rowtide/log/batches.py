"""Where to cut what arrived from the log: whole transactions together, or parts of one that is too large.

Pure: two questions are asked, where the commits are and what log position one of them ends at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from rowtide.log.messages import Messages

MAX_BATCH_BYTES = 32 * 1024 * 1024
MAX_BATCH_MESSAGES = 100_000
WHOLE_BATCH_MESSAGES = 20_000
"""Whole transactions with so many messages are handed on at once: consumers of a backlog begin while more is read."""
LARGE_MESSAGE_BYTES = MAX_BATCH_BYTES
"""A message of this size is a cut of its own: it fills a batch by itself, and PostgreSQL sends up to a gigabyte."""
MAX_BATCH_AGE_S = 0.5
SMALL_BATCH_AGE_S = 0.1
SMALL_BATCH_AGE_AT_BUCKET_S = 0.25
"""In a bucket, where writing a batch takes some requests, and as long."""
SMALL_BATCH_MESSAGES = 20_000
"""Fewer are a small batch, which is handed on sooner: a fixed cost twice as often, while there is little to do."""
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

    def find_commits(self, messages: Messages) -> tuple[int, int] | None: ...

    def commit_end(self, message: bytes) -> int: ...


def cut_batch(messages: Messages, commits: Commits, *, in_parts: bool, is_full: bool) -> tuple[list[Cut], int]:
    """Cut what has arrived; return the cuts, in order, and how many messages they have: the others are to be kept.

    `in_parts`: an earlier cut was a `Part` whose `LastPart` has not come. `is_full`: no more may be buffered,
    so an unfinished transaction becomes a `Part`.
    """
    found = commits.find_commits(messages)
    if found is None:
        return (_parts(messages), len(messages)) if is_full else ([], 0)
    first, last = found
    cuts: list[Cut] = []
    begin = 0
    if in_parts:
        begin = first + 1
        cuts.append(LastPart(messages[:begin], commits.commit_end(messages[first])))
    if begin <= last:
        cuts.append(Whole(messages[begin : last + 1], commits.commit_end(messages[last])))
    return cuts, last + 1


def _parts(messages: Messages) -> list[Cut]:
    """Cut an unfinished transaction: each large message by itself, the messages between them together."""
    has_large = max(messages.sizes(), default=0) >= LARGE_MESSAGE_BYTES
    sizes = messages.sizes() if has_large else ()
    large = [place for place, size in enumerate(sizes) if size >= LARGE_MESSAGE_BYTES]
    borders = sorted({0, *large, *(place + 1 for place in large), len(messages)})
    return [Part(messages[begin:end]) for begin, end in pairwise(borders)]
