from __future__ import annotations

import pytest

from rowtide.relocation.errors import PlacesOverlap
from rowtide.relocation.survey import LakePlace, require_apart


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (("/a", None), ("/b", None)),
        (("/a", None), ("s3://bucket/a", None)),
        (("s3://bucket/a", None), ("s3://bucket/b", None)),
        (("/a", "/logs"), ("/b", "/logs")),
        (("/a", "/logs"), ("/b", None)),
        (("/lakes/a", None), ("/lakes/ab", None)),
    ],
)
def test_places_that_are_apart(source: tuple[str, str | None], target: tuple[str, str | None]) -> None:
    require_apart(LakePlace.of(*source), LakePlace.of(*target))


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (("/a", None), ("/a", None), "they are the same"),
        (("/a", None), ("file:///a/", None), "they are the same"),
        (("/a", None), ("/a/copy", None), "/a/copy is inside /a"),
        (("/a/lake", None), ("/a", None), "/a/lake is inside /a"),
        (("/a", "/logs"), ("/logs/b", None), "/logs/b is inside /logs"),
        (("/a", "/logs"), ("/b", "/a/log"), "/a/log is inside /a"),
        (("/a", None), ("/b", "/a/log"), "would be in both"),
        (("s3://bucket/a", None), ("s3a://bucket/a/b", None), "is inside"),
    ],
)
def test_places_that_overlap(source: tuple[str, str | None], target: tuple[str, str | None], reason: str) -> None:
    with pytest.raises(PlacesOverlap, match=f"RT-3124: .*{reason}"):
        require_apart(LakePlace.of(*source), LakePlace.of(*target))
