"""A former holder of a lake's lease commits nothing to tables that the next one has fenced."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.lakes.delta_tables import locate, own
from rowtide.delta.errors import LakeFenced, LakeReadFailed
from rowtide.delta.replay import commit_path
from rowtide.delta.writing.alteration import set_properties
from rowtide.delta.writing.commit_race import hold
from rowtide.delta.writing.commits import create_table
from rowtide.delta.writing.fences import fence_all

SCHEMA = '{"type": "struct", "fields": [{"name": "id", "type": "integer", "nullable": true, "metadata": {}}]}'
OLD, NEW = 100, 200


@pytest.fixture
def place(tmp_path: Path) -> Path:
    create_table(locate(tmp_path / "cdc" / "item"), SCHEMA, {})
    return tmp_path / "cdc" / "item"


def alter(place: Path) -> None:
    set_properties(locate(place), {"delta.checkpointInterval": "20"})


def test_who_is_fenced_commits_nothing(place: Path) -> None:
    hold(str(place.parent.parent), OLD)
    alter(place)
    assert fence_all([locate(place)], NEW, at_once=1) == NEW
    before = own(place).version
    with pytest.raises(LakeFenced):
        set_properties(locate(place), {"delta.checkpointInterval": "30"})
    assert own(place).version == before
    hold(str(place.parent.parent), NEW)
    set_properties(locate(place), {"delta.checkpointInterval": "30"})
    assert own(place).version == before + 1


def test_a_number_is_above_all_that_tables_have(place: Path) -> None:
    assert fence_all([locate(place)], NEW, at_once=1) == NEW
    assert fence_all([locate(place), locate(place.parent / "none")], OLD, at_once=2) == NEW + 1


def test_a_table_passed_over_is_written_once_fenced(place: Path) -> None:
    lake = str(place.parent.parent)
    first = place / commit_path(0)
    content = first.read_bytes()
    first.write_bytes(b"damaged")
    unfenced: set[str] = set()
    assert fence_all([locate(place)], NEW, at_once=1, pass_over=unfenced.add) == NEW
    assert unfenced == {locate(place).path}
    hold(lake, NEW, unfenced)
    first.write_bytes(content)
    with pytest.raises(LakeReadFailed, match="fenced first"):
        alter(place)
    assert own(place).version == 0
    again = fence_all([locate(place)], NEW + 1, at_once=1, pass_over=unfenced.remove)
    hold(lake, again)
    alter(place)
    assert own(place).version == 2
    hold(lake, OLD)
    with pytest.raises(LakeFenced):
        alter(place)
