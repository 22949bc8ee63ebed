"""Requests of a day, and what a month of them costs."""

from __future__ import annotations

import pytest

from rowtide.cdc.errors.capturing import RequestPricesInvalid
from rowtide.cdc.status import PRICES_VARIABLE, RequestPrices, RequestRate

RATE = RequestRate(writes=300, reads=60, transferred=30 << 20, seconds=60.0)


def test_a_rate_is_that_of_a_day_with_the_price_of_a_month() -> None:
    assert RATE.describe(RequestPrices()) == (
        "432,000 PUT and LIST, 86,400 GET, 43,200 MiB a day at the rate of the last 60 s: "
        "65.84 a month, at 0.005 and 0.0004 a thousand"
    )


def test_prices_are_those_of_the_environment() -> None:
    prices = RequestPrices.of({PRICES_VARIABLE: " 0.01, 0 "})
    assert (prices.writes, prices.reads) == (0.01, 0)
    assert RequestPrices.of({PRICES_VARIABLE: ""}) == RequestPrices()


@pytest.mark.parametrize("text", ["1", "1,2,3", "a,b", "-1,0", "nan,1", "inf,1"])
def test_other_prices_are_refused(text: str) -> None:
    with pytest.raises(RequestPricesInvalid, match="RT-8174"):
        RequestPrices.of({PRICES_VARIABLE: text})
