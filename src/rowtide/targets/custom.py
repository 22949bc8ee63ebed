"""Targets of other shapes: a class of the user's gets the net changes of all its instances at one LSN.

    class Totals:
        def __init__(self, target: str, options: Mapping[str, str]) -> None: ...
        def find_lsn(self, target_id: str) -> int | None: ...
        def apply(self, window: CustomWindow) -> None: ...

Exactly once is the class's part: it stores `window.to` under `target_id` in the transaction in which it applies a
window, and `find_lsn` returns it. A window that it does not have is given to it again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from rowtide.cdc.lake_readers.arrow_changes import ArrowChanges
from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.queries.net_changes import WITH_MERGE
from rowtide.cdc.spark_changes import Changes
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetClassUnfit, TargetFailed
from rowtide.targets.options import PYTHON

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_METHODS = ("find_lsn", "apply")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
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
    """What the class of a target of kind `python:module.Class` does."""

    def find_lsn(self, target_id: str) -> int | None:
        """Return the LSN of the last window that it has, None before the first."""
        ...

    def apply(self, window: CustomWindow) -> None:
        """Apply a window and store its `to` under its `target_id`, both or neither."""
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
        # Whatever a class of the user's raises.
        raise TargetFailed(target.name, f"{type(error).__name__}: {error}") from error
