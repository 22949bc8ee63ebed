"""Requests about one subscriber: exchanges, its copy, a comparison, its end. Pure, and light."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from datetime import datetime
from typing import Annotated

from rowtide.core.options import Option, WordsRead
from rowtide.core.values import frozen
from rowtide.merge.articles import DEFAULT_LIMITS, DeviceLimits, ExchangeType, Progress, Subscription
from rowtide.merge.publishing.requests import FilterValues, PublicationName, SubscriberUrl

Exchange = Annotated[
    ExchangeType,
    Option(
        "--exchange-type",
        help="upload or download only; the retention requires both within its days.",
        sql_server="-ExchangeType",
    ),
]


@frozen
class Recovered:
    """What was found of an article's rows: numbers of rows that were changed or inserted, are missing, or conflict.

    `damage` is what the table lacked; None if nothing. Missing rows count as deleted if `are_deletes`.
    """

    article: str
    damage: str | None
    changed: int
    inserted: int
    missing: int
    conflicts: int
    are_deletes: bool

    @property
    def is_any(self) -> bool:
        """Whether there is anything to report."""
        return self.damage is not None or bool(self.changed or self.inserted or self.missing or self.conflicts)

    def __str__(self) -> str:
        missing = "deleted" if self.are_deletes else "missing, copied again"
        counts = {
            "changed": self.changed,
            "inserted": self.inserted,
            missing: self.missing,
            "of unknown state, kept as conflicts": self.conflicts,
        }
        listed = ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "no row was changed"
        return f"{self.article}{'' if self.damage is None else f' ({self.damage})'}: {listed}"


@frozen
class _OfSubscriber:
    publication: PublicationName
    subscriber: SubscriberUrl


@frozen(kw_only=True)
class _Exchanging(_OfSubscriber):
    on_progress: Progress = lambda _phase, _done, _all: None
    hide_keys: bool = False
    limits: DeviceLimits = DEFAULT_LIMITS


@frozen
class Synchronisation(_Exchanging, WordsRead):
    """One synchronisation (SQL Server: the Merge Agent)."""

    _: KW_ONLY
    exchange: Exchange = ExchangeType.BOTH


@frozen
class RepeatedDownload(_Exchanging):
    """A synchronisation that downloads again what is known (SQL Server: sp_resyncmergesubscription).

    That is what the publisher changed `since` a time; None: as far back as there are metadata.
    """

    _: KW_ONLY
    since: datetime | None = None
    since_validation: bool = False
    """Since the last validation that found all rows equal."""


@frozen
class PartitionChange(FilterValues, _Exchanging):
    """Another partition of a subscriber (SQL Server: sp_changemergesubscription)."""


@frozen(kw_only=True)
class _Ending(_OfSubscriber):
    upload_first: Annotated[
        bool, Option("--upload-first", help="Upload the subscriber's changes to the publisher first.")
    ] = False
    on_upload: Progress = lambda _phase, _done, _all: None
    on_recovered: Callable[[Recovered], None] = lambda _recovered: None
    limits: DeviceLimits = DEFAULT_LIMITS


@frozen
class DroppedSubscription(_Ending):
    """A subscription as it is ended (SQL Server: sp_dropmergesubscription)."""

    _: KW_ONLY
    ignore_subscriber: Annotated[
        bool, Option("--ignore-subscriber", help="The subscriber is gone: change nothing there.")
    ] = False
    on_kept: Callable[[Subscription], None] = lambda _subscription: None
    """Called with the publisher's subscription of a database that was moved or copied since it subscribed."""


@frozen
class Reinitialization(_Ending):
    """A subscriber's tables as they are copied again (SQL Server: sp_reinitmergesubscription)."""

    _: KW_ONLY
    absent_is_delete: Annotated[
        bool,
        Option(
            "--absent-is-delete",
            help="--upload-first: rows that the subscriber's rebuilt tables lack are deleted everywhere.",
        ),
    ] = False
    on_progress: Callable[[str, int], None] = lambda _article, _rows: None


@frozen
class MergeValidation(_OfSubscriber):
    """A comparison of a subscriber's rows with the publisher's (SQL Server: sp_validatemergesubscription)."""

    _: KW_ONLY
    checksum: Annotated[bool, Option("--checksum", help="Compare values too, not only row counts.")] = False
    on_progress: Callable[[str], None] = lambda _article: None
