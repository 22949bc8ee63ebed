"""What a cleanup is asked for. Pure, and light."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Argument, Option
from rowtide.core.values import frozen

RETENTION = timedelta(minutes=4320)


@frozen
class CleanupOrder:
    """The scope of a cleanup.

    Without `capture_instance`: all instances, up to `low_water_mark`, or else by `retention`. With it: that instance,
    up to `low_water_mark`, or else without moving its low endpoint: rows that earlier deletions left are removed.
    """

    capture_instance: Annotated[
        str | None,
        Argument(metavar="INSTANCE", help="One instance; its low endpoint moves only to a given mark."),
    ] = None
    low_water_mark: Annotated[
        CommitLsn | None, Option(help="The first LSN that stays.", sql_server="@low_water_mark")
    ] = None
    retention: timedelta = RETENTION
    is_forced: Annotated[bool, Option("--force", help="Accept any move of the mark: the clocks were right.")] = False

    @property
    def moves(self) -> bool:
        """Whether low endpoints may move."""
        return self.capture_instance is None or self.low_water_mark is not None
