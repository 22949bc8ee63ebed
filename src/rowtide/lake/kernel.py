"""Delta's kernel: a table's log read and written without a Spark job (docs/decisions/0006)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger("rowtide.lake")

_EXCEPTIONS = "io.delta.kernel.exceptions"
_ENGINE_NAME = "rowtide"
_CHECKPOINT = "CHECKPOINT"


class KernelTable:
    """The Delta table at a path, as of the moment of each call. Cheap to make; for one thread at a time.

    Failures come as `Py4JJavaError`.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self.jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no public way to the JVM
        self.hadoop: JavaObject = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        self._path = path
        self._kernel: Any = self.jvm.io.delta.kernel
        self._engine: JavaObject = self._kernel.defaults.engine.DefaultEngine.create(self.hadoop)
        self._committed: JavaObject | None = None

    def read_snapshot(self) -> KernelSnapshot | None:
        """Return the table as of now, None where there is none."""
        from py4j.protocol import Py4JJavaError

        try:
            return KernelSnapshot(self.jvm, self._engine, self._table.getLatestSnapshot(self._engine))
        except Py4JJavaError as error:
            if is_raised(error, "TableNotFoundException"):
                return None
            raise

    def create(self, schema: StructType, properties: Mapping[str, str]) -> None:
        """Make the table, empty."""
        java_schema = self._kernel.internal.types.DataTypeJsonSerDe.deserializeStructType(schema.json())
        settings = self.jvm.java.util.HashMap(dict(properties))
        builder = self._kernel.TableManager.buildCreateTableTransaction(self._path, java_schema, _ENGINE_NAME)
        transaction = builder.withTableProperties(settings).build(self._engine)
        transaction.commit(self._engine, self._kernel.utils.CloseableIterable.emptyIterable())

    def begin_append(self, identity: str, cycle: int) -> KernelAppend:
        """Begin a transaction on what our last commit left, else on the table as of now.

        A cycle that the table has is refused with `ConcurrentTransactionException`, here or by the commit.
        """
        # Listing a table's log takes the longer the more commits it has: thousands within an hour.
        snapshot = self._committed or self._table.getLatestSnapshot(self._engine)
        self._committed = None
        builder = snapshot.buildUpdateTableTransaction(_ENGINE_NAME, self._kernel.Operation.WRITE)
        transaction = builder.withTransactionId(identity, cycle).build(self._engine)
        return KernelAppend(self.jvm, self._engine, transaction, self._remember)

    def _remember(self, committed: JavaObject) -> None:
        self._committed = committed

    @cached_property
    def _table(self) -> JavaObject:
        return self._kernel.Table.forPath(self._engine, self._path)


class KernelSnapshot:
    """One version of a table. Failures come as `Py4JJavaError`."""

    def __init__(self, jvm: Any, engine: JavaObject, snapshot: JavaObject) -> None:
        self._jvm = jvm
        self._kernel = jvm.io.delta.kernel
        self._engine = engine
        self._snapshot = snapshot

    def read_properties(self) -> dict[str, str]:
        """Return the table's properties."""
        return dict(self._snapshot.getTableProperties())

    def read_latest_cycle(self, identity: str) -> int | None:
        """Return the last cycle that was appended under an identity."""
        latest = self._snapshot.getLatestTransactionVersion(self._engine, identity)
        return int(latest.get()) if latest.isPresent() else None

    def list_files(self, bigint: str, at_least: int) -> list[str]:
        """Return the paths of the data files, without those whose statistics say that a bigint is lower in all rows."""
        expressions = self._kernel.expressions
        operands = self._jvm.java.util.ArrayList()
        operands.add(expressions.Column(bigint))
        operands.add(expressions.Literal.ofLong(at_least))
        scan = self._snapshot.getScanBuilder().withFilter(expressions.Predicate(">=", operands)).build()
        utils = self._kernel.internal.InternalScanFileUtils
        with self._scan_files(scan) as files:
            return [str(utils.getAddFileStatus(file).getPath()) for file in files]

    def is_empty(self) -> bool:
        """Tell whether the table has no data files."""
        with self._scan_files(self._snapshot.getScanBuilder().build()) as files:
            return next(files, None) is None

    @contextmanager
    def _scan_files(self, scan: JavaObject) -> Iterator[Iterator[JavaObject]]:
        batches = scan.getScanFiles(self._engine)
        with closing(batches):
            yield (row for batch in _iterate(batches) for row in _iterate(batch.getRows()))


class KernelAppend:
    """A transaction that adds data files."""

    def __init__(
        self, jvm: Any, engine: JavaObject, transaction: JavaObject, remember: Callable[[JavaObject], None]
    ) -> None:
        """`remember` is given the snapshot that a commit leaves, unless a checkpoint makes a shorter one."""
        self._jvm = jvm
        self._kernel = jvm.io.delta.kernel
        self._engine = engine
        self._transaction = transaction
        self._remember = remember
        self._files = jvm.java.util.ArrayList()

    def read_schema(self) -> StructType:
        """Return the table's schema, with Delta's metadata of each column."""
        from pyspark.sql.types import StructType

        schema = self._transaction.getSchema(self._engine)
        return StructType.fromJson(json.loads(self._kernel.internal.types.DataTypeJsonSerDe.serializeDataType(schema)))

    def add(self, file: JavaObject, bigints: Sequence[str], statistics: Mapping[str, object]) -> None:
        """Add a data file (Hadoop's FileStatus) with statistics (Delta's protocol) of its rows and some bigints."""
        types = self._kernel.types
        schema = types.StructType()
        for name in bigints:
            schema = schema.add(name, types.LongType.LONG)
        described = self._kernel.statistics.DataFileStatistics.deserializeFromJson(json.dumps(statistics), schema)
        location = file.getPath().toString()
        status = self._kernel.utils.DataFileStatus
        self._files.add(status(location, file.getLen(), file.getModificationTime(), described))

    def commit(self) -> None:
        """Commit; raises `ConcurrentTransactionException` where another has committed the cycle meanwhile."""
        state = self._transaction.getTransactionState(self._engine)
        context = self._kernel.Transaction.getWriteContext(self._engine, state, self._jvm.java.util.HashMap())
        files = self._kernel.internal.util.Utils.toCloseableIterator(self._files.iterator())
        actions = self._kernel.Transaction.generateAppendActions(self._engine, state, files, context)
        in_memory = self._kernel.utils.CloseableIterable.inMemoryIterable(actions)
        result = self._transaction.commit(self._engine, in_memory)
        hooks, left = list(result.getPostCommitHooks()), result.getPostCommitSnapshot()
        self._run_hooks(hooks)
        if left.isPresent() and _CHECKPOINT not in [hook.getType().toString() for hook in hooks]:
            self._remember(left.get())

    def _run_hooks(self, hooks: Sequence[JavaObject]) -> None:
        """Write the checkpoint when it is due, and the checksum: they make the next reading quicker, no more."""
        from py4j.protocol import Py4JJavaError

        for hook in hooks:
            try:
                hook.threadSafeInvoke(self._engine)
            except Py4JJavaError as error:
                log.warning("commit_hook_failed: %s", describe(error))


def _iterate(iterator: JavaObject) -> Iterator[JavaObject]:
    while iterator.hasNext():
        yield iterator.next()


def is_raised(error: Py4JJavaError, name: str) -> bool:
    """Tell whether an error is the kernel's exception of a name."""
    return bool(error.java_exception.getClass().getName() == f"{_EXCEPTIONS}.{name}")


def describe(error: Py4JJavaError) -> str:
    """Return the first line of what an error says, and of its first cause where that says more; no Java classes."""
    said = _first_line(error.java_exception)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    reason = _first_line(cause)
    return said if reason in said else f"{said} ({reason})"


def _first_line(exception: JavaObject) -> str:
    return str(exception.getMessage() or exception.toString()).strip().splitlines()[0]
