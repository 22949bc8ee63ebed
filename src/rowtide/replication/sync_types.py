"""How a subscriber gets the rows that exist when it subscribes (SQL Server: @sync_type)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict

from rowtide.core.lsn import CommitLsn
from rowtide.replication.errors.subscribing import LsnNotGiven
from rowtide.replication.subscription_settings import SubscriptionSettings


class SyncType(StrEnum):
    """What is created at a subscriber, and where its changes start."""

    AUTOMATIC = "automatic"
    """Tables, procedures and rows are created."""
    NONE = "none"
    """Nothing is created: tables, procedures and rows exist."""
    REPLICATION_SUPPORT_ONLY = "replication-support-only"
    """Procedures are created; tables and rows exist."""
    FROM_LSN = "from-lsn"
    """Procedures are created; tables exist, with the rows as of an LSN, for example restored from a backup."""
    FROM_COPY = "from-copy"
    """As `from-lsn`, with the LSN at which a physical copy of the publisher, such as a standby, was promoted."""


class IfExists(StrEnum):
    """What to do with a table that the subscriber already has (SQL Server: @pre_creation_cmd)."""

    FAIL = "fail"
    KEEP = "keep"
    DELETE = "delete"
    TRUNCATE = "truncate"
    DROP = "drop"


class Constraints(StrEnum):
    """Whether a subscriber's cascades and triggers act on delivered changes (SQL Server: not for replication)."""

    ENFORCE = "enforce"
    NOT_FOR_REPLICATION = "not-for-replication"


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A subscription as requested. Raises `LsnNotGiven`.

    `lsn`: the subscriber has the changes of all transactions below it, and of none from it on. `constraints` is
    required if the subscriber has cascades or triggers. Tables are copied in chunks of about `chunk_bytes`. `forward`:
    whether changes are delivered too that the publisher has received from others; None: it has received none, or the
    subscriber gets them from there.
    """

    sync_type: SyncType = SyncType.AUTOMATIC
    if_exists: IfExists = IfExists.FAIL
    lsn: CommitLsn | None = None
    constraints: Constraints | None = None
    chunk_bytes: int = 32 << 20
    settings: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    forward: bool | None = None

    def __post_init__(self) -> None:
        if (self.sync_type is SyncType.FROM_LSN) != (self.lsn is not None):
            raise LsnNotGiven(self.sync_type.value, "needs" if self.lsn is None else "takes no")

    @property
    def keeps_tables(self) -> bool:
        """Whether rows are copied to tables that the subscriber has already."""
        is_kept = self.if_exists in (IfExists.KEEP, IfExists.DELETE, IfExists.TRUNCATE)
        return is_kept and self.sync_type is SyncType.AUTOMATIC


class SubscriptionOptions(TypedDict, total=False):
    """The fields of a `SubscriptionRequest`, as arguments."""

    sync_type: SyncType
    if_exists: IfExists
    lsn: CommitLsn | None
    constraints: Constraints | None
    chunk_bytes: int
    settings: SubscriptionSettings
    forward: bool | None
