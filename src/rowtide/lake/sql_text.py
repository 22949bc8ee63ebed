"""Names and values in Spark SQL. Pure."""

from __future__ import annotations


def quote(name: str) -> str:
    """Quote a name, such as a column's."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def table_at(path: str) -> str:
    """Return the SQL name of the Delta table at a path."""
    return f"delta.{quote(path)}"
