"""Rows grouped by their keys, by DuckDB: within bounded memory, through temporary files where it does not suffice."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.errors import QueryFailed
from rowtide.cdc.rows.operations import DELETE, INSERT
from rowtide.core.errors import RowtideError

_MEMORY = "96MB"
_GROUPS_AT_A_TIME = 64 * 1024
_NOWHERE = -1
_OPERATION = 7
"""The bits of a place that are the operation."""

Numbers = npt.NDArray[Any]
_Settings = dict[str, str | bool | int | float | list[str]]


@dataclass(frozen=True, slots=True)
class Group:
    """Keys in the order of their last rows: places of these, the operations of the first rows, parts of the masks.

    `sources` has, for each fillable column, the place of the last row that carries its value, negative if none does.
    """

    last: Numbers
    first: Numbers
    masks: tuple[Numbers, ...]
    sources: tuple[Numbers, ...]

    @property
    def last_operation(self) -> Numbers:
        """The operations of the last rows."""
        return self.last & _OPERATION

    def slice(self, begin: int, end: int | None = None) -> Group:
        """Return some of the keys."""
        taken = slice(begin, end)
        masks, sources = (tuple(one[taken] for one in many) for many in (self.masks, self.sources))
        return Group(self.last[taken], self.first[taken], masks, sources)


def group_rows(
    batches: Iterator[list[Any]], keys: Sequence[str], masks: int, fillable: Sequence[int]
) -> Iterator[Group]:
    """Yield the keys of rows with a net effect, in the order of their last rows.

    Each batch has the rows' places, then the keys' columns, the parts of masks, and whether a row carries the value of
    each fillable column. Raises `QueryFailed`, and what `batches` raises.
    """
    first = next(batches, None)
    if first is None:
        return
    import duckdb

    names = ["place", *keys, *(f"mask_{part}" for part in range(masks)), *(f"carries_{one}" for one in fillable)]
    rows = _Rows(names, first, batches)
    with tempfile.TemporaryDirectory(prefix="rowtide-") as folder:
        settings: _Settings = {"memory_limit": _MEMORY, "temp_directory": folder, "preserve_insertion_order": False}
        with duckdb.connect(config=settings) as connection:
            # DuckDB prints it to standard output, where it takes the program for an interactive one.
            connection.execute("set enable_progress_bar = false")
            try:
                connection.register("change_rows", rows.as_reader())
                found = connection.sql(_statement(keys, masks, fillable)).to_arrow_reader(_GROUPS_AT_A_TIME)
                for batch in found:
                    if batch.num_rows:
                        yield _as_group(batch, masks)
            except (duckdb.Error, OSError) as error:
                if rows.error is not None:
                    raise rows.error from None
                raise QueryFailed(str(error).splitlines()[0]) from error


class _Rows:
    """Batches for DuckDB, which would wrap an error of theirs into one of its own."""

    def __init__(self, names: Sequence[str], first: list[Any], more: Iterator[list[Any]]) -> None:
        self.error: RowtideError | None = None
        self._schema = pa.schema([pa.field(name, one.type) for name, one in zip(names, first, strict=True)])
        self._first, self._more = first, more

    def as_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self._read())

    def _read(self) -> Iterator[pa.RecordBatch]:
        try:
            yield pa.RecordBatch.from_arrays(self._first, schema=self._schema)
            for columns in self._more:
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)
        except RowtideError as error:
            self.error = error
            raise


def _statement(keys: Sequence[str], masks: int, fillable: Sequence[int]) -> str:
    parts = [f"bit_or(mask_{part})" for part in range(masks)]
    sources = [f"coalesce(max(place) filter (where carries_{one}), {_NOWHERE})" for one in fillable]
    found = ["max(place) as last", f"min(place) & {_OPERATION} as first", *parts, *sources]
    grouped = f"group by {', '.join(keys)}" if keys else ""
    return (
        f"select {', '.join(found)} from change_rows {grouped} "
        f"having not (max(place) & {_OPERATION} = {DELETE} and min(place) & {_OPERATION} = {INSERT}) order by last"
    )


def _as_group(batch: pa.RecordBatch, masks: int) -> Group:
    last, first, *others = (np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns)
    return Group(last, first, tuple(others[:masks]), tuple(others[masks:]))
