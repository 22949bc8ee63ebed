"""JSON. Pure."""

from __future__ import annotations

from rowtide.databases.types.value_type import DeviceColumn, ValueType

_DEVICE_JSON = DeviceColumn(
    "json, jsonb",
    "text",
    "TEXT, as the server prints it; SQLite's JSON functions read it",
    is_ordered=False,
    is_compared=False,
    limit="compared as texts: in `jsonb`, 1 and 1.0 are equal at the server alone",
)

TYPES = (
    ValueType(name="json", oid=114, device=_DEVICE_JSON, compared="documents are not compared"),
    ValueType(
        name="jsonb", oid=3802, array_oid=3807, device=_DEVICE_JSON, compared="documents are not compared by their text"
    ),
)
