"""Queries on DataFrames."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def select_from(rows: DataFrame, query: Callable[[str], str]) -> DataFrame:
    """Return the result of a query on some rows; `query` returns its text from the name under which SQL finds them."""
    name = f"rowtide_{uuid.uuid4().hex}"
    # Not a view that is dropped afterwards: Spark Connect analyses the query whenever its result is used.
    text = query(name).replace("{", "{{").replace("}", "}}").replace(name, "{rows}")
    return rows.sparkSession.sql(text, rows=rows)
