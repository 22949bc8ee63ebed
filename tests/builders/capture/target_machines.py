"""A machine of snapshots whose tables and their columns a current and a history target follow, at random moments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builders.capture.applied_targets import AppliedTargets
from builders.capture.snapshot_machines import SnapshotMachine
from builders.faults.failpoints import BRANCH_FAILPOINTS, FOLLOWING_FAILPOINTS, TARGET_FAILPOINTS
from builders.lakes.source_shadows import EXTRA, ShadowedTable
from rowtide.core.lsn import CommitLsn
from rowtide.targets import ListedTarget, TargetFormat, api
from rowtide.targets.listing import NEW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CURRENT, HISTORY = "now", "past"
TO_COME = "the owner's next apply makes an instance"
"""The beginning of the note of a table that lacks columns with nothing in the way."""


@dataclass
class TargetMachine(SnapshotMachine):
    """`check_targets` compares rows and slices with what the source had."""

    all_images: bool = True
    loses_keys: bool = False
    form: TargetFormat = TargetFormat.DELTA
    applied: AppliedTargets = field(init=False)
    _first: dict[str, CommitLsn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.patch(api, "CONSIDERED_AFTER_S", 0.0)
        own = () if self.form is TargetFormat.DELTA else BRANCH_FAILPOINTS
        self.places = (*own, *TARGET_FAILPOINTS, *FOLLOWING_FAILPOINTS)
        self.applied = AppliedTargets(self.captured)
        followed = [table.instance for table in self.followed]
        self.applied.add(CURRENT, *followed, format=self.form)
        self.applied.add(HISTORY, *followed, kind="history", format=self.form)

    @property
    def followed(self) -> list[ShadowedTable]:
        """The tables that have a key."""
        return [table for table in self.shadow.tables if table.key]

    def may_bridge(self) -> bool:
        """Tell whether all can be compared: of another table, or one that lost a column, a new instance begins, which
        its targets do not follow.
        """
        names = {table.instance for table in self.followed}
        if any(listed.instance not in names for listed in self.applied.targets.list_targets()):
            return False
        return all(
            not table.gone and self.readable(table)[-1:] == self.published()[-1:] != [] for table in self.followed
        )

    def steps(self) -> list[Callable[[], None]]:
        return [*super().steps(), self.apply, self.apply]

    def check_targets(self, most: int = 3) -> None:
        """Compare the targets with the source, at the LSNs that they are at, and Spark's reader with it."""
        for listed in self.applied.targets.list_targets():
            table = self._table_of(listed)
            if listed.state != "member" or listed.version is None or listed.set_lsn is None:
                self._require_reason(table, listed)
                continue
            readable = self.readable(table)
            if listed.set_lsn not in readable:
                # Without a whole copy it has what changed since its instance began.
                continue
            rows = self.applied.targets.read(listed.target, listed.instance, spark=self.captured.spark)
            if listed.target == CURRENT:
                self._require_equal(table, rows, listed.set_lsn, CURRENT)
            else:
                self._check_slices(table, rows, listed.set_lsn, most)
            for lsn in self.chosen.sample(readable, min(1, len(readable))):
                found = self.captured.cdc.get_table_as_of(table.instance, lsn, spark=self.captured.spark)
                self._require_equal(table, found, lsn, "Spark")

    def check_columns(self) -> None:
        """Settle until all is followed, and look for columns that targets lack without a word about it."""
        # An instance is made, copied and gone over to, after another one that is on its way.
        for _ in range(5):
            # A table goes over to a copy at an LSN above its own last one.
            self._transact()
            self.settle()
            self.apply()
        followed = 0
        for listed in self.applied.targets.list_targets():
            table = self._table_of(listed)
            assert listed.state != NEW, (listed, self.log)
            assert listed.note is None or not listed.note.startswith(TO_COME), (listed, self.log)
            if listed.state != "member" or listed.version is None or listed.note is not None:
                continue
            rows = self.applied.targets.read(listed.target, table.instance, spark=self.captured.spark)
            lacking = set(table.types) - set(rows.columns)
            assert lacking == set(), (listed, self.log)
            followed += listed.instance != table.instance
        self.log.append(f"{followed} followed columns")

    def _table_of(self, listed: ListedTarget) -> ShadowedTable:
        """Return the table that a target follows by its first instance, or by one that was made later."""
        return self._find_table(listed.instance)

    def _find_table(self, instance: str) -> ShadowedTable:
        name = re.sub(r"_\d+$", "", instance)
        return next(table for table in self.followed if table.instance == name)

    def _check_slices(self, table: ShadowedTable, rows: DataFrame, end: CommitLsn, most: int) -> None:
        if self._rewritten.get(table.name):
            # Values that were rewritten are dated by the copy that brought them.
            return
        first, readable = self._first.get(table.instance, end), set(self.readable(table))
        known = [lsn for lsn in self.published() if first <= lsn <= end]
        for lsn in self.chosen.sample(known, min(most, len(known))):
            valid = f"valid_from_lsn <= {lsn.value} and (valid_to_lsn is null or valid_to_lsn > {lsn.value})"
            # What was in added columns before their copy is not known.
            unknown = [name for name in rows.columns if name.startswith(EXTRA) and lsn != end]
            if lsn not in readable:
                # Where the lake did not know the table as of a drop, rows kept the column's values.
                unknown += table.at(lsn).gone
            self._require_equal(table, rows.where(valid).drop(*unknown), lsn, HISTORY)

    def _require_equal(self, table: ShadowedTable, rows: DataFrame, lsn: CommitLsn, what: str) -> None:
        differences = self.shadow.differences(table, rows.toArrow(), lsn)
        assert differences == ([], []), (what, table.instance, lsn, [side[:2] for side in differences], self.log)
        self.compared += 1

    def _require_reason(self, table: ShadowedTable, listed: ListedTarget) -> None:
        """A table stops where its base is not readable: after rewritten values, until it is copied again. One that was
        not made yet may lack columns, for which an instance is made once it is: `check_columns` requires that.
        """
        note = listed.note
        is_to_come = listed.state == NEW and note is not None and note.startswith(TO_COME)
        is_explained = note is None or "does not follow" in note or is_to_come
        assert is_explained or self._rewritten.get(table.name), (listed, self.log)

    def apply(self) -> None:
        """Apply what is published to both targets."""
        version = self.applied.targets.apply(spark=self.captured.spark).get(HISTORY)
        for instance, applied in version.tables.items() if version is not None else ():
            table = self._find_table(instance)
            # Before its first whole copy a history has what changed since its instance began.
            if applied.snapshot and applied.lsn in self.readable(table):
                self._first.setdefault(table.instance, applied.lsn)
