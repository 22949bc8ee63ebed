"""A format is the definition of a view, as each database gives it back; what has none is only removed."""

from __future__ import annotations

import pytest

from rowtide.core.formats import FormatNewer, FormatUnnumbered, StoredFormat, StoreFormat
from rowtide.databases.format_views import format_row, parse_definition, removing, require

OWN = StoreFormat("store", 3, 1, 2)


@pytest.mark.parametrize(
    "definition",
    [
        f"create view v as {format_row(OWN.recorded)}",
        " SELECT 3 AS number,\n    1 AS least_reader,\n    2 AS least_writer;",
    ],
    ids=["as made", "as PostgreSQL prints it"],
)
def test_the_numbers_are_read_from_the_definition(definition: str) -> None:
    assert parse_definition(definition) == StoredFormat(3, 1, 2)


@pytest.mark.parametrize("definition", [None, "", "select 3 as number, 1 as least_reader"])
def test_anything_else_is_no_format(definition: str | None) -> None:
    assert parse_definition(definition) is None


def test_what_has_no_format_is_only_removed() -> None:
    own = StoreFormat("store")
    with pytest.raises(FormatUnnumbered):
        require(StoreFormat.require_readable, own, "here", None)
    with removing():
        require(StoreFormat.require_writable, own, "here", None)
        with pytest.raises(FormatNewer):
            require(StoreFormat.require_readable, own, "here", StoredFormat(2, 1, 2))
    with pytest.raises(FormatUnnumbered):
        require(StoreFormat.require_readable, own, "here", None)
