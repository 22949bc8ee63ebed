"""The data source `rowtide` of Spark, batch and stream, and its registration.

Spark runs everything here in Python processes of its own, none of which has a session: planning on the driver's
machine, one process for each streaming query, and reading in tasks. What these need comes pickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rowtide.cdc.lake_readers.net_changes import NetChanges
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.spark_source.options import (
    Columns,
    FileSelection,
    Planned,
    SourceOptions,
    SourceShape,
    parse_options,
    read_slices,
)
from rowtide.cdc.spark_source.streams import ChangeBatch, ChangeStream, parse_offset
from rowtide.core.lsn import CommitLsn
from rowtide.lake.sql_text import schema_text
from rowtide.storage.places import VARIABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AllChanges(InputPartition):
    """Slices of change tables, read by one task."""

    def __init__(self, shape: SourceShape, slices: tuple[FileSelection, ...]) -> None:
        self.shape, self.slices = shape, slices

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        return read_slices(self.slices, self.shape)


class AllNetChanges(InputPartition):
    """Net changes, read by one task."""

    def __init__(self, changes: NetChanges) -> None:
        self.changes = changes

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        return self.changes.read()


class RowtideSource(DataSource):
    """What Spark makes of the options of one `load`."""

    environment: ClassVar[Mapping[str, str]] = {}
    """The variables by which object stores are reached, of the process that registered the source."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises as `parse_options`, and `LakeUnknown`."""
        self._options = parse_options(options)
        # A DataFrame has the same rows as often as it is read.
        self._high = self._reach().get_max_lsn()

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rowtide"

    def schema(self) -> StructType:
        """Return the columns of the rows."""
        self._reach()
        return _as_struct(ChangeBatch(self._options, self._high).find_columns())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the batch."""
        self._options.require_batch()
        self._reach()
        return BatchReader(self._options, self._high, _as_columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return what reads the stream."""
        self._options.require_streamable()
        self._reach()
        return StreamReader(self._options, _as_columns(schema))

    def _reach(self) -> PublishedLake:
        """Return the lake, in a process that may have other variables."""
        os.environ.update(self.environment)
        return PublishedLake(self._options.lake)


class BatchReader(DataSourceReader):
    """Reads one batch."""

    def __init__(self, options: SourceOptions, high: CommitLsn | None, columns: Columns) -> None:
        self._options, self._high, self._columns = options, high, columns

    def partitions(self) -> list[InputPartition]:
        """Return what each task reads."""
        batch = ChangeBatch(self._options, self._high)
        if not self._options.is_net:
            return _as_partitions(batch.plan(self._columns))
        changes = batch.plan_net(self._columns)
        return [AllNetChanges(changes)] if changes is not None else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(partition)


class StreamReader(DataSourceStreamReader):
    """Reads one stream: in the query's process, where offsets are asked for, and in tasks."""

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._stream = ChangeStream(options, columns)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset before the first batch."""
        return self._stream.find_beginning().as_json()

    def latestOffset(self, *_limits: object) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset that the next batch is to end with; later versions of Spark name a start and a limit."""
        return self._stream.find_latest().as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return what each task reads."""
        planned = self._stream.plan(parse_offset(start), parse_offset(end))
        return _as_partitions(planned) if planned is not None else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows."""
        return _read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: Spark calls it with the next batch only, and the position is in its checkpoint."""


def collect_variables() -> dict[str, str]:
    """Return the variables by which this process reaches object stores."""
    return {name: os.environ[name] for names in VARIABLES.values() for name in names if os.environ.get(name)}


def _read(partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    # If there is no partition, Spark plans a task without one.
    if isinstance(partition, (AllChanges, AllNetChanges)):
        yield from partition.read()


def _as_partitions(planned: Planned) -> list[InputPartition]:
    return [AllChanges(planned.shape, slices) for slices in planned.tasks]


def _as_struct(columns: Columns) -> StructType:
    return StructType.fromJson(json.loads(schema_text(columns)))


def _as_columns(schema: StructType) -> Columns:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def register_source(spark: SparkSession) -> None:
    """Register the source for a session; it reaches object stores by this process's variables of now."""

    class RegisteredSource(RowtideSource):
        # The class is pickled by value because it belongs to no module, so its variables reach Spark's processes.
        environment = collect_variables()

    spark.dataSource.register(RegisteredSource)
