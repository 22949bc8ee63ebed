"""Change rows from the last to the first: files and row groups that follow one another are read backwards.

What overlaps by its LSNs, as the parts of a large transaction do, is read at once and sorted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.lake_readers.change_tables import ChangeTable, Part
from rowtide.cdc.lake_readers.ordering import are_ordered, in_memory_order, join
from rowtide.delta.actions import AddFile

_MOST_BYTES = 64 * 1024 * 1024
"""So much of files, without compression, is read at once."""
_SMALL_BYTES = 4 * 1024 * 1024
"""A file up to this size is not divided into its row groups."""
_COMPRESSION = 4
"""So much smaller are small files, at a guess, than their rows."""


Chosen = tuple[pa.RecordBatch, npt.NDArray[np.bool_]]
"""Rows, and which of them are meant."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Row groups of a file that may have rows of a part, None: all; bounds of their LSNs, and their size."""

    table: ChangeTable
    part: Part
    file: AddFile
    low: int
    high: int
    size: int
    row_groups: tuple[int, ...] | None = None

    def read(self, columns: Sequence[str]) -> Iterator[Chosen]:
        """Yield columns, `ORDER` among them, of the rows, and which are the part's. Raises as `ChangeTable.stream`."""
        for batch in self.table.read_file(self.file, columns, self.row_groups):
            yield batch, self.part.has(batch)


Run = tuple[Piece, ...]
"""Pieces that are read at once."""


def find_runs(parts: Sequence[tuple[ChangeTable, Part]]) -> list[Run] | None:
    """Return the parts' rows in runs that follow one another by LSN; None if one is too large to be read at once.

    Raises as `ChangeTable.stream`.
    """
    pieces: list[Piece] = []
    for table, part in parts:
        for file in table.list_files(part):
            found = _divide(table, part, file)
            if found is None:
                return None
            pieces += found
    runs: list[list[Piece]] = []
    high = -1
    for piece in sorted(pieces, key=lambda piece: piece.low):
        if not runs or piece.low > high:
            runs.append([])
        runs[-1].append(piece)
        high = max(high, piece.high)
    if any(sum(piece.size for piece in run) > _MOST_BYTES for run in runs):
        return None
    return [tuple(run) for run in runs]


def stream_newest_first(runs: Sequence[Run], columns: Sequence[str]) -> Iterator[Chosen]:
    """Yield columns, `ORDER` among them, of the runs' rows: in order within a batch, the last batch first."""
    for run in reversed(runs):
        found = [chosen for piece in run for chosen in piece.read(columns) if chosen[1].any()]
        if are_ordered(batch for batch, _ in found):
            yield from reversed(found)
        else:
            rows = in_memory_order(join([batch.filter(pa.array(is_part)) for batch, is_part in found]))
            yield rows, np.ones(rows.num_rows, np.bool_)


def _divide(table: ChangeTable, part: Part, file: AddFile) -> list[Piece] | None:
    bounds = table.bounds(file)
    if file.size <= _SMALL_BYTES:
        return [Piece(table, part, file, *bounds, file.size * _COMPRESSION)] if bounds is not None else None
    pieces = []
    for place, group in enumerate(table.list_row_groups(file)):
        if group.least is None or group.most is None:
            return None
        if group.least <= part.high.value and group.most >= part.low.value:
            pieces.append(Piece(table, part, file, group.least, group.most, group.size, (place,)))
    return pieces
