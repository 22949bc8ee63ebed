"""Typed values become the texts that Python and PostgreSQL have for them."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rowtide.cdc.lake_readers.bits import as_texts

MICROS = pa.timestamp("us")
IN_UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("kind", "values", "texts"),
    [
        (pa.float64(), [0.1, 1e14, 1e-5, -0.0, 1e22], ["0.1", "100000000000000.0", "1e-05", "-0.0", "1e+22"]),
        (pa.float32(), [0.5, 0.1, float("inf")], ["0.5", "0.10000000149011612", "Infinity"]),
        (pa.decimal128(38, 10), [Decimal("-1E-10"), Decimal(12)], ["-0.0000000001", "12.0000000000"]),
        (pa.decimal128(5, 0), [Decimal(-7)], ["-7"]),
        (pa.binary(), [b"\x00\xff", b""], ["00ff", ""]),
        (pa.bool_(), [True, False], ["true", "false"]),
        (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)], ["0001-01-01", "9999-12-31"]),
        (MICROS, [datetime(2024, 1, 1), datetime(2024, 1, 1, 10, 20, 30, 500)],  # noqa: DTZ001
         ["2024-01-01 00:00:00", "2024-01-01 10:20:30.0005"]),
    ],
)  # fmt: skip
def test_values_become_texts(kind: pa.DataType, values: list[Any], texts: list[str]) -> None:
    found = pa.array([*values, None], kind)
    assert as_texts(found).to_pylist() == [*texts, None]
    assert as_texts(found.slice(1)).to_pylist() == [*texts[1:], None]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.date32(), 2_932_897, "10000-01-01"),
        (pa.date32(), 2_145_031_948, "5874868-01-01"),
        (pa.date32(), -719_163, "0000-12-31"),
        (pa.date32(), -719_529, "-0001-12-31"),
        (MICROS, 2**63 - 1, "294247-01-10 04:00:54.775807"),
        (MICROS, -(2**63), "-290308-12-21 19:59:05.224192"),
        (IN_UTC, 253_402_300_800_000_000, "10000-01-01 00:00:00+00"),
    ],
)
def test_days_and_times_of_far_years_have_texts(kind: pa.DataType, value: int, text: str) -> None:
    stored = pa.int32() if kind == pa.date32() else pa.int64()
    assert as_texts(pa.array([value], stored).cast(kind)).to_pylist() == [text]
