"""Spark SQL as text: names, values and types."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
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
    # Views that are dropped afterwards would not do: Spark Connect analyses the query whenever its result is used.
    text = query(*frames).replace("{", "{{").replace("}", "}}")
    for name in frames:
        text = text.replace(name, f"{{{name}}}")
    return rows.sparkSession.sql(text, **frames)


_DELTA = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_SQL = {delta: sql for sql, delta in _DELTA.items()}
_MAP = "map<int,string>"
_MAP_IN_DELTA = {"type": "map", "keyType": "integer", "valueType": "string", "valueContainsNull": True}


def delta_type(name: str) -> Any:
    """Return a lake type as Delta's schemas have it."""
    return _MAP_IN_DELTA if name == _MAP else _DELTA.get(name, name)


def schema_text(columns: Sequence[tuple[str, str]]) -> str:
    """Return the schema of nullable columns, given as names and lake types."""
    fields = [
        {"name": name, "type": delta_type(type_name), "nullable": True, "metadata": {}} for name, type_name in columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


def column_types(text: str) -> Mapping[str, str]:
    """Return the lake types of a schema's columns by name."""
    return {field["name"]: _lake_type(field["type"]) for field in json.loads(text)["fields"]}


def _lake_type(found: Any) -> str:
    match found:
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_lake_type(key)},{_lake_type(value)}>"
        case {"type": "array", "elementType": element}:
            return f"array<{_lake_type(element)}>"
        case {"type": "struct", "fields": fields}:
            parts = (f"{each['name']}:{_lake_type(each['type'])}" for each in fields)
            return f"struct<{','.join(parts)}>"
    return str(_SQL.get(found, found))
