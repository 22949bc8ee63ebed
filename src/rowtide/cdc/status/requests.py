"""What capture asks of its bucket a day at the rate of its last scans, and what that costs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from rowtide.cdc.definitions import SCHEMA
from rowtide.cdc.errors.capturing import RequestPricesInvalid
from rowtide.cdc.scans.tables import log_scan_sessions
from rowtide.databases.postgres.catalogue import list_columns

PRICES_VARIABLE = "ROWTIDE_REQUEST_PRICES"
_DAY_S, _MONTH_DAYS = 86_400, 30
_LEAST_S = 10.0


@dataclass(frozen=True, slots=True)
class RequestPrices:
    """Prices of a thousand requests, by default Amazon S3's in us-east-1, in dollars."""

    writes: float = 0.005
    reads: float = 0.0004

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> RequestPrices:
        """Return those that a variable names, of a thousand PUT or LIST and of a thousand GET. Raises
        `RequestPricesInvalid`.
        """
        text = environment.get(PRICES_VARIABLE, "").strip()
        if not text:
            return cls()
        try:
            writes, reads = (float(part) for part in text.split(","))
        except ValueError:
            raise RequestPricesInvalid(text) from None
        if not (0 <= writes < float("inf") and 0 <= reads < float("inf")):
            raise RequestPricesInvalid(text)
        return cls(writes, reads)


@dataclass(frozen=True, slots=True)
class RequestRate:
    """Requests and bytes in so many seconds."""

    writes: int
    reads: int
    transferred: int
    seconds: float

    def describe(self, prices: RequestPrices) -> str:
        """Return them for a day, with the price for a month of 30 days."""
        writes, reads, transferred = (
            round(found / self.seconds * _DAY_S) for found in (self.writes, self.reads, self.transferred)
        )
        month = _MONTH_DAYS * (writes * prices.writes + reads * prices.reads) / 1000
        return (
            f"{writes:,} PUT and LIST, {reads:,} GET, {transferred / 2**20:,.0f} MiB a day at the rate of the last "
            f"{self.seconds:,.0f} s: {month:,.2f} a month, at {prices.writes:g} and {prices.reads:g} a thousand"
        )


def read_request_rate(connection: Connection) -> RequestRate | None:
    """Return the rate of the last scans; None if they asked nothing of a bucket, or have only begun."""
    columns = log_scan_sessions.c
    if columns.write_requests.name not in list_columns(connection, SCHEMA, log_scan_sessions.name):
        return None
    # A standby cannot read the table, which is unlogged.
    may_read = func.has_table_privilege(str(log_scan_sessions), "select") & ~func.pg_is_in_recovery()
    if not connection.execute(select(may_read)).scalar_one():
        return None
    query = select(
        func.sum(columns.write_requests),
        func.sum(columns.read_requests),
        func.sum(columns.transferred_bytes),
        func.extract("epoch", func.max(columns.end_time) - func.min(columns.start_time)),
    ).where(columns.session_id > 0, columns.write_requests.is_not(None))
    writes, reads, transferred, seconds = connection.execute(query).one()
    if writes is None or seconds < _LEAST_S:
        return None
    return RequestRate(int(writes), int(reads), int(transferred), float(seconds))


def describe_requests(connection: Connection) -> str | None:
    """Return the rate in words, at the prices of this process's environment. Raises `RequestPricesInvalid`."""
    prices = RequestPrices.of(os.environ)
    rate = read_request_rate(connection)
    return rate.describe(prices) if rate is not None else None
