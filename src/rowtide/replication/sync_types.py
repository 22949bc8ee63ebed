"""How a subscriber gets the rows that exist when it subscribes (SQL Server: @sync_type)."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import Annotated

from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Argument, Option, values_of
from rowtide.core.values import frozen
from rowtide.core.words import read_words
from rowtide.replication.errors.subscribing import LsnNotGiven
from rowtide.replication.subscription_settings import DeliveryOptions, SubscriptionSettings

PublicationName = Annotated[str, Argument(metavar="PUBLICATION", help="a publication's name")]
SubscriberUrl = Annotated[
    str,
    Option(
        "--subscriber",
        help="The subscriber's database: postgresql://user@host/name, without a password, or sqlite:///folder/file.db",
        sql_server="@subscriber",
    ),
]

SomeSubscriber = Annotated[
    str | None, Option("--subscriber", help="The subscriber's database; default: all.", show_default=False)
]


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


@frozen(kw_only=True)
class SubscriptionRequest:
    """A subscription as requested. Raises `LsnNotGiven`."""

    sync_type: Annotated[
        SyncType,
        Option(
            help="automatic: tables, procedures and rows are made there; replication-support-only: tables and rows are "
            "there already; from-lsn: the same, as they were at --lsn; from-copy: a promoted copy of the publisher's "
            "server; none: procedures are there too.",
            sql_server="@sync_type",
        ),
    ] = SyncType.AUTOMATIC
    lsn: Annotated[
        CommitLsn | None, Option(metavar="LSN", help="from-lsn: the subscriber has all changes below this LSN.")
    ] = None
    """And of no transaction from it on."""
    if_exists: Annotated[
        IfExists,
        Option(
            help="automatic: what becomes of a table that the subscriber has already.", sql_server="@pre_creation_cmd"
        ),
    ] = IfExists.FAIL
    constraints: Annotated[
        Constraints | None,
        Option(
            help="What the subscriber's own triggers, and foreign keys with actions, do to what is delivered: "
            "enforce: they act; not-for-replication: they do not. Asked for where there are some."
        ),
    ] = None
    chunk_bytes: int = 32 << 20
    """Tables are copied in chunks of about this size."""
    settings: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    forward: Annotated[
        bool | None,
        Option(
            "--forward/--no-forward",
            help="Whether changes are delivered too that this database has received from other publications; "
            "asked for where it receives some that the subscriber does not get from there.",
        ),
    ] = None

    def __post_init__(self) -> None:
        read_words(self)
        if (self.sync_type is SyncType.FROM_LSN) != (self.lsn is not None):
            raise LsnNotGiven(self.sync_type.value, "needs" if self.lsn is None else "takes no")

    @property
    def keeps_tables(self) -> bool:
        """Whether rows are copied to tables that the subscriber has already."""
        is_kept = self.if_exists in (IfExists.KEEP, IfExists.DELETE, IfExists.TRUNCATE)
        return is_kept and self.sync_type is SyncType.AUTOMATIC


@frozen(slots=False)
class RequestedSubscription(SubscriptionRequest, DeliveryOptions):
    """A subscription of a publication, as it is added; settings that are given singly replace those of `settings`."""

    publication: PublicationName
    subscriber: SubscriberUrl

    @property
    def request(self) -> SubscriptionRequest:
        """What is requested, with all settings."""
        asked = values_of(SubscriptionRequest, self)
        return SubscriptionRequest(**{**asked, "settings": self.settings.changed(**self.given)})
