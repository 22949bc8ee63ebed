"""Where a cycle's change rows are converted: in this process, or in tasks of Spark, by the same function.

Either writes data files, and commits nothing (docs/decisions/0042).
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from rowtide.cdc.capture.change_files import ChangeFile, Destination, Part, convert_part, write_change_rows
from rowtide.cdc.capture.options import EngineSetting
from rowtide.cdc.capture.segment_reader import SegmentReader
from rowtide.cdc.errors.capturing import ChangeFileMissing
from rowtide.cdc.scans.sessions import Engine
from rowtide.core.errors import RowtideError
from rowtide.lake.stores import calls_at_once
from rowtide.lake.tables import writing
from rowtide.storage.store import Missing, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_ROWS = 4_000_000
"""With `AUTO`, a cycle of more log records, as one large transaction may have, is converted by Spark; measured
(docs/decisions/0042).
"""

_PARTS_AT_ONCE = 2


def choose_engine(setting: EngineSetting, rows: int) -> Engine:
    """Return the engine for a cycle of so many log records."""
    return Engine.SPARK if setting is EngineSetting.SPARK or rows > SPARK_ROWS else Engine.PROCESS


def convert_in_process(
    segments: SegmentReader, parts: Sequence[Part], destinations: Mapping[str, Destination], cycle: int
) -> list[ChangeFile]:
    """Convert parts in this process, and return their files, which are durable.

    While files are written, the next part is converted; at most two parts are in memory. Raises as `convert_part` and
    `write_change_rows`.
    """
    files: list[ChangeFile] = []
    written: deque[list[Future[ChangeFile]]] = deque()
    stores = (destination.location.store for destination in destinations.values())
    with ThreadPoolExecutor(calls_at_once(stores), "rowtide-write") as pool:
        for part in parts:
            if len(written) == _PARTS_AT_ONCE:
                files += [file.result() for file in written.popleft()]
            written.append(
                [
                    pool.submit(write_change_rows, destinations[member_id], member_id, rows, cycle)
                    for member_id, rows in convert_part(segments, part).items()
                ]
            )
    return files + [file.result() for of_part in written for file in of_part]


def convert_by_spark(
    make_spark: Callable[[], SparkSession],
    store: Store,
    parts: Sequence[Part],
    destinations: Mapping[str, Destination],
    cycle: int,
) -> list[ChangeFile]:
    """Convert each part in a task of Spark, and return the files.

    Raises as `convert_in_process`, `LakeWriteFailed` if the job failed, `ChangeFileMissing`, `SparkLost`.
    """
    from pyspark.sql.functions import udf

    with writing(next(iter(destinations.values())).location.path):
        numbers = make_spark().range(0, len(parts), 1, len(parts))
        task = udf(
            lambda number: _run_task(store, parts[number], destinations, cycle),
            "struct<files: array<binary>, error: binary>",
        )
        outcomes = numbers.select(task.asNondeterministic()("id").alias("outcome")).collect()
    for (outcome,) in outcomes:
        if outcome.error is not None:
            raise pickle.loads(outcome.error)  # noqa: S301 - our own task wrote it
    files: list[ChangeFile] = [pickle.loads(file) for (outcome,) in outcomes for file in outcome.files]  # noqa: S301
    stores = (destination.location.store for destination in destinations.values())
    with ThreadPoolExecutor(calls_at_once(stores), "rowtide-look") as pool:
        for _ in pool.map(lambda file: _require_here(destinations[file.member_id], file), files):
            pass
    return files


def _require_here(destination: Destination, written: ChangeFile) -> None:
    """Raise `ChangeFileMissing` unless this process finds a task's file."""
    location = destination.location
    try:
        with location.store.open(unquote(written.file.path)) as file:
            is_here = file.size() == written.file.size
    except Missing:
        is_here = False
    if not is_here:
        raise ChangeFileMissing(f"{location.path}/{written.file.path}")


def _run_task(
    store: Store, part: Part, destinations: Mapping[str, Destination], cycle: int
) -> tuple[list[bytes], bytes | None]:
    """Convert a part in a task of Spark; return its files, or the error, whose number a task's failure would lose."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    # As many threads as the task has cores: the others belong to the executor's other tasks.
    pa.set_cpu_count(context.cpus())
    try:
        rows = convert_part(SegmentReader(store, most_kept_bytes=0), part)
        files = [
            write_change_rows(destinations[member_id], member_id, of_member, cycle)
            for member_id, of_member in rows.items()
        ]
    except RowtideError as error:
        return [], pickle.dumps(error)
    return [pickle.dumps(file) for file in files], None
