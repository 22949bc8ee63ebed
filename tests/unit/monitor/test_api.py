"""The monitor's JSON is as its description says, and the description is of all that is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from builders.monitor.made_views import ALL
from rowtide.actions.entries import ActionEntry, ActionKind, ActionOutcome
from rowtide.monitor.views import DatabaseView
from rowtide.monitor.web.api import PREFIX, describe_api, to_json

API = describe_api()
SCHEMAS: Mapping[str, Any] = API["components"]["schemas"]
OF_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def find_faults(value: Any, schema: Mapping[str, Any], path: str = "") -> list[str]:
    """Return where a value is not what a schema says."""
    if "$ref" in schema:
        return find_faults(value, SCHEMAS[schema["$ref"].rpartition("/")[2]], path)
    if "anyOf" in schema:
        found = [find_faults(value, one, path) for one in schema["anyOf"]]
        return [] if any(not faults for faults in found) else found[0]
    match schema["type"]:
        case "array":
            if not isinstance(value, list):
                return [path]
            return [fault for one in value for fault in find_faults(one, schema["items"], f"{path}[]")]
        case "object":
            if not isinstance(value, dict):
                return [path]
            if "additionalProperties" in schema:
                return [
                    fault for one in value.values() for fault in find_faults(one, schema["additionalProperties"], path)
                ]
            missing = [f"{path}.{name}" for name in value.keys() ^ schema["properties"].keys()]
            return missing + [
                fault
                for name, own in schema["properties"].items()
                if name in value
                for fault in find_faults(value[name], own, f"{path}.{name}")
            ]
        case kind:
            is_right = isinstance(value, OF_TYPES[kind]) and (kind != "integer" or not isinstance(value, bool))
            return [] if is_right and value in schema.get("enum", [value]) else [path]


def test_an_entry_of_the_audit_is_as_described() -> None:
    acting = API["paths"][f"{PREFIX}/databases/{{name}}/actions"]
    schema = acting["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    entry = ActionEntry("0", datetime.now(UTC), "anna", "web", "replication pause", "shop", "{}", ActionOutcome.BEGUN)
    assert find_faults(json.loads(json.dumps(to_json(entry))), schema) == []
    assert acting["get"]["responses"]["200"]["content"]["application/json"]["schema"]["items"] == schema
    asked = acting["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(asked["properties"]["action"]["enum"]) == set(ActionKind)


@pytest.mark.parametrize("view", ALL, ids=lambda view: view.name)
def test_a_view_is_as_described(view: DatabaseView) -> None:
    schema = API["paths"][f"{PREFIX}/databases/{{name}}"]["get"]["responses"]["200"]["content"]["application/json"]
    value = json.loads(json.dumps(to_json(view)))
    assert value["name"] == view.name
    assert find_faults(value, schema["schema"]) == []


def test_a_value_of_another_kind_is_noticed() -> None:
    value = json.loads(json.dumps(to_json(ALL[0])))
    schema = {"$ref": "#/components/schemas/DatabaseView"}
    for name, wrong in (("polled_at", 3), ("is_up", "yes"), ("log", []), ("consumers", {})):
        assert find_faults({**value, name: wrong}, schema) != [], name
    assert find_faults({**value, "more": 1}, schema) == [".more"]


def test_every_object_says_what_it_is() -> None:
    assert [name for name, schema in SCHEMAS.items() if not schema["description"]] == []
    assert API["openapi"] == "3.1.0"
    json.dumps(API)
