"""Change rows of a window, or a table as of an LSN, as Arrow, for programs and for what takes Arrow: DuckDB, Polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rowtide.cdc.instances import Instance
from rowtide.core.extras import naming_extras

if TYPE_CHECKING:
    import duckdb
    import polars


@dataclass(frozen=True)
class ArrowChanges:
    """Change rows in order, or a table's rows; `schema` has their columns, `instance` what these are in the source.

    Rows are read as often as they are asked for, each time from the same version of the change table, as a stream in
    bounded memory. Reading raises `LakeReadFailed`, also when a vacuum removed the version's files.
    """

    schema: pa.Schema
    instance: Instance
    batches: Callable[[], Iterator[pa.RecordBatch]]

    def to_arrow(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches of a few megabytes."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the rows as a relation of a DuckDB connection, by default of DuckDB's own.

        Each query on the relation reads the lake. Raises `ExtraMissing`.
        """
        with naming_extras():
            import duckdb
        return duckdb.from_arrow(self, connection=connection or duckdb.default_connection())

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a data frame of Polars, which holds all of them. Raises `ExtraMissing`."""
        with naming_extras():
            import polars
        return polars.DataFrame(self)

    def without_rows(self) -> ArrowChanges:
        """Return the same columns without rows."""
        return replace(self, batches=lambda: iter(()))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as Arrow's C stream: DuckDB, Polars and others take this object as it is."""
        rows: Any = self.to_arrow()
        stream: object = rows.__arrow_c_stream__(requested_schema)
        return stream
