"""Targets of other shapes: a class of the user's gets the net changes of its instances, one window at a time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import ArrowChanges
from rowtide.cdc.published import ENABLED, RecordedInstance
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.cdc.queries.net_changes import WITH_MERGE
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.spark_changes import Changes
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.events.catalogue import TargetTableStopped
from rowtide.events.event import emit
from rowtide.lake.session import for_reading
from rowtide.log.errors import LeaseLost
from rowtide.targets.applying import SetTable, SetVersion, TableVersion
from rowtide.targets.definitions import TableState, Target
from rowtide.targets.errors import TargetAhead, TargetClassUnfit, TargetFailed, TargetInstanceEnded, TargetPassed
from rowtide.targets.options import PYTHON
from rowtide.targets.table_format import Verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_METHODS = ("find_lsn", "apply")
Result = TypeVar("Result")


@frozen
class CustomWindow:
    """What was published since the target's last LSN: `after` is None the first time.

    `starts` has the first LSN by instance: the first time, its low endpoint.
    """

    target_id: str
    after: CommitLsn | None
    to: CommitLsn
    starts: Mapping[str, CommitLsn]
    lake: Lake
    open_changes: Callable[[], Changes]
    """Opens the lake in Spark, for what returns DataFrames."""

    @property
    def instances(self) -> tuple[str, ...]:
        """The instances of the target, by name."""
        return tuple(sorted(self.starts))

    def net_changes(self, instance: str, row_filter_option: str = WITH_MERGE) -> DataFrame:
        """Return one change per key of an instance; see `Changes.get_net_changes`."""
        return self.open_changes().get_net_changes(instance, self.starts[instance], self.to, row_filter_option)

    def stream_net_changes(self, instance: str, row_filter_option: str = WITH_MERGE) -> ArrowChanges:
        """Return the same as Arrow, without Spark."""
        return self.lake.get_net_changes(instance, self.starts[instance], self.to, row_filter_option)


class CustomTarget(Protocol):
    """The interface of the class of a target of kind `python:module.Class`."""

    def find_lsn(self, target_id: str) -> int | None:
        """Return the LSN of the last window that it has stored, None before the first."""
        ...

    def apply(self, window: CustomWindow) -> None:
        """Apply a window and store its `to` under its `target_id`, atomically."""
        ...


def open_custom(target: Target) -> CustomTarget:
    """Return an object of a target's class, made with the target's name and its table properties.

    Raises `TargetClassUnfit`, `TargetFailed`.
    """
    name = target.kind.removeprefix(PYTHON)
    module, _, class_name = name.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise TargetClassUnfit(name, str(error)) from error
    for method in _METHODS:
        if not callable(getattr(found, method, None)):
            raise TargetClassUnfit(name, f"it has no method {method}")
    made: CustomTarget = guarded(target, lambda: found(target.name, dict(target.options.table_properties)))
    return made


def guarded(target: Target, call: Callable[[], Result]) -> Result:
    """Return what a call of the user's class returns. Raises `TargetFailed`, and rowtide's own errors as they are."""
    try:
        return call()
    except RowtideError:
        raise
    except Exception as error:
        # A class of the user's may raise anything.
        raise TargetFailed(target.name, f"{type(error).__name__}: {error}") from error


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
        note = self._try(recorded, known.lsn, to)
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

    def _try(self, recorded: Mapping[str, RecordedInstance], known: CommitLsn | None, to: CommitLsn) -> str | None:
        """Apply a window, and return why that is not possible; None if it was."""
        try:
            self._apply(recorded, known, to)
        except LeaseLost:
            raise
        except RowtideError as error:
            if error.remedy is not Remedy.STOP:
                raise
            emit(TargetTableStopped(error))
            return str(error)
        return None

    def _apply(self, recorded: Mapping[str, RecordedInstance], known: CommitLsn | None, to: CommitLsn) -> None:
        custom, target = open_custom(self._target), self._target
        last = guarded(target, lambda: custom.find_lsn(target.target_id))
        after = CommitLsn(last) if last is not None else None
        if after is not None and (known is None or after > known) and not LsnTimes(self._lake).may_know(after):
            raise TargetAhead(", ".join(sorted(target.consumer.instance_names)), target.name, str(after))
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
