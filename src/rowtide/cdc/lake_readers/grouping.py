"""Rows grouped by their keys, by DuckDB: within bounded memory, through temporary files where it does not suffice."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT
from rowtide.cdc.errors.querying import QueryFailed
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen

if TYPE_CHECKING:
    import duckdb

_MEMORY = "96MB"
_GROUPS_AT_A_TIME = 64 * 1024
_NOWHERE = -1
_OPERATION = 7
"""The bits of a place that are the operation."""

Numbers = npt.NDArray[Any]
_Settings = dict[str, str | bool | int | float | list[str]]


@frozen
class KeyGroup:
    """Keys in the order of their last rows: places of these, the operations of the first rows, parts of the masks.

    `has_insert`: a row of the key is an insert. `sources` has, for each fillable column, the place of the last row that
    carries its value, negative if none does.
    """

    last: Numbers
    first: Numbers
    has_insert: Numbers
    masks: tuple[Numbers, ...]
    sources: tuple[Numbers, ...]

    @property
    def last_operation(self) -> Numbers:
        """The operations of the last rows."""
        return self.last & _OPERATION

    def slice(self, begin: int, end: int | None = None) -> KeyGroup:
        """Return some of the keys."""
        taken = slice(begin, end)
        last, first, has_insert = (one[taken] for one in (self.last, self.first, self.has_insert))
        masks, sources = (tuple(one[taken] for one in many) for many in (self.masks, self.sources))
        return KeyGroup(last, first, has_insert, masks, sources)


def group_rows(
    batches: Iterator[list[Any]], keys: Sequence[str], masks: int, fillable: Sequence[int]
) -> Iterator[KeyGroup]:
    """Yield the keys of rows with a net effect, in the order of their last rows.

    Each batch has the rows' places, then the keys' columns, the parts of masks, and whether a row carries the value of
    each fillable column. Raises `QueryFailed`, and what `batches` raises.
    """
    is_nothing = f"max(place) & {_OPERATION} = {DELETE} and min(place) & {_OPERATION} = {INSERT}"
    grouped = _grouped(keys, masks, fillable)
    with open_engine() as engine:
        if engine.register("change_rows", _names(keys, masks, fillable), batches):
            found = engine.query(f"select {grouped} having not ({is_nothing}) order by last")
            yield from (_as_group(batch, masks) for batch in found)


class KeyGroups:
    """The keys of rows, all of them, in an engine's tables; and the rows below that they hide.

    Calls raise `QueryFailed`, and what the batches raise.
    """

    def __init__(self, engine: GroupingDatabase, keys: Sequence[str]) -> None:
        self._engine = engine
        self._keys = keys

    @classmethod
    def of(
        cls, engine: GroupingDatabase, batches: Iterator[list[Any]], keys: Sequence[str], fillable: Sequence[int]
    ) -> KeyGroups | None:
        """Group batches, which are as those of `group_rows` without masks; None if they have no rows."""
        if not engine.register("change_rows", _names(keys, 0, fillable), batches):
            return None
        selected = "".join(f"{key}, " for key in keys)
        engine.execute(f"create table groups as select {selected}{_grouped(keys, 0, fillable)}")
        return cls(engine, keys)

    def read(self) -> Iterator[KeyGroup]:
        """Yield the keys in the order of their last rows."""
        found = self._engine.read(f"select * exclude ({', '.join(self._keys)}) from groups order by last")
        return (_as_group(batch, 0) for batch in found)

    def hide(self, batches: Iterator[list[Any]]) -> None:
        """Find the rows below that have one of the keys; each batch has the rows' numbers, then the keys' columns."""
        is_same = " and ".join(f"below.{key} is not distinct from groups.{key}" for key in self._keys)
        hidden = "select number, last from below join groups on "
        if not self._engine.register("below", ["number", *self._keys], batches):
            hidden, is_same = "select 0::bigint as number, last from groups where ", "false"
        self._engine.execute(f"create table hidden as {hidden}{is_same}")

    def read_hidden(self) -> Iterator[Numbers]:
        """Yield the numbers of the hidden rows, which ascend."""
        found = self._engine.read("select number from hidden order by number")
        return (np.asarray(batch.column(0).to_numpy()) for batch in found)

    def read_hidden_by_group(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the places of the keys' last rows, which ascend, and the numbers of the rows that these hide."""
        found = self._engine.read("select last, number from hidden order by last")
        return ((np.asarray(batch.column(0).to_numpy()), np.asarray(batch.column(1).to_numpy())) for batch in found)


@contextmanager
def open_engine() -> Iterator[GroupingDatabase]:
    """Open an engine, and remove what it has written to temporary files."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="rowtide-") as folder:
        # Rows have their places in a column: the order in which DuckDB has them is of no use, and would cost memory.
        settings: _Settings = {"memory_limit": _MEMORY, "temp_directory": folder, "preserve_insertion_order": False}
        with duckdb.connect(config=settings) as connection:
            # DuckDB prints it to standard output, where it takes the program for an interactive one.
            connection.execute("set enable_progress_bar = false")
            # The side that a query names last is the small one; DuckDB cannot know it of a stream.
            connection.execute("set disabled_optimizers = 'join_order,build_side_probe_side'")
            yield GroupingDatabase(connection)


class GroupingDatabase:
    """A DuckDB of its own, whose memory is bounded."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._registered: list[_BatchRows] = []

    def register(self, name: str, columns: Sequence[str], batches: Iterator[list[Any]]) -> bool:
        """Let statements read batches of columns, once, as a relation of a name; return False if there are none."""
        first = next(batches, None)
        if first is None:
            return False
        rows = _BatchRows(columns, first, batches)
        self._registered.append(rows)
        self._connection.register(name, rows.as_reader())
        return True

    def execute(self, statement: str) -> None:
        """Run a statement. Raises `QueryFailed`, and what the registered batches raise."""
        with self._failures():
            self._connection.execute(statement)

    def query(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query. Raises as `execute`."""
        yield from self._stream(self._connection, statement)

    def read(self, statement: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query on tables, beside other queries. Raises as `execute`."""
        with self._connection.cursor() as cursor:
            yield from self._stream(cursor, statement)

    def _stream(self, connection: duckdb.DuckDBPyConnection, statement: str) -> Iterator[pa.RecordBatch]:
        with self._failures():
            for batch in connection.sql(statement).to_arrow_reader(_GROUPS_AT_A_TIME):
                if batch.num_rows:
                    yield batch

    @contextmanager
    def _failures(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except (duckdb.Error, OSError) as error:
            for rows in self._registered:
                if rows.error is not None:
                    raise rows.error from None
            raise QueryFailed(str(error).splitlines()[0]) from error


class _BatchRows:
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


def _names(keys: Sequence[str], masks: int, fillable: Sequence[int]) -> list[str]:
    return ["place", *keys, *(f"mask_{part}" for part in range(masks)), *(f"carries_{one}" for one in fillable)]


def _grouped(keys: Sequence[str], masks: int, fillable: Sequence[int]) -> str:
    """Return what is selected of the keys, and from where."""
    parts = [f"bit_or(mask_{part})" for part in range(masks)]
    sources = [f"coalesce(max(place) filter (where carries_{one}), {_NOWHERE}) as source_{one}" for one in fillable]
    first, has_insert = f"min(place) & {_OPERATION} as first", f"bool_or(place & {_OPERATION} = {INSERT}) as has_insert"
    found = ["max(place) as last", first, has_insert, *parts, *sources]
    grouped = f" group by {', '.join(keys)}" if keys else ""
    return f"{', '.join(found)} from change_rows{grouped}"


def _as_group(batch: pa.RecordBatch, masks: int) -> KeyGroup:
    last, first, has_insert, *others = (np.asarray(column.to_numpy(zero_copy_only=False)) for column in batch.columns)
    return KeyGroup(last, first, has_insert, tuple(others[:masks]), tuple(others[masks:]))
