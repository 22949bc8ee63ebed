"""Applies what is published to a target of kind `python:module.Class`: one window over all its instances."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.cdc.spark_changes import Changes
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.lake.session import for_reading
from rowtide.log.errors import LeaseLost
from rowtide.targets.custom import CustomWindow, guarded, open_custom
from rowtide.targets.definitions import TableState, Target
from rowtide.targets.errors import TargetInstanceEnded, TargetPassed
from rowtide.targets.sets import SetTable, SetVersion, TableVersion
from rowtide.targets.table import Verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("rowtide.targets")


class CustomSetApplier:
    """Applies one set by its class; one process at a time, by the set's lease."""

    def __init__(self, lake: str, target: Target, make_spark: Callable[[], SparkSession], verify: Verify) -> None:
        self._lake = lake
        self._target = target
        self._make_spark = make_spark
        self._verify = verify
        self._table = SetTable(lake, target)

    def apply(self) -> SetVersion | None:
        """Apply what is published; return the set's new version, None if nothing was published since the last.

        Raises errors after which a repeat may succeed; another stops the set, and is its note.
        """
        known = self._table.read()
        published, recorded = PublishedLake(self._lake).get_published_instances()
        to = published.lsn
        names = set(self._target.consumer.instance_names)
        if to is None or not names <= set(recorded) or (known.lsn == to and _has_members(known)):
            return None
        note = self._try(recorded, to)
        lsn = to if note is None else known.lsn
        time = published.time if note is None else known.time
        state = TableState.MEMBER if note is None else TableState.STOPPED
        tables = {
            consumed.name: TableVersion(consumed.name, consumed.member_id, self._target.kind, None, lsn, 0, state, note)
            for consumed in self._target.consumer.instances
        }
        version = SetVersion(known.number + 1, lsn, time, tables)
        if note is not None and known.lsn == lsn and _notes(known) == _notes(version):
            return None
        failpoint("target_set.before")
        is_recorded = self._table.append(version)
        failpoint("target_set.after")
        return version if is_recorded else None

    def _try(self, recorded: Mapping[str, RecordedInstance], to: CommitLsn) -> str | None:
        """Apply a window, and return why that is not possible; None if it was."""
        try:
            self._apply(recorded, to)
        except LeaseLost:
            raise
        except RowtideError as error:
            if error.remedy is not Remedy.STOP:
                raise
            log.warning("target_stopped: %s", error)
            return str(error)
        return None

    def _apply(self, recorded: Mapping[str, RecordedInstance], to: CommitLsn) -> None:
        custom, target = open_custom(self._target), self._target
        last = guarded(target, lambda: custom.find_lsn(target.target_id))
        after = CommitLsn(last) if last is not None else None
        if after is not None and after >= to:
            return
        starts = {name: self._find_start(name, recorded, after) for name in target.consumer.instance_names}
        open_changes = cache(lambda: Changes(for_reading(self._make_spark(), self._lake), self._lake))
        window = CustomWindow(target.target_id, after, to, starts, Lake(self._lake), open_changes)
        failpoint("custom_apply.before")
        self._verify()
        guarded(target, lambda: custom.apply(window))
        failpoint("custom_apply.after")

    def _find_start(self, name: str, recorded: Mapping[str, RecordedInstance], after: CommitLsn | None) -> CommitLsn:
        found = recorded[name]
        consumed = {each.name: each for each in self._target.consumer.instances}[name]
        if not consumed.is_enabled or found.instance.member_id != consumed.member_id:
            raise TargetInstanceEnded(self._target.name, name)
        if after is None:
            return found.lsn
        if found.state != ENABLED or after.increment() < found.lsn:
            reason = found.note or f"and the low endpoint is {found.lsn}"
            raise TargetPassed(name, self._target.name, str(after), reason)
        return after.increment()


def _has_members(version: SetVersion) -> bool:
    return all(table.state is TableState.MEMBER for table in version.tables.values())


def _notes(version: SetVersion) -> list[str | None]:
    return [table.note for table in version.tables.values()]
