"""Lakes lie beside each other, on a disk or in a bucket; none is inside another."""

from __future__ import annotations

from pathlib import Path

import pytest

import rowtide
from builders.lakes.relocated_lakes import NAME, FilledLake
from builders.servers.object_servers import Bucket
from rowtide.lake.errors import LakeNested
from rowtide.lake.stores import open_folder, require_not_nested


@pytest.fixture(params=["disk", "bucket"])
def there(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder in which the lake `lakes/shop` is, its log store in it."""
    filled = FilledLake(tmp_path / "lakes" / "shop").fill(1)
    if request.param == "disk":
        return str(tmp_path)
    bucket: Bucket = request.getfixturevalue("bucket")
    rowtide.copy_lake(filled.path, f"{bucket.url}/lakes/shop")
    return bucket.url


@pytest.mark.parametrize(
    ("lake", "log_store"),
    [
        ("lakes/shop2", None),
        ("lakes/sho", None),
        ("lakes", None),
        ("lakes/shop", None),
        ("other", "lakes/log"),
        ("other", "logs"),
    ],
)
def test_lakes_lie_beside_each_other(there: str, lake: str, log_store: str | None) -> None:
    before = list_files(there)
    require_not_nested(f"{there}/{lake}", f"{there}/{log_store}" if log_store is not None else None)

    # Whoever asks about a place has not taken it yet, and may take another.
    assert list_files(there) == before != {"lakes": [], "logs": [], "other": []}


def list_files(there: str) -> dict[str, list[str]]:
    return {name: sorted(open_folder(there).list(name)) for name in ("lakes", "logs", "other")}


@pytest.mark.parametrize(
    ("lake", "log_store", "reason"),
    [
        ("lakes/shop/sub", None, "inside .*/lakes/shop,"),
        ("lakes/shop/a/b", None, "inside .*/lakes/shop,"),
        (f"lakes/shop/cdc/{NAME}_CT/sub", None, f"inside .*/{NAME}_CT,"),
        ("lakes/shop/log/sub", None, "inside .*/lakes/shop/log,"),
        ("other", "lakes/shop/logs", "inside .*/lakes/shop,"),
        ("other", "lakes/shop", "around .*/lakes/shop,"),
    ],
)
def test_a_lake_inside_another_is_refused(there: str, lake: str, log_store: str | None, reason: str) -> None:
    with pytest.raises(LakeNested, match=f"RT-3112: .* cannot be a lake or a log store: it is {reason}"):
        require_not_nested(f"{there}/{lake}", f"{there}/{log_store}" if log_store is not None else None)


@pytest.mark.parametrize("name", ["cdc", "log"])
def test_a_lake_around_another_is_refused(tmp_path: Path, name: str) -> None:
    FilledLake(tmp_path / "outer" / name)
    with pytest.raises(LakeNested, match=f"it is around .*/outer/{name}, where another lake is"):
        require_not_nested(str(tmp_path / "outer"))
