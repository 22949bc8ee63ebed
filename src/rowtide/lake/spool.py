"""Results of any size, row by row in order: Spark writes them to a temporary folder, from which they are read.

`toLocalIterator` would bring whole partitions to the driver, as large as the largest one; and if the JVM ends or runs
out of memory, its reader waits forever.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from rowtide.lake.session import spark_failures_named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROW_GROUP_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 1024


def stream_rows(frame: DataFrame) -> Generator[tuple[object, ...]]:
    """Yield the rows of a DataFrame in order; its columns are text, numbers, or maps, returned as lists of pairs.

    Memory is bounded, here and in the JVM. The folder is on this machine, like a local Spark's own temporary files; it
    is removed when the generator is closed. Raises `SparkLost`, `SparkFailed`.
    """
    with tempfile.TemporaryDirectory(prefix="rowtide-") as folder:
        rows = Path(folder, "rows")
        with spark_failures_named():
            # The sort's partitions follow one another, and so do the files' names.
            numbered = frame.toDF(*map(str, range(len(frame.columns))))
            numbered.write.option("parquet.block.size", _ROW_GROUP_BYTES).parquet(rows.as_uri())
        for path in sorted(rows.glob("part-*")):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                    yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
