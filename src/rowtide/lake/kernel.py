"""Delta Kernel: a table's log read and written without a Spark job (docs/decisions/0006)."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rowtide.lake.files import Files
from rowtide.lake.java import JavaClasses, describe, items, iterate, java_classes

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger("rowtide.lake")

_EXCEPTIONS = "io.delta.kernel.exceptions"
_ENGINE_NAME = "rowtide"
_CHECKPOINT = "CHECKPOINT"
_KEPT_CHECKSUMS = 100
"""Number of versions whose checksums are kept, for concurrent readers."""


_LOG_FILE = re.compile(r"(?P<version>\d{20})\.(?P<kind>json|crc|checkpoint\.parquet)")


@dataclass(frozen=True, slots=True)
class _LogFile:
    place: str
    version: int
    kind: str
    time: datetime

    @property
    def is_checkpoint(self) -> bool:
        return self.kind.startswith("checkpoint")


class KernelTable:
    """The Delta table at a path, as of the moment of each call. Cheap to create; for one thread at a time.

    Failures are raised as `Py4JJavaError`.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._classes = java_classes(spark)
        self._path = path
        hadoop = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - no public way
        self.files = Files(self._classes, hadoop)
        self._engine: JavaObject = self._classes.default_engine.create(hadoop)
        self._committed: JavaObject | None = None

    def read_snapshot(self) -> KernelSnapshot | None:
        """Return the current snapshot; None if there is no table."""
        from py4j.protocol import Py4JJavaError

        try:
            return KernelSnapshot(self._classes, self._engine, self._table.getLatestSnapshot(self._engine))
        except Py4JJavaError as error:
            if is_raised(error, "TableNotFoundException"):
                return None
            raise

    def forget_checksums(self) -> None:
        """Remove the checksums of early versions.

        Only the newest is read, and Delta's retention does not remove them.
        """
        snapshot = self.read_snapshot()
        assert snapshot is not None
        oldest = snapshot.version - _KEPT_CHECKSUMS
        for file in self._list_log("*.crc"):
            if file.version < oldest:
                self.files.delete(file.place)

    def forget_versions(self, age: timedelta) -> None:
        """Remove the log below the last checkpoint of this age: earlier versions can no longer be read.

        Delta's own retention is a table property, and at least that of removed files.
        """
        log_files = self._list_log("*")
        before = datetime.now(UTC) - age
        checkpoints = [file.version for file in log_files if file.is_checkpoint and file.time < before]
        for file in sorted(log_files, key=lambda file: file.version):
            if file.version < max(checkpoints, default=0):
                self.files.delete(file.place)

    def _list_log(self, pattern: str) -> list[_LogFile]:
        """Return the log files whose names match a pattern; each costs several calls to the JVM."""
        listed = self.files.find(f"{self._path}/_delta_log", pattern)
        found = [(_LOG_FILE.fullmatch(file.getPath().getName()), file) for file in listed]
        return [
            _LogFile(
                place=file.getPath().toString(),
                version=int(name["version"]),
                kind=name["kind"],
                time=datetime.fromtimestamp(file.getModificationTime() / 1000, UTC),
            )
            for name, file in found
            if name is not None
        ]

    def begin_append(self, identity: str, cycle: int) -> KernelAppend:
        """Begin a transaction on the snapshot that our last commit left, else on the current one.

        A cycle that the table already has is refused with `ConcurrentTransactionException`, here or by the commit.
        """
        # Listing a table's log takes the longer the more commits it has: thousands within an hour.
        snapshot = self._committed or self._table.getLatestSnapshot(self._engine)
        self._committed = None
        builder = snapshot.buildUpdateTableTransaction(_ENGINE_NAME, self._classes.write)
        transaction = builder.withTransactionId(identity, cycle).build(self._engine)
        return KernelAppend(self._classes, self._engine, transaction, self._remember)

    def _remember(self, committed: JavaObject) -> None:
        self._committed = committed

    @cached_property
    def _table(self) -> JavaObject:
        return self._classes.table.forPath(self._engine, self._path)


class KernelSnapshot:
    """One version of a table. Failures are raised as `Py4JJavaError`."""

    def __init__(self, classes: JavaClasses, engine: JavaObject, snapshot: JavaObject) -> None:
        self._classes = classes
        self._engine = engine
        self._snapshot = snapshot

    @property
    def version(self) -> int:
        """The version of the table's last commit."""
        return int(self._snapshot.getVersion())

    def read_properties(self) -> dict[str, str]:
        """Return the table's properties."""
        return dict(self._snapshot.getTableProperties())

    def read_latest_cycle(self, identity: str) -> int | None:
        """Return the last cycle appended under an identity."""
        latest = self._snapshot.getLatestTransactionVersion(self._engine, identity)
        return int(latest.get()) if latest.isPresent() else None

    def list_files(self, column: str, at_least: int) -> list[str]:
        """Return the paths of the data files, without those in which, by statistics, a column is lower in all rows."""
        with self._scan_files(self._reaching(column, at_least)) as files:
            return [str(self._classes.scan_file.getAddFileStatus(file).getPath()) for file in files]

    def has_files(self, column: str, at_least: int) -> bool:
        """Return whether `list_files` would return any."""
        with self._scan_files(self._reaching(column, at_least)) as files:
            return next(files, None) is not None

    def is_empty(self) -> bool:
        """Return whether the table has no data files."""
        with self._scan_files(self._snapshot.getScanBuilder().build()) as files:
            return next(files, None) is None

    def _reaching(self, column: str, at_least: int) -> JavaObject:
        operands = self._classes.array_list()
        operands.add(self._classes.column(column))
        operands.add(self._classes.literal.ofLong(at_least))
        return self._snapshot.getScanBuilder().withFilter(self._classes.predicate(">=", operands)).build()

    @contextmanager
    def _scan_files(self, scan: JavaObject) -> Iterator[Iterator[JavaObject]]:
        batches = scan.getScanFiles(self._engine)
        with closing(batches):
            yield (row for batch in iterate(batches) for row in iterate(batch.getRows()))


class KernelAppend:
    """A transaction that adds data files."""

    def __init__(
        self, classes: JavaClasses, engine: JavaObject, transaction: JavaObject, remember: Callable[[JavaObject], None]
    ) -> None:
        """`remember` receives the snapshot after the commit, unless a checkpoint makes a shorter one."""
        self._classes = classes
        self._engine = engine
        self._transaction = transaction
        self._remember = remember
        self._files = classes.array_list()

    def read_schema(self) -> StructType:
        """Return the table's schema, with Delta's metadata of each column."""
        from pyspark.sql.types import StructType

        schema = self._transaction.getSchema(self._engine)
        return StructType.fromJson(json.loads(self._classes.type_json.serializeDataType(schema)))

    def add(self, file: JavaObject, columns: Mapping[str, str], statistics: Mapping[str, object]) -> None:
        """Add a data file (Hadoop's FileStatus) with statistics (Delta's protocol) of its rows and some columns.

        `columns`: their types, `long` or `integer`, by their names in files.
        """
        schema = self._classes.struct_type()
        for name, type_name in columns.items():
            schema = schema.add(name, self._classes.whole_numbers[type_name])
        described = self._classes.data_file_statistics.deserializeFromJson(json.dumps(statistics), schema)
        location = file.getPath().toString()
        status = self._classes.data_file_status
        self._files.add(status(location, file.getLen(), file.getModificationTime(), described))

    def commit(self) -> None:
        """Commit. Raises `ConcurrentTransactionException` if another process has committed the cycle meanwhile."""
        state = self._transaction.getTransactionState(self._engine)
        context = self._classes.transaction.getWriteContext(self._engine, state, self._classes.hash_map())
        files = self._classes.iterators.toCloseableIterator(self._files.iterator())
        actions = self._classes.transaction.generateAppendActions(self._engine, state, files, context)
        in_memory = self._classes.closeable_iterable.inMemoryIterable(actions)
        result = self._transaction.commit(self._engine, in_memory)
        hooks, left = items(result.getPostCommitHooks()), result.getPostCommitSnapshot()
        self._run_hooks(hooks)
        if left.isPresent() and _CHECKPOINT not in [hook.getType().toString() for hook in hooks]:
            self._remember(left.get())

    def _run_hooks(self, hooks: Sequence[JavaObject]) -> None:
        """Write the checkpoint when due, and the checksum; they only speed up the next read."""
        from py4j.protocol import Py4JJavaError

        for hook in hooks:
            try:
                hook.threadSafeInvoke(self._engine)
            except Py4JJavaError as error:
                log.warning("commit_hook_failed: %s", describe(error))


def is_raised(error: Py4JJavaError, name: str) -> bool:
    """Return whether an error is Delta Kernel's exception of a name."""
    return bool(error.java_exception.getClass().getName() == f"{_EXCEPTIONS}.{name}")
