"""Spark SQL: names and values as text, and queries on DataFrames."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def quote(name: str) -> str:
    """Quote a name, such as a column's."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table_at(path: str) -> str:
    """Return the SQL name of the Delta table at a path."""
    return f"delta.{quote(path)}"


def select_from(rows: DataFrame, query: Callable[..., str], *others: DataFrame) -> DataFrame:
    """Return the result of a query on some rows, and others of the same session.

    `query` returns its text from the names under which SQL finds them.
    """
    frames: dict[str, Any] = {f"rowtide_{uuid.uuid4().hex}": frame for frame in (rows, *others)}
    # Not views that are dropped afterwards: Spark Connect analyses the query whenever its result is used.
    text = query(*frames).replace("{", "{{").replace("}", "}}")
    for name in frames:
        text = text.replace(name, f"{{{name}}}")
    return rows.sparkSession.sql(text, **frames)
