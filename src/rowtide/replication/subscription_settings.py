"""How a subscription is delivered, and how its subscriber gets the rows that exist already (SQL Server: @sync_type)."""

from __future__ import annotations

import json
from dataclasses import asdict, field, replace
from enum import StrEnum
from typing import Annotated, TypedDict, Unpack, cast

from rowtide.core.lsn import CommitLsn
from rowtide.core.options import Argument, Option, read_words, values_of
from rowtide.core.values import frozen
from rowtide.databases.source_table import RunAs
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.subscribing import LsnNotGiven, SettingOutOfRange

MOST_IN_BATCH = 100_000
"""The largest `commit_batch_size` and `commit_batch_threshold`: the larger of their defaults."""

MOST_STREAMS = 64
"""The most streams, as in SQL Server."""

MAX_RETENTION_HOURS = 72
"""How long undelivered changes are kept at first."""


class SettingsChanges(TypedDict, total=False):
    """Fields of `SubscriptionSettings` that replace what a subscription has."""

    streams: int
    commit_batch_size: int | None
    commit_batch_threshold: int | None
    skip_errors: str
    conflicts: Resolver | None
    run_as: RunAs


@frozen(kw_only=True, slots=False)
class DeliveryLimits:
    """How a run delivers; None: as the subscription's settings say."""

    streams: Annotated[
        int | None,
        Option(
            "--streams, --subscription-streams",
            min=1,
            max=MOST_STREAMS,
            help="Connections that a batch is divided among; 1 at first.",
            sql_server="-SubscriptionStreams",
        ),
    ] = None
    commit_batch_size: Annotated[
        int | None,
        Option(
            min=1,
            max=MOST_IN_BATCH,
            help="Source transactions in a transaction at the subscriber; 10,000 at first.",
            sql_server="-CommitBatchSize",
        ),
    ] = None
    commit_batch_threshold: Annotated[
        int | None,
        Option(
            min=1,
            max=MOST_IN_BATCH,
            help="Commands after which a batch ends with its source transaction; 100,000 at first.",
            sql_server="-CommitBatchThreshold",
        ),
    ] = None
    skip_errors: Annotated[
        str | None,
        Option(
            metavar="N:N",
            help='Skip commands with these errors: 2601, 2627, 547, 515, 20598 or SQLSTATEs; "": none.',
            sql_server="-SkipErrors",
        ),
    ] = None

    @property
    def given(self) -> SettingsChanges:
        """Those that are not None."""
        names = SettingsChanges.__annotations__
        values = {name: getattr(self, name, None) for name in names}
        return cast("SettingsChanges", {name: value for name, value in values.items() if value is not None})


@frozen(kw_only=True, slots=False)
class DeliveryOptions(DeliveryLimits):
    """How a subscription is delivered; None: as its settings are, at first their defaults."""

    conflicts: Annotated[
        Resolver | None,
        Option(
            help="What is done about conflicts with what others write to the subscriber's tables; at first stop where "
            "the subscriber has these tables from others, too, or delivers them back, else none: they are not looked "
            "for."
        ),
    ] = None
    run_as: Annotated[
        RunAs | None,
        Option(
            help="Whose rights the triggers, defaults and checks of the subscriber's tables have: owner: those of each "
            "table's owner, as at first; agent: those of the role in the subscriber's URL, with which the owners are "
            "trusted."
        ),
    ] = None


@frozen
class SubscriptionSettings:
    """The settings of a subscription; `replication run` may replace them. Raises `SettingOutOfRange`.

    A batch is divided among `streams` connections. It ends with the source transaction that reaches `commit_batch_size`
    transactions or `commit_batch_threshold` commands; None: the default. `skip_errors` lists errors as
    `SkipErrors.parse` takes them. `keeps_tables`: the subscriber's tables are its own, so that they are emptied, not
    dropped, when they are copied again. `conflicts` None: not decided, which is `none`. `run_as`: whose
    rights the code of a PostgreSQL subscriber's tables has.
    """

    streams: int = 1
    commit_batch_size: int | None = None
    commit_batch_threshold: int | None = None
    skip_errors: str = ""
    keeps_tables: bool = False
    conflicts: Resolver | None = None
    run_as: RunAs = RunAs.OWNER

    def __post_init__(self) -> None:
        read_words(self)
        if not 1 <= self.streams <= MOST_STREAMS:
            raise SettingOutOfRange("streams", self.streams, 1, MOST_STREAMS)
        for name in ("commit_batch_size", "commit_batch_threshold"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST_IN_BATCH:
                raise SettingOutOfRange(name, value, 1, MOST_IN_BATCH)

    def changed(self, **changes: Unpack[SettingsChanges]) -> SubscriptionSettings:
        """Return the settings with some of them replaced."""
        return replace(self, **changes)

    def encode(self) -> str | None:
        """Return the settings as stored: a JSON object of those that are not the default, None if all are."""
        default = asdict(SubscriptionSettings())
        own = {name: value for name, value in asdict(self).items() if value != default[name]}
        return json.dumps(own) if own else None

    @classmethod
    def decode(cls, stored: str | None) -> SubscriptionSettings:
        """Return the settings of what `encode` returned."""
        return cls(**json.loads(stored)) if stored is not None else cls()

    @property
    def detects_conflicts(self) -> bool:
        """Whether delivery looks for conflicts."""
        return self.conflicts not in (None, Resolver.NONE)


PublicationName = Annotated[str, Argument(metavar="PUBLICATION", help="a publication's name")]
SubscriberUrl = Annotated[
    str,
    Option(
        "--subscriber",
        help="The subscriber's database: postgresql://user@host/name, without a password, or sqlite:///folder/file.db",
        sql_server="@subscriber",
        is_database=True,
    ),
]

SomeSubscriber = Annotated[
    str | None,
    Option("--subscriber", help="The subscriber's database; default: all.", show_default=False, is_database=True),
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
            help="automatic: what happens to a table that the subscriber has already.", sql_server="@pre_creation_cmd"
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
