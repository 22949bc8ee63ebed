"""Keeps the current rows of a source's table (SCD type 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rowtide.cdc.queries.net_changes import WITH_MERGE
from rowtide.cdc.rows.change_columns import INSERT, TRUNCATE
from rowtide.cdc.spark_changes import Changes, reduce_changes
from rowtide.lake.sql_text import select_from
from rowtide.targets.columns import TargetColumns
from rowtide.targets.errors import KeyUnfit, TargetValueUnknown
from rowtide.targets.keeping import (
    Copy,
    TargetWindow,
    key_misfits,
    range_columns,
    ranges,
    require_fit,
    require_partitions_fit,
)
from rowtide.targets.merging import (
    IS_DELETED,
    Merged,
    differences,
    insert_statement,
    lacks_any,
    merge_statement,
    select_rows,
)
from rowtide.targets.options import Truncation
from rowtide.targets.table import FoundTable, TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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

    def follow(self, changes: Changes, window: TargetWindow, found: FoundTable) -> None:
        """Merge the net changes of a window."""
        net = self._net_changes(changes, window)
        misfits = " or ".join(key_misfits(window.instance)) if window.may_have_misfits else ""
        marked = net.selectExpr(
            "*",
            f"`__$operation` = {TRUNCATE} as `{_IS_TRUNCATE}`",
            f"{misfits or 'false'} as misfit",
            f"`__$operation` = {INSERT} as moved",
        )
        rows = select_from(
            marked,
            lambda name: select_rows(
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
            merged = Merged(bool(facts["truncates"]), window.may_lack, tuple(ranges(self._shape, facts)))
            require_partitions_fit(rows.where(f"not `{IS_DELETED}`"), self._shape, self._table.location)
            given = rows.where(f"not `{_IS_TRUNCATE}`") if merged.is_whole else rows
            # Also where the changes come to nothing: the commit keeps away who comes too late with some of them.
            self._table.commit(window.end, lambda: self._merge(given, merged))
        finally:
            rows.unpersist()

    def match(self, copy: Copy, found: FoundTable) -> None:
        """Make the rows those of a copy, without those that have gone."""
        require_fit(copy.rows, copy.instance, self._target)
        rows = select_from(
            copy.rows, lambda name: select_rows(name, self._shape, copy.instance, may_lack=False, are_changes=False)
        )
        require_partitions_fit(rows.where(f"not `{IS_DELETED}`"), self._shape, self._table.location)
        if not found.files:
            self._table.commit(copy.lsn, lambda: self._insert(rows))
            return
        types = dict(rows.dtypes)
        changed = select_from(
            rows, lambda name, present: differences(name, present, self._shape, types), self._table.read(found.version)
        )
        # Most rows of a later copy are there already: only the others are written.
        changed.persist()
        try:
            wanted = ["count(*) as rows", *(range_columns(self._shape) if found.files > 1 else [])]
            facts = changed.selectExpr(*wanted).first()
            assert facts is not None
            merged = Merged(is_whole=False, may_lack=False, ranges=tuple(ranges(self._shape, facts.asDict())))
            self._table.commit(copy.lsn, lambda: self._merge(changed, merged))
        finally:
            changed.unpersist()

    def _merge(self, rows: DataFrame, merged: Merged) -> None:
        select_from(rows, lambda name: merge_statement(self._table.sql_name, name, self._shape, merged))

    def _insert(self, rows: DataFrame) -> None:
        select_from(rows, lambda name: insert_statement(self._table.sql_name, name, self._shape))

    def _net_changes(self, changes: Changes, window: TargetWindow) -> DataFrame:
        name, instance = window.instance.capture_instance, window.instance
        if self._truncation is Truncation.KEEP and window.may_truncate:
            rows = changes.get_all_changes(name, window.start, window.end)
            rows = rows.where(f"`__$operation` != {TRUNCATE}")
            return reduce_changes(rows, instance, WITH_MERGE, may_truncate=False)
        return changes.get_net_changes(name, window.start, window.end, WITH_MERGE)

    def _look(self, rows: DataFrame, window: TargetWindow, found: FoundTable) -> dict[str, Any]:
        """Return the number of net changes and of truncates among them, and the ends of the key's columns."""
        wanted = ["count(*) as rows", f"count_if(`{_IS_TRUNCATE}`) as truncates", "count_if(misfit) as misfits"]
        # Net changes to be merged have inserts only where a row moved, and lacks values of its own.
        wanted += [f"count_if(moved and {lacks_any(self._shape, may_lack=window.may_lack)}) as unknown"]
        if found.files > 1:
            wanted += range_columns(self._shape)
        facts = rows.selectExpr(*wanted).first()
        assert facts is not None
        if facts["misfits"]:
            raise KeyUnfit(window.instance.capture_instance, self._target)
        if facts["unknown"]:
            raise TargetValueUnknown(window.instance.capture_instance, self._target)
        # A table that is emptied is read whole.
        return {"rows": facts["rows"], "truncates": True} if facts["truncates"] else facts.asDict()
