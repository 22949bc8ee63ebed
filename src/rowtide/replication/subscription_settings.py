"""How one subscription is delivered (SQL Server: the parameters of its Distribution Agent). Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Annotated, TypedDict, Unpack, cast

from rowtide.core.options import Option
from rowtide.core.values import frozen
from rowtide.core.words import read_words
from rowtide.databases.run_as import RunAs
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.subscribing import SettingOutOfRange

MOST_IN_BATCH = 100_000
"""The largest `commit_batch_size` and `commit_batch_threshold`: the larger of their defaults."""

MOST_STREAMS = 64
"""The most streams, as in SQL Server."""


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
            help='Leave out commands with these errors: 2601, 2627, 547, 515, 20598 or SQLSTATEs; "": none.',
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
