"""Records of scans: sessions, errors, and the phases in which errors occur.

(SQL Server: sys.dm_cdc_log_scan_sessions, sys.dm_cdc_errors.)
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen


class Engine(StrEnum):
    """Where a cycle's changes were converted: in capture's process, or in tasks of Spark."""

    PROCESS = "process"
    SPARK = "spark"


class ScanPhase(IntEnum):
    """SQL Server's phase numbers, for the nearest phases of rowtide."""

    READING_CONFIGURATION = 1
    """Leases, definition, log reader and Spark are opened."""
    FIRST_SCAN = 2
    """The log is read, and the cycle's range is chosen and recorded."""
    SECOND_SCAN = 3
    """Change rows are appended."""
    SCHEMA_VERSIONING = 6
    """Instances that began or ended are recorded."""
    LAST_SCAN = 7
    """The transactions are read and published."""
    DONE = 8

    @property
    def label(self) -> str:
        """Its name."""
        return self.name.replace("_", " ").capitalize()


@frozen
class ScanFigures:
    """What a cycle found: transactions and row changes of captured tables, and all log records that it read.

    `first_lsn` and the fields after it are of its transactions, None without any.
    """

    from_position: Position
    to_position: Position
    tran_count: int
    command_count: int
    log_record_count: int
    schema_change_count: int
    first_lsn: CommitLsn | None
    last_lsn: CommitLsn | None
    last_commit_time: datetime | None
    engine: Engine


@frozen
class ScanSession:
    """A row of `cdc.log_scan_sessions`; `duration` and `latency` in seconds.

    `session_id` 0 is the sum of all. `last_commit_lsn` and `_time` are those of captured transactions, as the log store
    holds no others. `latency`: from the last one's commit, by the source's clock, to `end_time`, by capture's.
    `engine`: where the changes were converted, see `Engine`. `write_requests` and the fields after it: what was asked
    of object stores since the session before, the log reader's share a few seconds late; None: nothing, and in the sum.
    """

    session_id: int
    start_time: datetime
    end_time: datetime
    duration: float
    scan_phase: str
    error_count: int = 0
    start_lsn: CommitLsn | None = None
    current_lsn: CommitLsn | None = None
    end_lsn: CommitLsn | None = None
    tran_count: int = 0
    last_commit_lsn: CommitLsn | None = None
    last_commit_time: datetime | None = None
    log_record_count: int = 0
    schema_change_count: int = 0
    command_count: int = 0
    first_begin_cdc_lsn: CommitLsn | None = None
    last_commit_cdc_lsn: CommitLsn | None = None
    last_commit_cdc_time: datetime | None = None
    latency: float | None = None
    empty_scan_count: int = 0
    failed_sessions_count: int = 0
    engine: str | None = None
    write_requests: int | None = None
    read_requests: int | None = None
    transferred_bytes: int | None = None


@frozen
class ScanError:
    """A row of `cdc.log_scan_errors`; `begin_lsn` and `sequence_value` are not known: None."""

    session_id: int
    phase_number: int
    entry_time: datetime
    error_number: int
    error_severity: int
    error_state: int
    error_message: str
    start_lsn: CommitLsn | None
    begin_lsn: CommitLsn | None = None
    sequence_value: int | None = None
