"""Paths and URLs, told apart."""

from __future__ import annotations

import pytest

from rowtide.core.places import local_path


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
