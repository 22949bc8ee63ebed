"""Brings the tables of a target up to an LSN; current rows (SCD type 1) are kept by a merge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rowtide.cdc.change_columns import INSERT, TRUNCATE
from rowtide.cdc.errors.querying import BeforeSnapshot, ChangesMissingSinceSnapshot, NeverCopied, RewrittenSinceSnapshot
from rowtide.cdc.instances import Instance
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.cdc.queries.net_changes import WITH_MERGE
from rowtide.cdc.recorded_snapshots import find_base, read_snapshots
from rowtide.cdc.spark_changes import Changes, reduce_changes
from rowtide.core.lsn import CommitLsn
from rowtide.delta.errors import LakeWriteFailed
from rowtide.events.catalogue import DroppedValuesStay
from rowtide.events.event import emit
from rowtide.lake.jars import describe, lack_named
from rowtide.lake.session import for_reading, spark_watched
from rowtide.lake.sql_text import select_from
from rowtide.targets import errors, keepers, statements
from rowtide.targets.applying import Due, TableVersion
from rowtide.targets.columns import TargetColumns, require_partitionable, shape_table
from rowtide.targets.definitions import Target
from rowtide.targets.direct.applying import DirectApplier
from rowtide.targets.history_rows import HistoryRows
from rowtide.targets.options import HISTORY, Truncation
from rowtide.targets.table_format import FoundTable, NewTable, TargetTable, Verify, module_of, order_renames

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_IS_TRUNCATE = "__$is_truncate"


class CurrentRows:
    """A table of current rows, and the changes that come to it."""

    def __init__(self, target: str, table: TargetTable, shape: TargetColumns, truncation: Truncation) -> None:
        self._target = target
        self._table = table
        self._shape = shape
        self._truncation = truncation

    @property
    def own_columns(self) -> Sequence[tuple[str, str]]:
        """The column of soft deletes, if there is one."""
        return [(self._shape.soft_delete, "boolean")] if self._shape.soft_delete is not None else []

    def follow(self, changes: Changes, window: keepers.TargetWindow, found: FoundTable) -> None:
        """Merge the net changes of a window."""
        net = self._net_changes(changes, window)
        misfits = " or ".join(keepers.key_misfits(window.instance)) if window.may_have_misfits else ""
        marked = net.selectExpr(
            "*",
            f"`__$operation` = {TRUNCATE} as `{_IS_TRUNCATE}`",
            f"{misfits or 'false'} as misfit",
            f"`__$operation` = {INSERT} as moved",
        )
        rows = select_from(
            marked,
            lambda name: statements.select_rows(
                name,
                self._shape,
                window.instance,
                [_IS_TRUNCATE, "misfit", "moved"],
                may_lack=window.may_lack,
                are_changes=True,
            ),
        )
        # Looked at once, and merged from memory: the merge reads its source twice.
        rows.persist()
        try:
            facts = self._look(rows, window, found)
            merged = statements.Merged(
                bool(facts["truncates"]), window.may_lack, tuple(keepers.ranges(self._shape, facts))
            )
            keepers.require_partitions_fit(
                rows.where(f"not `{statements.IS_DELETED}`"), self._shape, self._table.location
            )
            given = rows.where(f"not `{_IS_TRUNCATE}`") if merged.is_whole else rows
            # Also where the changes have no effect: the commit refuses a process that is late with some of them.
            self._table.commit(window.end, lambda: self._merge(given, merged))
        finally:
            rows.unpersist()

    def match(self, copy: keepers.Copy, found: FoundTable) -> None:
        """Make the rows those of a copy, without those that have gone."""
        keepers.require_fit(copy.rows, copy.instance, self._target)
        rows = select_from(
            copy.rows,
            lambda name: statements.select_rows(name, self._shape, copy.instance, may_lack=False, are_changes=False),
        )
        keepers.require_partitions_fit(rows.where(f"not `{statements.IS_DELETED}`"), self._shape, self._table.location)
        if not found.files:
            self._table.commit(copy.lsn, lambda: self._insert(rows))
            return
        types = dict(rows.dtypes)
        changed = select_from(
            rows,
            lambda name, present: statements.differences(name, present, self._shape, types),
            self._table.read(found.version),
        )
        # Most rows of a later copy are there already: only the others are written.
        changed.persist()
        try:
            wanted = ["count(*) as rows", *(keepers.range_columns(self._shape) if found.files > 1 else [])]
            facts = changed.selectExpr(*wanted).first()
            assert facts is not None
            merged = statements.Merged(
                is_whole=False, may_lack=False, ranges=tuple(keepers.ranges(self._shape, facts.asDict()))
            )
            self._table.commit(copy.lsn, lambda: self._merge(changed, merged))
        finally:
            changed.unpersist()

    def _merge(self, rows: DataFrame, merged: statements.Merged) -> None:
        select_from(rows, lambda name: statements.merge_statement(self._table.sql_name, name, self._shape, merged))

    def _insert(self, rows: DataFrame) -> None:
        select_from(rows, lambda name: statements.insert_statement(self._table.sql_name, name, self._shape))

    def _net_changes(self, changes: Changes, window: keepers.TargetWindow) -> DataFrame:
        name, instance = window.instance.capture_instance, window.instance
        if self._truncation is Truncation.KEEP and window.may_truncate:
            rows = changes.get_all_changes(name, window.start, window.end)
            rows = rows.where(f"`__$operation` != {TRUNCATE}")
            return reduce_changes(rows, instance, WITH_MERGE, may_truncate=False)
        return changes.get_net_changes(name, window.start, window.end, WITH_MERGE)

    def _look(self, rows: DataFrame, window: keepers.TargetWindow, found: FoundTable) -> dict[str, Any]:
        """Return the number of net changes and of truncates among them, and the ends of the key's columns."""
        wanted = ["count(*) as rows", f"count_if(`{_IS_TRUNCATE}`) as truncates", "count_if(misfit) as misfits"]
        # Net changes to be merged have inserts only where a row moved, and lacks values of its own.
        wanted += [f"count_if(moved and {statements.lacks_any(self._shape, may_lack=window.may_lack)}) as unknown"]
        if found.files > 1:
            wanted += keepers.range_columns(self._shape)
        facts = rows.selectExpr(*wanted).first()
        assert facts is not None
        if facts["misfits"]:
            raise errors.KeyUnfit(window.instance.capture_instance, self._target)
        if facts["unknown"]:
            raise errors.TargetValueUnknown(window.instance.capture_instance, self._target)
        # A table that is emptied is read whole.
        return {"rows": facts["rows"], "truncates": True} if facts["truncates"] else facts.asDict()


def open_table(
    spark: SparkSession, target: Target, instance: str, verify: Verify, known: int | None = None
) -> TargetTable:
    """Return the table of an instance; `spark` is a session for it alone. It calls `verify` before each commit.

    `known` is the version that the set has, None before the first.
    """
    opened: TargetTable = module_of(target.options.format).open_table(spark, target, instance, verify, known)
    return opened


class TableApplier:
    """Applies windows to the tables of one target; called by several threads, one per table."""

    def __init__(self, lake: str, target: Target, make_spark: Callable[[], SparkSession], verify: Verify) -> None:
        self._lake = lake
        self._target = target
        self._make_spark = make_spark
        self._verify = verify
        self._direct = DirectApplier(lake, target, verify)

    def apply(self, due: Due) -> TableVersion:
        """Bring a table up to an LSN; return its version then."""
        instance = due.recorded.instance
        snapshot = find_snapshot(self._lake, instance.member_id, due.to)
        known = due.known
        if known is not None and known.version is not None and known.lsn is not None and known.snapshot >= snapshot:
            window = self._open_window(due, known.lsn, due.to)
            if window.is_empty and not keepers.find_drops(instance, known.lsn, due.to):
                return due.as_member(known.location, known.version, snapshot)
        if (version := self._direct.apply(due, snapshot)) is not None:
            return version
        spark = for_reading(self._make_spark(), self._lake)
        table = open_table(spark, self._target, instance.capture_instance, self._verify, due.known_version)
        with self._failures_named(instance.capture_instance):
            return self._apply(due, table, Changes(spark, self._lake), snapshot)

    def _apply(self, due: Due, table: TargetTable, changes: Changes, snapshot: int) -> TableVersion:
        instance = due.recorded.instance.for_readers()
        shape = shape_table(self._target, instance, self._target.consumer.instance_names)
        source = _columns_of(changes, instance, due.to)
        found = table.find()
        # The next publication has a later LSN, with which the copy is no repeat.
        if found is not None and due.known is not None and due.has_to_wait(found, self._target):
            return due.known
        if found is not None and due.known_snapshot == 0:
            found = self._rename_columns(table, instance, found)
        if found is None or self._change_columns(table, source, shape, instance, found):
            found = self._require(table, found, source, shape, instance)
        position = due.find_position(found)
        is_copied = due.needs_copy(found, snapshot, self._target)
        due.require_known(self._lake, self._target.name, found, is_copied=is_copied)
        if is_copied:
            if position is not None and self._target.kind == HISTORY:
                # A copy has one moment; what changed before it keeps its own, but for what is gone already.
                try:
                    # Up to before the copy's LSN, since a commit with that LSN would count as the copy's.
                    found = self._follow_up_to(due, position, due.to.decrement(), table, changes, shape, found)
                except (errors.TargetPassed, errors.TargetValueUnknown):
                    found = _found(table)
            rows = changes.get_table_as_of(instance.capture_instance, due.to)
            copy = keepers.Copy(rows, instance, due.to, LsnTimes(self._lake).find_time(due.to))
            self._choose_keeper(table, shape).match(copy, found)
            return due.as_member(table.location, _found(table).version, snapshot)
        found = self._follow_up_to(due, position, due.to, table, changes, shape, found)
        return due.as_member(table.location, found.version, snapshot)

    def _follow_up_to(
        self,
        due: Due,
        position: CommitLsn | None,
        to: CommitLsn,
        table: TargetTable,
        changes: Changes,
        shape: TargetColumns,
        found: FoundTable,
    ) -> FoundTable:
        """Apply the changes behind a position, and the drops of columns among them, each at its LSN."""
        for dropped_at in keepers.find_drops(due.recorded.instance.for_readers(), position, to):
            before = self._open_window(due, position, dropped_at.decrement())
            found = self._follow(before, table, changes, shape, found)
            is_dropped = self._drop_values(due, dropped_at, table, changes, shape, found)
            found, position = _found(table), dropped_at if is_dropped else dropped_at.decrement()
        return self._follow(self._open_window(due, position, to), table, changes, shape, found)

    def _drop_values(
        self, due: Due, at: CommitLsn, table: TargetTable, changes: Changes, shape: TargetColumns, found: FoundTable
    ) -> bool:
        """Make the rows those of the source's table at the LSN at which a column was dropped: null in all rows.

        Return false where the lake does not know the table: rows that do not change keep their values then.
        """
        instance = due.recorded.instance.for_readers()
        try:
            rows = changes.get_table_as_of(instance.capture_instance, at)
        except (NeverCopied, BeforeSnapshot, RewrittenSinceSnapshot, ChangesMissingSinceSnapshot) as error:
            emit(DroppedValuesStay(error))
            return False
        copy = keepers.Copy(rows, instance, at, LsnTimes(self._lake).find_time(at))
        self._choose_keeper(table, shape).match(copy, found)
        return True

    def _follow(
        self,
        window: keepers.TargetWindow,
        table: TargetTable,
        changes: Changes,
        shape: TargetColumns,
        found: FoundTable,
    ) -> FoundTable:
        """Apply a window of changes; return the table then."""
        if window.is_empty:
            return found
        if window.may_lack:
            shape = self._find_sources(_columns_of(changes, window.instance, window.end), shape, window.instance)
        self._choose_keeper(table, shape).follow(changes, window, found)
        return _found(table)

    def _open_window(self, due: Due, after: CommitLsn | None, to: CommitLsn) -> keepers.TargetWindow:
        return keepers.open_target_window(self._target.name, due.recorded, after, to, self._lake)

    def _choose_keeper(self, table: TargetTable, shape: TargetColumns) -> keepers.Keeper:
        name, truncation = self._target.name, self._target.options.truncate
        if self._target.kind == HISTORY:
            return HistoryRows(name, table, shape, truncation, self._lake, LsnTimes(self._lake).map_lsn_to_time)
        return CurrentRows(name, table, shape, truncation)

    def _require(
        self, table: TargetTable, found: FoundTable | None, source: DataFrame, shape: TargetColumns, instance: Instance
    ) -> FoundTable:
        """Return the table as it is now; make it if it is not there, with the types that its expressions have."""
        if found is None:
            columns = [*_types(source, shape, instance), *self._choose_keeper(table, shape).own_columns]
            require_partitionable(self._target.name, instance.capture_instance, shape.partition_by, dict(columns))
            properties = self._target.options.table_properties
            table.create(NewTable(columns, shape.cluster_by, shape.partition_by, properties))
        return _found(table)

    def _rename_columns(self, table: TargetTable, instance: Instance, found: FoundTable) -> FoundTable:
        """Give columns the names that they have in the instance that the table goes over to."""
        names = self._target.options.renamed_columns.get(instance.capture_instance, {})
        ordered = order_renames(names, tuple(found.types))
        if not ordered:
            return found
        try:
            table.rename_columns(ordered)
        except LakeWriteFailed as error:
            self._refuse(instance, f"{', '.join(old for old, _ in ordered)}: {error.reason}", error)
        return _found(table)

    def _change_columns(
        self, table: TargetTable, source: DataFrame, shape: TargetColumns, instance: Instance, found: FoundTable
    ) -> bool:
        """Let a table's columns follow the source's; return whether any had to. Raises `TargetNotFollowing`."""
        wanted = dict(_types(source, shape, instance))
        missing = [name for name in wanted if name not in found.types]
        changed = {
            name: type_name
            for name, type_name in wanted.items()
            if name in found.types and not is_alike(found.types[name], type_name)
        }
        try:
            if missing:
                table.add_columns([(name, wanted[name]) for name in missing])
            if changed:
                table.change_types(changed)
        except LakeWriteFailed as error:
            self._refuse(instance, f"{', '.join([*missing, *changed])}: {error.reason}", error)
        return bool(missing or changed)

    def _refuse(self, instance: Instance, reason: str, cause: Exception | None = None) -> None:
        raise errors.TargetNotFollowing(self._target.name, instance.capture_instance, reason) from cause

    def _find_sources(self, source: DataFrame, shape: TargetColumns, instance: Instance) -> TargetColumns:
        """Return the columns with what their expressions need, for rows that may lack values.

        Raises `TargetExpressionFailed` if one needs several columns, or rows are deleted by a condition: neither can be
        computed where some values are absent.
        """
        if shape.apply_as_deletes is not None:
            reason = "the condition of deletes needs whole rows; --before-images full"
            raise errors.TargetExpressionFailed(self._target.name, instance.capture_instance, reason)
        columns = []
        for column in shape.columns:
            sources = column.sources or tuple(find_needed(source, column.expression, instance))
            if len(sources) > 1 and not column.is_key:
                reason = f"{column.name} needs several columns, of which the log may lack some; --before-images full"
                raise errors.TargetExpressionFailed(self._target.name, instance.capture_instance, reason)
            columns.append(replace(column, sources=sources))
        return replace(shape, columns=tuple(columns))

    @contextmanager
    def _failures_named(self, instance: str) -> Iterator[None]:
        """Raise `TargetExpressionFailed` for what Spark says of expressions, `SparkLost` where the JVM is gone."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            with spark_watched(), lack_named():
                yield
        except Py4JJavaError as error:
            raise errors.TargetExpressionFailed(self._target.name, instance, describe(error)) from error
        except PySparkException as error:
            reason = str(error).strip().splitlines()[0]
            raise errors.TargetExpressionFailed(self._target.name, instance, reason) from error


def find_snapshot(lake: str, member_id: str, at: CommitLsn) -> int:
    """Return the number of the newest copy of an instance's table that is complete at an LSN; 0 without a whole one."""
    snapshots = read_snapshots(lake).get(member_id, ())
    if find_base(snapshots, at) is None:
        return 0
    return max(one.number for one in snapshots if one.is_covered_at(at))


def _columns_of(changes: Changes, instance: Instance, at: CommitLsn) -> DataFrame:
    """Return change rows of an instance, none, for their columns; a longer range than an LSN may have a gap."""
    return changes.get_all_changes(instance.capture_instance, at, at).limit(0)


def _found(table: TargetTable) -> FoundTable:
    found = table.find()
    assert found is not None
    return found


def _types(source: DataFrame, shape: TargetColumns, instance: Instance) -> list[tuple[str, str]]:
    """Return the columns of a table's shape with the types that their expressions have."""
    rows = select_from(
        source, lambda name: statements.select_rows(name, shape, instance, may_lack=False, are_changes=True)
    )
    return rows.drop(statements.IS_DELETED).dtypes


def is_alike(found: str, wanted: str) -> bool:
    """Return whether a column's type is the wanted one; Iceberg has no smallint."""
    return found == wanted or (found, wanted) == ("int", "smallint")


def find_needed(source: DataFrame, expression: str, instance: Instance) -> Iterator[int]:
    """Yield the ordinals of the columns without which an expression cannot be analysed."""
    from pyspark.errors import AnalysisException

    for ordinal, column in enumerate(instance.columns, 1):
        try:
            # An expression is analysed where it is selected.
            source.drop(column.lake_name).selectExpr(expression)
        except AnalysisException:
            yield ordinal
