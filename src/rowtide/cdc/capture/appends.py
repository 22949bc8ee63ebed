"""Change tables of instances: how they begin, change types, get each cycle's rows exactly once, and end.

A cycle's change rows are converted in this process or in Spark tasks, with the same function.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from rowtide.cdc.capture.change_files import (
    ChangeFile,
    Destination,
    SegmentGroup,
    SegmentReader,
    Selection,
    convert_part,
    count_change_rows,
    divide,
    select_records,
    write_change_rows,
)
from rowtide.cdc.capture.planning import CyclePlan
from rowtide.cdc.change_columns import change_columns
from rowtide.cdc.ddl import retyping
from rowtide.cdc.ddl.retyping import WidenedTable
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.cdc.errors.capturing import ChangeFileMissing, ChangeRowsMiscounted, ChangeTableLost
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.published import DISABLED, SUSPENDED, base_table_path, change_table_path
from rowtide.cdc.scans.metrics import Engine
from rowtide.cdc.scans.pace import EngineSetting
from rowtide.cdc.system_tables import LakeState, SystemTables
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.tables import Widened
from rowtide.core.values import frozen
from rowtide.delta.errors import (
    LakeReadFailed,
    LakeWriteFailed,
    LogDamaged,
    TableMissing,
    TableUnreadable,
    TableUnwritable,
)
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Location
from rowtide.delta.writing.commits import PriorVersion
from rowtide.events.catalogue import DisabledRowsStay
from rowtide.events.event import emit
from rowtide.lake import tables
from rowtide.lake.stores import calls_at_once, locate
from rowtide.lake.tables import writing
from rowtide.storage.store import Missing, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SPARK_ROWS = 4_000_000
"""With `AUTO`, cycles with more log records, for example of one large transaction, are converted by Spark; measured
(docs/decisions/0009).
"""

# One part is converted while the files of the other are written.
_PARTS_AT_ONCE = 2


def choose_engine(setting: EngineSetting, rows: int) -> Engine:
    """Return the engine for a cycle, by its number of log records."""
    return Engine.SPARK if setting is EngineSetting.SPARK or rows > SPARK_ROWS else Engine.PROCESS


def convert_in_process(
    segments: SegmentReader, parts: Sequence[SegmentGroup], destinations: Mapping[str, Destination], cycle: int
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
    parts: Sequence[SegmentGroup],
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
    store: Store, part: SegmentGroup, destinations: Mapping[str, Destination], cycle: int
) -> tuple[list[bytes], bytes | None]:
    """Convert a part in a Spark task; return its files or the error, because a failing task would lose the error's
    number.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    # No more threads than the task has cores: the others belong to the executor's other tasks.
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


@frozen
class _Cycle:
    """A cycle's number, plan and engine, its segments, and the records of them that become its rows."""

    number: int
    plan: CyclePlan
    engine: Engine
    segments: SegmentReader
    selections: Sequence[Selection]


@frozen
class Prepared:
    """A cycle whose data files are durable, for the change tables that lack it. No version of a table has the files
    yet.
    """

    cycle: _Cycle
    destinations: Mapping[str, Destination]
    files: Mapping[str, Sequence[ChangeFile]]

    @property
    def engine(self) -> Engine:
        """The engine that converted the records."""
        return self.cycle.engine


class ChangeAppender:
    """Appends to the change tables of one lake."""

    def __init__(self, system_tables: SystemTables, store: Store, setting: EngineSetting) -> None:
        self._system_tables = system_tables
        self._committer = system_tables.committer
        self._store = store
        self._setting = setting

    def prepare(
        self,
        plan: CyclePlan,
        number: int,
        segments: SegmentReader,
        captured: Mapping[str, pa.Table],
        enabled: Container[str],
    ) -> Prepared:
        """Write the data files of a cycle's rows; `captured` are its records, see `read_captured`.

        A lost change table is ignored if its member is not among those `enabled`, because its end follows in the log.
        Raises `ChangeTableLost`, `ChangeRowsMiscounted`, and the errors of the engine.
        """
        engine = choose_engine(self._setting, sum(segment.rows for segment in plan.segments))
        cycle = _Cycle(number, plan, engine, segments, select_records(plan))
        expected = count_change_rows(captured, cycle.selections)
        changed = [work.lifetime.instance for work in plan.work if expected.get(work.lifetime.instance.member_id)]
        destinations = self._find_destinations(changed, number, enabled)
        files = self._convert(cycle, destinations)
        for member_id, destination in destinations.items():
            _require_all(files.get(member_id, ()), expected[member_id], destination, number)
        return Prepared(cycle, destinations, files)

    def commit(self, prepared: Prepared, token: int, meanwhile: Callable[[], None]) -> None:
        """Commit a cycle's files to their tables; commits are tagged with the lease's token.

        `meanwhile` is called while commits wait for their stores; its exception is raised after they have ended. Raises
        the errors of the committer.
        """
        plan = prepared.cycle.plan
        tags = {"rowtide.token": str(token), "rowtide.range": f"{plan.from_position}..{plan.to_position}"}
        with self._pool(destination.location.store for destination in prepared.destinations.values()) as pool:
            commits = [
                pool.submit(self._commit, prepared, member_id, destination, tags)
                for member_id, destination in prepared.destinations.items()
            ]
            meanwhile()
            for commit in commits:
                commit.result()

    def _find_destinations(
        self, changed: Sequence[Instance], number: int, enabled: Container[str]
    ) -> dict[str, Destination]:
        """Return the change tables that lack a cycle, by the instances' member ids."""
        lake = self._system_tables.lake
        locations = [locate(change_table_path(lake, instance.capture_instance)) for instance in changed]
        with self._pool(location.store for location in locations) as pool:
            states = list(pool.map(partial(self._find_state, enabled), changed, locations))
        return {
            instance.member_id: Destination(location, state)
            for instance, location, state in zip(changed, locations, states, strict=True)
            # A cycle that is redone may already be committed to this table.
            if state is not None and state.cycles.get(instance.member_id) != number
        }

    def _find_state(self, enabled: Container[str], instance: Instance, location: Location) -> PriorVersion | None:
        try:
            return self._committer.read_state(location)
        except (TableMissing, LogDamaged) as error:
            if instance.member_id not in enabled:
                return None
            raise ChangeTableLost(instance.capture_instance, location.path, error.reason) from error

    def _pool(self, stores: Iterable[Store]) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(calls_at_once(stores), "rowtide-commit")

    def _convert(self, cycle: _Cycle, destinations: Mapping[str, Destination]) -> Mapping[str, list[ChangeFile]]:
        """Write the data files of some change tables; return them by the instances' member ids."""
        chosen = [one for one in cycle.selections if one.instance.member_id in destinations]
        parts = divide(cycle.plan.segments, chosen)
        if cycle.engine is Engine.SPARK and parts:
            tables = self._system_tables
            files = convert_by_spark(lambda: tables.spark, self._store, parts, destinations, cycle.number)
        else:
            files = convert_in_process(cycle.segments, parts, destinations, cycle.number)
        by_member: dict[str, list[ChangeFile]] = {}
        for file in files:
            by_member.setdefault(file.member_id, []).append(file)
        return by_member

    def _commit(self, prepared: Prepared, member_id: str, destination: Destination, tags: Mapping[str, str]) -> None:
        def write(state: PriorVersion) -> list[AddFile]:
            written = prepared.files[member_id]
            if state.columns != destination.state.columns:
                altered = {member_id: Destination(destination.location, state)}
                written = self._convert(prepared.cycle, altered)[member_id]
            return [one.file for one in written]

        failpoint("change_table_append.before")
        number = prepared.cycle.number
        self._committer.commit_once(destination.location, identity=member_id, cycle=number, write=write, tags=tags)
        failpoint("change_table_append.after")


def _require_all(files: Sequence[ChangeFile], expected: int, destination: Destination, cycle: int) -> None:
    """Raise `ChangeRowsMiscounted` unless a table's files have a row for each change that the log has for it."""
    written = sum(file.rows for file in files)
    if written != expected:
        raise ChangeRowsMiscounted(cycle, written, destination.location.path, expected)


@frozen
class Widening:
    """What is done with tables whose columns get wider types.

    `find_setting` returns an instance's setting, by its member id; `on_widened` is called before a table gets them.
    """

    find_setting: Callable[[str], Widened]
    on_widened: Callable[[WidenedTable], None]


WIDENED_BY_SIZE = Widening(lambda _member_id: Widened.AUTO, lambda _table: None)


class InstanceTables:
    """The change tables and base tables of instances."""

    def __init__(self, system_tables: SystemTables, lease: LakeLease, widening: Widening) -> None:
        self._lake = system_tables.lake
        # The committer caches the tables' last versions, and has to forget those to which others commit.
        self._committer = system_tables.committer
        self._lease = lease
        self._widening = widening

    def require_fit(self, plan: CyclePlan) -> None:
        """Verify that the change tables can have the types that a plan gives them."""
        for altered in plan.altered:
            retyping.require_fit(self._lake, altered.lifetime.instance)

    def carry_types(self, plan: CyclePlan) -> None:
        """Change the types of the change tables' columns to those that the source has from this cycle on."""
        for altered in plan.altered:
            instance = altered.lifetime.instance
            retyping.carry_types(
                self._lake,
                instance,
                widened=self._widening.find_setting(instance.member_id),
                before_commit=self._lease.require,
                on_widened=self._widening.on_widened,
            )
            self._committer.forget(change_table_path(self._lake, instance.capture_instance))

    def ensure(self, plan: CyclePlan, lake_state: LakeState) -> None:
        """Create the change tables of the instances that begin in a plan."""
        for lifetime in plan.begun:
            # An instance that ends in the same cycle has no rows, and its name may be the next instance's. When a cycle
            # is redone, the table of the next one must not be emptied, since its rows would then be refused as repeats.
            if lifetime.end is None:
                self._ensure_change_table(lifetime, lake_state)

    def _ensure_change_table(self, lifetime: InstanceLifetime, lake_state: LakeState) -> None:
        columns = [(column.name, column.type_name) for column in change_columns(lifetime.instance)]
        path = change_table_path(self._lake, lifetime.instance.capture_instance)
        # The table may belong to another instance by now, which was enabled while this process was stopped.
        identity = lifetime.instance.member_id
        tables.ensure_table(path, columns, identity=identity, before_commit=self._lease.require)
        before = lake_state.instances.get(lifetime.instance.capture_instance)
        if before is not None and before.state == SUSPENDED:
            # Its types may have changed in the gap; readers do not see its earlier rows.
            retyping.require_types(self._lake, lifetime.instance, self._lease.require)
        self._committer.forget(path)

    def retire_ended(self, plan: CyclePlan) -> None:
        """Remove the rows of the instances that end in a plan, after readers no longer see them."""
        for lifetime in plan.ended:
            if lifetime.end is not None:
                self._retire(lifetime.instance)

    def retire_disabled(self, lake_state: LakeState) -> None:
        """Remove the rows that a crash left between the end of an instance and their removal."""
        for recorded in lake_state.instances.values():
            if recorded.state == DISABLED:
                self._retire(recorded.instance)

    def _retire(self, instance: Instance) -> None:
        """Remove the rows of a disabled instance. A damaged table does not stop the capture of others: `health` names
        it, and the next start tries again.
        """
        for path_of in (change_table_path, base_table_path):
            path = path_of(self._lake, instance.capture_instance)
            try:
                tables.retire_table(path, identity=instance.member_id)
            except (LakeReadFailed, LakeWriteFailed, TableUnreadable, TableUnwritable) as error:
                emit(DisabledRowsStay(error))
            self._committer.forget(path)
