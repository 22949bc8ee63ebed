"""Paths and URLs, distinguished."""

from __future__ import annotations

from typing import Any

import pytest

from rowtide.core.errors import PlaceUnnamed
from rowtide.storage.places import local_path, require_place


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


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("", "it is empty"),
        ("  ", "it is empty"),
        ("/data\0", "it has a NUL character"),
        (None, "of the type NoneType"),
        (5, "of the type int"),
        (b"/data", "of the type bytes"),
    ],
)
def test_an_empty_text_is_not_the_current_folder(place: Any, problem: str) -> None:
    with pytest.raises(PlaceUnnamed, match=problem):
        require_place(place)
