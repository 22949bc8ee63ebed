"""The keepers of tables' rows: the interface, the keeper of histories, and what kinds share: literals, ranges of the
key, misfits.

A table's next window is described from the statistics of the change files, without Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol

from rowtide.cdc.change_columns import INSERT, TRUNCATE, column_type
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import RecordedInstance, change_table_path, system_table_path
from rowtide.cdc.queries.windows import require_key
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between
from rowtide.delta.errors import PartitionUnfit
from rowtide.delta.schema import NULL_FOLDER, UNFIT_DATE, UNFIT_TEXT
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.sql_text import literal, quote, select_from
from rowtide.lake.stores import locate
from rowtide.lake.tables import read_table
from rowtide.targets import statements
from rowtide.targets.columns import TargetColumns
from rowtide.targets.errors import KeyUnfit, TargetPassed, TargetValueUnknown
from rowtide.targets.options import Truncation
from rowtide.targets.table_format import FoundTable, TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LSN = "__$start_lsn"


@frozen
class TargetWindow:
    """An instance's changes in [start, end], and what may be among them."""

    instance: Instance
    start: CommitLsn
    end: CommitLsn
    is_empty: bool
    may_truncate: bool
    may_lack: bool
    may_have_misfits: bool


def find_drops(instance: Instance, after: CommitLsn | None, end: CommitLsn) -> list[CommitLsn]:
    """Return the LSNs behind one, up to another, at which columns were dropped: in all rows, without change rows."""
    dropped = {column.dropped_at for column in instance.columns if column.dropped_at is not None}
    return [CommitLsn(lsn) for lsn in sorted(dropped) if (after is None or after.value < lsn) and lsn <= end.value]


def open_target_window(
    target: str, recorded: RecordedInstance, after: CommitLsn | None, end: CommitLsn, lake: str
) -> TargetWindow:
    """Return the window after an LSN, from the instance's low endpoint on for None. Raises `TargetPassed`."""
    low, instance = recorded.lsn, recorded.instance
    start = after.increment() if after is not None else low
    if start < low:
        # The low endpoint may have moved, but not past the target's acknowledgement, so the window is complete.
        reason = recorded.note or f"and the low endpoint is {low}"
        raise TargetPassed(instance.capture_instance, target, str(after), reason)
    require_key(instance, end)
    snapshot = open_snapshot(locate(change_table_path(lake, instance.capture_instance)))
    lsns = Between(_LSN, start.value, end.value)

    def may_have(*ranges: Between) -> bool:
        return snapshot is not None and bool(snapshot.list_files(lsns, *ranges))

    return TargetWindow(
        instance=instance.for_readers(),
        start=start,
        end=end,
        is_empty=start > end or not may_have(),
        may_truncate=may_have(Between("__$operation", low=TRUNCATE)),
        may_lack=may_have(Between("__$absent_mask")),
        may_have_misfits=may_have(Between("__$exact")),
    )


@frozen
class Copy:
    """The rows that the source's table had at an LSN, and when that was."""

    rows: DataFrame
    instance: Instance
    lsn: CommitLsn
    time: datetime | None


class Keeper(Protocol):
    """Keeps one table's rows; each call is one commit at most."""

    @property
    def own_columns(self) -> Sequence[tuple[str, str]]:
        """The columns that the table has beside those of its shape: names and types."""
        ...

    def follow(self, changes: Changes, window: TargetWindow, found: FoundTable) -> None:
        """Apply a window of changes."""
        ...

    def match(self, copy: Copy, found: FoundTable) -> None:
        """Make the present rows those of a copy."""
        ...


def range_columns(shape: TargetColumns) -> Iterator[str]:
    """Yield the aggregates that `ranges` needs, over rows with the table's columns."""
    for place, key in enumerate(shape.keys):
        for end in ("min", "max"):
            yield f"{end}({quote(key.name)}) as {end}_{place}"


def ranges(shape: TargetColumns, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ranges of the key in which all changes are: files outside are not read, none where `rows` is 0."""
    if not facts["rows"]:
        # According to statistics no file has such rows. With "false" the optimizer would remove the source, and
        # Iceberg's merge with it (Spark 4.1).
        yield f"t.{quote(shape.keys[0].name)} is null"
        return
    for place, key in enumerate(shape.keys):
        low, high = (as_literal(facts.get(f"{end}_{place}")) for end in ("min", "max"))
        if low is not None and high is not None:
            yield f"t.{quote(key.name)} between {low} and {high}"


def as_literal(value: object) -> str | None:
    """Return a value in SQL; None for one of a type that has no exact literal."""
    match value:
        case bool():
            return None
        case int():
            return f"{value}L"
        case str():
            return literal(value)
        case date() if type(value) is date:
            return f"date '{value.isoformat()}'"
        case _:
            return None


def time_literal(time: datetime | None) -> str:
    """Return a time in SQL."""
    if time is None:
        return "cast(null as timestamp)"
    return f"timestamp '{time.astimezone(UTC).isoformat(sep=' ', timespec='microseconds')}'"


def require_fit(rows: DataFrame, instance: Instance, target: str) -> None:
    """Raise `KeyUnfit` if a value of the key of some rows does not fit its type."""
    misfits = " or ".join(key_misfits(instance))
    if misfits and not rows.where(misfits).isEmpty():
        raise KeyUnfit(instance.capture_instance, target)


def require_partitions_fit(rows: DataFrame, shape: TargetColumns, table: str) -> None:
    """Raise `PartitionUnfit` if some rows, of those that are written, have values that no partition of theirs has."""
    if not shape.has_partition_texts:
        return
    types = dict(rows.dtypes)
    unfit = {
        "string": (f"in ('', {literal(NULL_FOLDER)})", UNFIT_TEXT),
        "date": ("not between date '0000-01-01' and date '9999-12-31'", UNFIT_DATE),
    }
    for name in shape.partition_by:
        condition, reason = unfit.get(types.get(name, ""), ("", ""))
        if condition and not rows.where(f"{quote(name)} {condition}").isEmpty():
            raise PartitionUnfit(table, name, reason)


def key_misfits(instance: Instance) -> Iterator[str]:
    """Yield the conditions under which a value of the key is only in `__$exact`."""
    for ordinal, column in enumerate(instance.columns, 1):
        if column.index_ordinal is not None and not column_type(instance, column).holds_all:
            yield f"try_element_at(`__$exact`, {ordinal}) is not null"


_CHANGE_COLUMNS = ("__$start_lsn", "__$seqval", "__$operation")

FindTime = Callable[[CommitLsn], datetime | None]
"""Returns the time at which the transaction of an LSN ended."""


class HistoryRows:
    """A table of slices, and the changes that are applied to it."""

    own_columns: Sequence[tuple[str, str]] = statements.HISTORY_COLUMNS

    def __init__(
        self,
        target: str,
        table: TargetTable,
        shape: TargetColumns,
        truncation: Truncation,
        lake: str,
        find_time: FindTime,
    ) -> None:
        self._target = target
        self._table = table
        self._shape = shape
        self._truncation = truncation
        self._lake = lake
        self._find_time = find_time

    def follow(self, changes: Changes, window: TargetWindow, found: FoundTable) -> None:
        """Close, alter and open slices for a window of changes."""
        name = window.instance.capture_instance
        every = changes.get_all_changes(name, window.start, window.end, "all update old")
        if window.may_have_misfits:
            require_fit(every, window.instance, self._target)
        truncates = self._list_truncates(every, window)
        rows = select_from(
            every.where(f"`__$operation` != {TRUNCATE}"),
            lambda view: statements.select_rows(
                view, self._shape, window.instance, _CHANGE_COLUMNS, may_lack=window.may_lack, are_changes=True
            ),
        )
        if window.may_lack:
            moved = f"`__$operation` = {INSERT} and {statements.lacks_any(self._shape, may_lack=True)}"
            if not rows.where(moved).isEmpty():
                raise TargetValueUnknown(name, self._target)
            rows = rows.unionByName(self._open_slices_of(rows, found))
        actions = select_from(
            rows, lambda view: statements.change_actions(view, self._shape, truncates, may_lack=window.may_lack)
        )
        self._carry_out(actions, (window.start, window.end), found, truncates)

    def match(self, copy: Copy, found: FoundTable) -> None:
        """At the copy's LSN, close slices whose rows differ from the copy's, and open slices for the copy's rows."""
        require_fit(copy.rows, copy.instance, self._target)
        rows = select_from(
            copy.rows,
            lambda view: statements.select_rows(view, self._shape, copy.instance, may_lack=False, are_changes=False),
        )
        require_partitions_fit(rows.where(f"not `{statements.IS_DELETED}`"), self._shape, self._table.location)
        if not found.files:
            time = time_literal(copy.time)

            def insert() -> None:
                select_from(
                    rows,
                    lambda view: statements.insert_slices_statement(
                        self._table.sql_name, view, self._shape, copy.lsn.value, time
                    ),
                )

            self._table.commit(copy.lsn, insert)
            return
        open_slices = self._table.read(found.version).where(statements.open_condition(self._shape))
        actions = select_from(
            rows, lambda view, slices: statements.copy_actions(view, slices, self._shape, copy.lsn.value), open_slices
        )
        self._carry_out(actions, (copy.lsn, copy.lsn), found, (), time=copy.time)

    def _carry_out(
        self,
        actions: DataFrame,
        lsns: tuple[CommitLsn, CommitLsn],
        found: FoundTable,
        truncates: Sequence[statements.Truncated],
        time: datetime | None = None,
    ) -> None:
        times = self._times(actions, lsns) if time is None else _one_time(actions, lsns[1], time)
        dated = select_from(actions, statements.date_actions, times)
        dated.persist()
        try:
            wanted = ["count(*) as rows", *(range_columns(self._shape) if found.files > 1 and not truncates else [])]
            facts = dated.selectExpr(*wanted).first()
            assert facts is not None
            require_partitions_fit(
                dated.where(f"`{statements.OPENS}` or `{statements.ALTERS}`"), self._shape, self._table.location
            )
            merged = statements.SlicesMerged(tuple(ranges(self._shape, facts.asDict())), self._first(truncates))
            self._table.commit(lsns[1], lambda: self._merge(dated, merged))
        finally:
            dated.unpersist()

    def _merge(self, actions: DataFrame, merged: statements.SlicesMerged) -> None:
        select_from(actions, lambda view: statements.slices_statement(self._table.sql_name, view, self._shape, merged))

    def _first(self, truncates: Sequence[statements.Truncated]) -> tuple[str, str] | None:
        if not truncates:
            return None
        lsn = truncates[0].lsn
        return f"{lsn}L", time_literal(self._find_time(CommitLsn(lsn)))

    def _times(self, rows: DataFrame, lsns: tuple[CommitLsn, CommitLsn]) -> DataFrame:
        """Return the transactions of a window, and when they ended."""
        mapping = read_table(rows.sparkSession, system_table_path(self._lake, "lsn_time_mapping"))
        start, end = lsns
        inside = mapping.where(f"start_lsn between {start.value} and {end.value}")
        return inside.selectExpr("start_lsn as lsn", "tran_end_time as time")

    def _list_truncates(self, every: DataFrame, window: TargetWindow) -> tuple[statements.Truncated, ...]:
        """Return the transactions that truncated the table, in order; none if truncates are not applied."""
        if not window.may_truncate or self._truncation is Truncation.KEEP:
            return ()
        found = (
            every.where(f"`__$operation` = {TRUNCATE}")
            .selectExpr("`__$start_lsn` as lsn", "`__$seqval` as seqval")
            .groupBy("lsn")
            .agg({"seqval": "max"})
            .collect()
        )
        return tuple(statements.Truncated(lsn, seqval) for lsn, seqval in sorted(tuple(row) for row in found))

    def _open_slices_of(self, rows: DataFrame, found: FoundTable) -> DataFrame:
        """Return the open slices of the keys of some change rows, as if they had begun before the window."""
        names = [key.name for key in self._shape.keys]
        changed = rows.select(*map(quote, names)).distinct()
        slices = (
            self._table.read(found.version)
            .where(statements.open_condition(self._shape))
            .join(changed, names, "left_semi")
        )
        selected = [f"{statements.BEFORE_ALL}L as `__$start_lsn`", "0L as `__$seqval`", f"{INSERT} as `__$operation`"]
        selected.append(f"false as `{statements.IS_DELETED}`")
        for place, column in enumerate(self._shape.columns):
            selected.append(quote(column.name))
            if not column.is_key:
                selected.append(f"false as {statements.absent(place)}")
        return slices.selectExpr(*selected)


def _one_time(rows: DataFrame, lsn: CommitLsn, time: datetime) -> DataFrame:
    return rows.sparkSession.sql(f"select {lsn.value}L as lsn, {time_literal(time)} as time")
