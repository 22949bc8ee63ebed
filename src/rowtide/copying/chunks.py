"""What a copy has of a table: its chunks by key range, and the transactions that its snapshot sees."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import ColumnOperators
from rowtide.databases.postgres.values import is_of_server

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# Which transactions a copy contains: those that its snapshot sees. Pure. Neither LSN nor commit time decides: a
# commit that waits for a synchronous standby is in the log, but invisible.


@frozen
class TransactionSnapshot:
    """All transactions below `xmin` have ended, none from `xmax` on has started.

    In between, those in `in_progress` run. (PostgreSQL: pg_snapshot; ids are the 64-bit ones of transactions,
    subtransactions have none of their own.)
    """

    xmin: int
    xmax: int
    in_progress: tuple[int, ...]

    def sees(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return, for committed transactions, whether their changes are in the copy."""
        import numpy as np

        has_begun: npt.NDArray[np.bool_] = xids < self.xmax
        return has_begun & ~np.isin(xids, self.in_progress)


def parse_snapshot(text: str) -> TransactionSnapshot:
    """Parse PostgreSQL's text of a snapshot: `xmin:xmax:xid,xid,…`."""
    xmin, xmax, in_progress = text.split(":")
    return TransactionSnapshot(int(xmin), int(xmax), tuple(int(xid) for xid in in_progress.split(",") if xid))


def format_snapshot(snapshot: TransactionSnapshot) -> str:
    """Return PostgreSQL's text of a snapshot."""
    return f"{snapshot.xmin}:{snapshot.xmax}:{','.join(map(str, snapshot.in_progress))}"


Key = tuple[str, ...]
"""The values of a key's columns, in key order, in the source's text form."""


@frozen
class Chunk:
    """The rows of a table with `low` < key <= `high`; None is no bound."""

    member_id: str
    number: int
    low: Key | None
    high: Key | None


@frozen
class CopiedChunk:
    """A chunk that was copied; `generation` changes when the table is truncated or rewritten."""

    chunk: Chunk
    snapshot: TransactionSnapshot
    generation: int


@frozen
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


@frozen
class KeyColumn:
    """A column of a table's key, with its type as SQL writes it; of a domain, whose checks are others' code, the base.

    `operators` are those of the key's index, None for a type of the server's own.
    """

    name: str
    type_text: str
    operators: ColumnOperators | None = None

    @property
    def is_built_in(self) -> bool:
        """Whether the type is the server's own."""
        return is_of_server(self.type_text)


@frozen
class TableOwner:
    """The function that reads a table as its owner, and the types of the copied columns, which it has to be given."""

    reading: str
    types: tuple[str, ...]


@frozen
class CopiedTable:
    """A table to be copied: its member id in the log, the columns, the key in key order, and an SQL condition.

    Without a key it is one chunk; without a condition all rows are copied. `source_id` is its id in the source,
    `numbers` are those of the columns there. `owner`: it is read as this role, see `present_tables`.
    """

    member_id: str
    source_id: int
    schema: str
    table: str
    columns: tuple[str, ...]
    numbers: tuple[int, ...]
    key_columns: tuple[KeyColumn, ...]
    condition: str | None = None
    is_partitioned: bool = False
    owner: TableOwner | None = None

    @property
    def qualified_name(self) -> str:
        """The table's name with its schema."""
        return f"{self.schema}.{self.table}"
