"""Rows under a name, for as long as a statement about them is analysed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def named(rows: DataFrame) -> Iterator[str]:
    """Yield a name by which SQL of the rows' session finds them; DataFrames made of it stay when it is gone."""
    name = f"rowtide_{uuid.uuid4().hex}"
    rows.createTempView(name)
    try:
        yield name
    finally:
        rows.sparkSession.catalog.dropTempView(name)
