"""Tables divided into chunks by key range, each copied in its own snapshot. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from rowtide.copying.visibility import TransactionSnapshot

Key = tuple[str, ...]
"""The values of a key's columns, in key order, in the source's text form."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows of a table with `low` < key <= `high`; None is no bound."""

    member_id: str
    number: int
    low: Key | None
    high: Key | None


@dataclass(frozen=True, slots=True)
class CopiedChunk:
    """A chunk that was copied; `generation` changes when the table is truncated or rewritten."""

    chunk: Chunk
    snapshot: TransactionSnapshot
    generation: int


@dataclass(frozen=True, slots=True)
class OpenChunk:
    """A chunk being read: its snapshot and generation, and its rows in the form of COPY that was asked for."""

    snapshot: TransactionSnapshot
    generation: int
    blocks: Iterator[bytes]


def cut(member_id: str, bounds: Sequence[Key]) -> tuple[Chunk, ...]:
    """Return the chunks between ascending bounds: one more than there are bounds."""
    lows: list[Key | None] = [None, *bounds]
    highs: list[Key | None] = [*bounds, None]
    pairs = enumerate(zip(lows, highs, strict=True))
    return tuple(Chunk(member_id, number, low, high) for number, (low, high) in pairs)


def uncut(chunks: Sequence[Chunk], member_ids: Collection[str]) -> tuple[Chunk, ...]:
    """Return chunks with all those of some members replaced by one, in their place."""
    return tuple(
        replace(chunk, low=None, high=None) if chunk.member_id in member_ids else chunk
        for chunk in chunks
        if chunk.number == 0 or chunk.member_id not in member_ids
    )


def is_torn(copied: Sequence[CopiedChunk]) -> bool:
    """Return whether a table was truncated or rewritten between its chunks, which then cannot be combined."""
    return len({chunk.generation for chunk in copied}) > 1
