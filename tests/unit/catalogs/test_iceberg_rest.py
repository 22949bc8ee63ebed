"""Comments of an Iceberg table: what is committed so that it has them, and nothing else of it changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from rowtide.catalogs.iceberg_rest import find_updates, make_requirements

NAMES = ("id", "a, b", "é", "list")
TYPES = ("int", {"type": "list", "element-id": 9, "element": "string", "element-required": False})


def make_metadata(draw: random.Random) -> dict[str, Any]:
    fields = []
    for number, name in enumerate(draw.sample(NAMES, draw.randint(1, len(NAMES))), 1):
        doc = {"doc": draw.choice(("old", "column"))} if draw.random() < 0.5 else {}
        fields.append({"id": number, "name": name, "required": False, "type": draw.choice(TYPES), **doc})
    schemas = [
        {"type": "struct", "schema-id": 0, "fields": []},
        {"type": "struct", "schema-id": 3, "identifier-field-ids": [1], "fields": fields},
    ]
    return {
        "table-uuid": "a",
        "current-schema-id": 3,
        "last-column-id": 9,
        "schemas": draw.sample(schemas, 2),
        "properties": {"owner": "x"} | ({"comment": draw.choice(("old", "table"))} if draw.random() < 0.5 else {}),
    }


def carry_out(metadata: dict[str, Any], updates: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the metadata after some updates, as the protocol defines them."""
    after = dict(metadata)
    for update in updates:
        match update["action"]:
            case "add-schema":
                added = update["schema"]["schema-id"]
                assert added not in {schema["schema-id"] for schema in after["schemas"]}
                assert update["last-column-id"] == after["last-column-id"]
                after["schemas"] = [*after["schemas"], update["schema"]]
            case "set-current-schema":
                assert update["schema-id"] == -1
                after["current-schema-id"] = added
            case "set-properties":
                after["properties"] = {**after["properties"], **update["updates"]}
            case other:
                raise AssertionError(other)
    return after


def current(metadata: dict[str, Any]) -> dict[str, Any]:
    [found] = [each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"]]
    return {name: value for name, value in found.items() if name != "schema-id"}


@pytest.mark.parametrize("seed", range(40))
def test_only_comments_change_and_a_repeat_changes_nothing(seed: int) -> None:
    draw = random.Random(seed)
    metadata = make_metadata(draw)
    meanings = {name: draw.choice(("column", "")) for name in NAMES if draw.random() < 0.7}
    after = carry_out(metadata, find_updates(metadata, "table", meanings))
    assert find_updates(after, "table", meanings) == []
    assert after["properties"] == {**metadata["properties"], "comment": "table"}
    before, now = current(metadata), current(after)
    assert [field | {"doc": ""} for field in before["fields"]] == [field | {"doc": ""} for field in now["fields"]]
    assert {**before, "fields": ()} == {**now, "fields": ()}
    for old, new in zip(before["fields"], now["fields"], strict=True):
        assert new.get("doc") == (meanings.get(new["name"]) or old.get("doc"))


def test_a_commit_requires_the_schema_that_was_read() -> None:
    requirements = {each["type"]: each for each in make_requirements(make_metadata(random.Random(1)))}
    assert requirements["assert-current-schema-id"]["current-schema-id"] == 3
    assert requirements["assert-table-uuid"]["uuid"] == "a"
