from __future__ import annotations

import pytest

from rowtide.core.formats import StoredFormat
from rowtide.core.json_records import JsonInvalid
from rowtide.log.store.manifest import find_format


def test_an_entry_without_a_format_records_none() -> None:
    assert find_format({"kind": "reader_left"}) is None


def test_a_recorded_format_is_found() -> None:
    recorded = {"number": 3, "least_reader": 1, "least_writer": 2}
    assert find_format({"kind": "opened", "format": recorded}) == StoredFormat(3, 1, 2)


@pytest.mark.parametrize(
    ("found", "problem"),
    [([], "not an object"), ({"format": 3}, "format is not a format"), ({"format": {}}, "format is not a format")],
)
def test_what_records_no_format_is_damage(found: object, problem: str) -> None:
    with pytest.raises(JsonInvalid, match=f"^{problem}$"):
        find_format(found)
