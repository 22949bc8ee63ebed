"""Create tables: the first commit."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rowtide.core.failpoints import failpoint
from rowtide.delta.actions import Protocol, commit_info, format_commit
from rowtide.delta.features import COLUMN_MAPPING, TIMESTAMP_NTZ, with_features
from rowtide.delta.replay import commit_path
from rowtide.delta.schema import FIELD_ID, PHYSICAL_NAME
from rowtide.delta.snapshot import Location

MAPPING, LAST_ID = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
_LEAST = Protocol(1, 2)


def create_table(
    location: Location, schema_text: str, properties: Mapping[str, str], partition_by: Sequence[str] = ()
) -> bool:
    """Create an empty table of the columns of a schema (Delta's or Spark's JSON); return False if there is a table.

    With property `delta.columnMapping.mode`, columns get names and ids for data files. Raises `write_failed` of the
    store, after which the table may be there.
    """
    schema = json.loads(schema_text)
    configuration = dict(properties)
    if is_mapped(configuration):
        configuration[LAST_ID] = str(give_names(schema))
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, separators=(",", ":")),
        "partitionColumns": list(partition_by),
        "configuration": configuration,
        "createdTime": int(time.time() * 1000),
    }
    actions = [
        ("commitInfo", commit_info("CREATE TABLE", {})),
        ("protocol", with_features(_LEAST, features_for(schema, configuration)).values()),
        ("metaData", metadata),
    ]
    failpoint("delta_creation.before")
    is_new = location.store.put_if_absent(commit_path(0), format_commit(actions))
    failpoint("delta_creation.after")
    return is_new


def features_for(schema: Any, properties: Mapping[str, str]) -> set[str]:
    """Return the features that a schema's columns need."""
    mapped = {COLUMN_MAPPING} if is_mapped(properties) else set()
    types = {name.replace("_", "") for name in _type_names(schema)}
    return mapped | ({TIMESTAMP_NTZ} if TIMESTAMP_NTZ.lower() in types else set())


def is_mapped(properties: Mapping[str, str]) -> bool:
    """Return whether data files have other names for columns than the table."""
    return properties.get(MAPPING, "none") != "none"


def _type_names(found: Any) -> Iterator[str]:
    """Yield the names of all types within one."""
    if isinstance(found, str):
        yield found
        return
    for name in ("elementType", "keyType", "valueType"):
        if name in found:
            yield from _type_names(found[name])
    for field in found.get("fields", ()):
        yield from _type_names(field["type"])


def give_names(schema: Any, last: int = 0) -> int:
    """Give all fields of a schema physical names and field ids above `last`, in place; return the last id."""
    for field in _fields(schema):
        last += 1
        field["metadata"] = {**(field.get("metadata") or {}), FIELD_ID: last, PHYSICAL_NAME: f"col-{uuid.uuid4()}"}
    return last


def _fields(found: Any) -> Iterator[Any]:
    if isinstance(found, str):
        return
    for field in found.get("fields", ()):
        yield field
        yield from _fields(field["type"])
    for name in ("elementType", "keyType", "valueType"):
        if name in found:
            yield from _fields(found[name])
