"""Paths and URLs, distinguished."""

from __future__ import annotations

from typing import Any

import pytest

from rowtide.core.errors import PlaceUnnamed
from rowtide.core.places import local_path, require_place


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("lake", "lake"),
        ("/a b/lake", "/a b/lake"),
        ("~/lake", "~/lake"),
        ("file:/lake", "/lake"),
        ("file:///lake", "/lake"),
        ("FILE://localhost/lake", "/lake"),
        ("file:///a%20b", "/a%20b"),
        ("s3a://bucket/lake", None),
        ("hdfs:/lake", None),
    ],
)
def test_a_path_or_file_url_names_a_path_of_this_machine(place: str, path: str | None) -> None:
    assert local_path(place) == path


@pytest.mark.parametrize("place", ["", "  ", "/data\0", None, 5, b"/data"])
def test_an_empty_text_is_not_the_current_folder(place: Any) -> None:
    with pytest.raises(PlaceUnnamed):
        require_place(place)
