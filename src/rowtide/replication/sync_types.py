"""How a subscriber comes to the rows that the publisher has when it subscribes (SQL Server: @sync_type)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from rowtide.core.lsn import CommitLsn
from rowtide.replication.errors import LsnNotGiven


class SyncType(StrEnum):
    """What is made at a subscriber, and where its changes begin."""

    AUTOMATIC = "automatic"
    """Tables, procedures and rows."""
    NONE = "none"
    """Nothing: tables, procedures and rows are there."""
    REPLICATION_SUPPORT_ONLY = "replication-support-only"
    """Procedures; tables and rows are there."""
    FROM_LSN = "from-lsn"
    """Procedures; tables and rows are there, the rows as they were at an LSN: restored from a backup."""


class IfExists(StrEnum):
    """What becomes of a table that the subscriber has already (SQL Server: @pre_creation_cmd)."""

    FAIL = "fail"
    KEEP = "keep"
    DELETE = "delete"
    TRUNCATE = "truncate"
    DROP = "drop"


class Constraints(StrEnum):
    """Whether a subscriber's own cascades and triggers act on what is delivered (SQL Server: not for replication)."""

    ENFORCE = "enforce"
    NOT_FOR_REPLICATION = "not-for-replication"


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """What a user asked for. Raises `LsnNotGiven`.

    `lsn`: the subscriber has the changes of all transactions below it, and of none from it on. `constraints` has to be
    said where the subscriber has cascades or triggers. Tables are copied in chunks of about `chunk_bytes`.
    """

    sync_type: SyncType = SyncType.AUTOMATIC
    if_exists: IfExists = IfExists.FAIL
    lsn: CommitLsn | None = None
    constraints: Constraints | None = None
    chunk_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        if (self.sync_type is SyncType.FROM_LSN) != (self.lsn is not None):
            raise LsnNotGiven(self.sync_type.value, "needs" if self.lsn is None else "takes no")


class SubscriptionOptions(TypedDict, total=False):
    """The fields of a `SubscriptionRequest`, as arguments."""

    sync_type: SyncType
    if_exists: IfExists
    lsn: CommitLsn | None
    constraints: Constraints | None
    chunk_bytes: int
