"""What an Iceberg table's metadata lacks of comments, as updates of the REST protocol. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Metadata = Mapping[str, Any]
"""A table's metadata, as the catalogue answers."""

_COMMENT = "comment"
"""The property that Spark and others show as a table's comment."""


def find_updates(metadata: Metadata, comment: str, meanings: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the updates after which a table and its columns have their comments; none if they have them.

    Columns without a meaning keep what they have. Raises `KeyError` if the metadata is not of version 2 or later.
    """
    schema = _current_schema(metadata)
    fields = [
        {**field, "doc": meanings[field["name"]]} if meanings.get(field["name"]) else field
        for field in schema["fields"]
    ]
    updates: list[dict[str, Any]] = []
    if fields != schema["fields"]:
        # Iceberg's server chooses the number itself, Nessie refuses one that is in use.
        number = max(each["schema-id"] for each in metadata["schemas"]) + 1
        described = {**schema, "schema-id": number, "fields": fields}
        updates += [
            {"action": "add-schema", "schema": described, "last-column-id": metadata["last-column-id"]},
            # That which was added last.
            {"action": "set-current-schema", "schema-id": -1},
        ]
    if metadata.get("properties", {}).get(_COMMENT) != comment:
        updates.append({"action": "set-properties", "updates": {_COMMENT: comment}})
    return updates


def make_requirements(metadata: Metadata) -> list[dict[str, Any]]:
    """Return what must still be so when updates of this metadata are committed.

    Rows may be committed meanwhile, which the updates do not touch; a column that was added meanwhile would be lost.
    """
    return [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        {"type": "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"]},
    ]


def _current_schema(metadata: Metadata) -> Mapping[str, Any]:
    by_id: Mapping[int, Mapping[str, Any]] = {schema["schema-id"]: schema for schema in metadata["schemas"]}
    return by_id[metadata["current-schema-id"]]
