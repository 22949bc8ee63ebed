"""Errors of cleaning up. SQL Server's numbers where it has one, else 4xxx."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class LowWaterMarkOutOfRange(RowtideError):
    """The mark must lie inside the instance's validity interval (SQL Server: 22957)."""

    number = 22957
    fact = "low-water mark {mark} is below the low endpoint {low} of {instance}"
    hint = "Low endpoints only move up; name an LSN of the validity interval."
    mark: str
    instance: str
    low: str


@numbered
class LowWaterMarkUnknown(RowtideError):
    """The mark must be the LSN of a captured transaction (SQL Server: 22964)."""

    number = 22964
    fact = "low-water mark {mark} is no transaction of lsn_time_mapping"
    hint = "Name the `start_lsn` of one; `rowtide cdc lsn max` prints the last."
    mark: str


@numbered
class CleanupImplausible(RowtideError):
    """The last captured commit time may have jumped: cleaning up by it could remove what should be kept."""

    number = 4125
    fact = "cleanup would move the low-water mark from {before} to {time}, by more than has passed since {set_at}"
    hint = "If the source's clock was right, repeat with --force; if it was wrong, name a --low-water-mark."
    time: str
    before: str
    set_at: str


@numbered
class CleanupIncomplete(RowtideError):
    """Low endpoints moved, but rows below them could not be removed everywhere (SQL Server: 22852)."""

    number = 22852
    fact = "low endpoints are moved, but rows are left in {failures}"
    hint = "Nobody is shown them; the next cleanup removes them."
    failures: str
