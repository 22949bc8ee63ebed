"""What is asked of publications, as commands and methods take it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Annotated

from rowtide.core.options import ForGroup, Option
from rowtide.core.values import frozen
from rowtide.replication.subscription_settings import PublicationName


@frozen
class NewPublication:
    """A publication as it is added, without articles (SQL Server: sp_addpublication)."""

    name: PublicationName
    _: KW_ONLY
    lake: Annotated[
        str | None,
        Option(help="Folder for what is read of the log; not needed where capture is enabled.", show_default=False),
    ] = None
    log_store: Annotated[str | None, Option(help="Folder of the log store; default: LAKE/log.", show_default=False)] = (
        None
    )
    distribution_db: Annotated[
        str | None,
        Option(
            help="Database that records publications and subscriptions: postgresql://user@host/name, without a "
            "password; default: the publisher.",
            show_default=False,
            is_database=True,
        ),
    ] = None
    """Later publications find it (SQL Server: sp_adddistributor)."""
    replicate_ddl: Annotated[
        bool, Option(help="Add at subscribers the columns that are added to its tables.", sql_server="@replicate_ddl")
    ] = True
    for_group: ForGroup = False
    on_wait: Callable[[str], None] = lambda _whom: None
    """Called with what the first publication waits for: open transactions."""


@frozen
class PublicationThresholds:
    """From where on a publication's subscriptions are a warning; None leaves a threshold as it is, 0 is the default.

    (SQL Server: sp_replmonitorchangepublicationthreshold.)
    """

    publication: PublicationName
    _: KW_ONLY
    latency_threshold_s: Annotated[
        int | None,
        Option(
            "--latency-threshold",
            help="Seconds that changes may wait; 300 at first, 0: as at first.",
            min=0,
            show_default=False,
        ),
    ] = None
    expiration_threshold: Annotated[
        int | None,
        Option(
            help="Percent of the retention that may be over; 75 at first, 0: as at first.",
            min=0,
            max=100,
            show_default=False,
        ),
    ] = None
