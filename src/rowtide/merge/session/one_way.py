"""Synchronisations in one direction (SQL Server: -ExchangeType).

A subscription counts as synchronised at the earlier of its last upload and its last download: who splits them has to do
both within the retention.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, select

from rowtide.merge.articles import ExchangeType
from rowtide.merge.definitions import subscriptions
from rowtide.merge.progress import as_utc


def exchanged(connection: Connection, subid: str, exchange: ExchangeType) -> dict[str, datetime | None]:
    """Return the dates to store of a subscription, at the hub, after a synchronisation."""
    now = datetime.now(UTC)
    if exchange is ExchangeType.BOTH:
        return dict.fromkeys(("last_upload_date", "last_download_date", "last_sync_date"), now)
    found = select(subscriptions.c.last_upload_date, subscriptions.c.last_download_date, subscriptions.c.last_sync_date)
    row = connection.execute(found.where(subscriptions.c.subid == subid)).one()
    uploaded, downloaded, synchronised = (None if date is None else as_utc(date) for date in row)
    uploaded = now if exchange.uploads else uploaded or synchronised
    downloaded = now if exchange.downloads else downloaded or synchronised
    both = None if uploaded is None or downloaded is None else min(uploaded, downloaded)
    return {"last_upload_date": uploaded, "last_download_date": downloaded, "last_sync_date": both}
