"""Lake types, which have the names of Spark SQL, in the words of Delta's schemas. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

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
