"""Temporary names for DataFrames while a statement about them is analysed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def named(rows: DataFrame) -> Iterator[str]:
    """Yield a name under which the session's SQL finds the rows; DataFrames made from it remain valid afterwards."""
    name = f"rowtide_{uuid.uuid4().hex}"
    rows.createTempView(name)
    try:
        yield name
    finally:
        rows.sparkSession.catalog.dropTempView(name)
