"""Tables of other formats are refused before anything is written, or read without being written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builders.formats import forget_format
from rowtide.cdc.published import CYCLES, arrow_schema, system_table_path
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.system_tables import RecordedCycle, SystemTables
from rowtide.core.formats import FormatNewer, FormatUnnumbered
from rowtide.core.lsn import Position
from rowtide.delta.errors import LakeReadFailed
from rowtide.delta.formats import FORMAT, LAKE_TABLE
from rowtide.delta.snapshot import open_snapshot
from rowtide.delta.writing.alteration import set_properties
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.stores import locate

NAMES = ("cycles", "instances", "ddl_history", "lsn_time_mapping")
FIRST = RecordedCycle(1, Position(100), Position(200))
SECOND = RecordedCycle(2, Position(200), Position(300))


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """A lake with a cycle that is recorded."""
    system_tables = SystemTables(str(tmp_path), "source")
    system_tables.ensure()
    system_tables.record(FIRST, 1)
    return str(tmp_path)


def set_format(lake: str, recorded: str) -> None:
    for name in NAMES:
        set_properties(locate(system_table_path(lake, name)), {FORMAT: recorded})


def uses_of(lake: str) -> list[Callable[[], object]]:
    """Return what reads a lake, and what writes it: the state, a query, a cycle, a table that is made or emptied."""
    path = system_table_path(lake, "cycles")
    return [
        lambda: SystemTables(lake, "source").read(),
        lambda: PublishedLake(lake).get_max_lsn(),
        lambda: SmallTable.open(path),
        lambda: SystemTables(lake, "source").record(SECOND, 1),
        lambda: SystemTables(lake, "source").ensure(),
        lambda: SystemTables(lake, "of another").ensure(),
        lambda: tables.empty_table(path),
        lambda: tables.retire_table(path, identity="source:cycles"),
    ]


def files_of(lake: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(lake).rglob("*") if path.is_file()}


def logs_of(lake: str) -> dict[Path, bytes]:
    return {path: content for path, content in files_of(lake).items() if path.parent.name == "_delta_log"}


def test_each_table_records_the_format(lake: str) -> None:
    for name in NAMES:
        snapshot = open_snapshot(locate(system_table_path(lake, name)))
        assert snapshot is not None
        assert snapshot.properties[FORMAT] == str(LAKE_TABLE.recorded)


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("kind", ["newer", "unnumbered"])
def test_another_format_is_refused_unchanged(lake: str, kind: str, number: int) -> None:
    if kind == "newer":
        set_format(lake, "2/2/2")
    else:
        for name in NAMES:
            forget_format(Path(system_table_path(lake, name)))
    before = files_of(lake)
    with pytest.raises(FormatNewer if kind == "newer" else FormatUnnumbered, match="lake table"):
        uses_of(lake)[number]()
    assert files_of(lake) == before


def test_a_newer_format_that_may_be_read_is_read(lake: str) -> None:
    set_format(lake, "2/1/2")
    before = files_of(lake)
    for use in uses_of(lake)[:3]:
        use()
    found = SmallTable.open(system_table_path(lake, "cycles"))
    assert found is not None
    assert found.read(arrow_schema(CYCLES, "cycle")).to_pydict() == {"cycle": [1]}
    with pytest.raises(FormatNewer, match="lake table"):
        SystemTables(lake, "source").record(SECOND, 1)
    with pytest.raises(FormatNewer, match="lake table"):
        tables.empty_table(system_table_path(lake, "cycles"))
    assert files_of(lake) == before


def test_a_running_capture_meets_a_newer_format(lake: str) -> None:
    running = SystemTables(lake, "source")
    assert running.record(SECOND, 1)
    set_format(lake, "2/2/2")
    before = logs_of(lake)
    with pytest.raises(FormatNewer, match="lake table"):
        running.record(RecordedCycle(3, Position(300), Position(400)), 1)
    assert logs_of(lake) == before, "a file that no commit names is at most left over"


def test_a_format_that_none_records_is_damage(lake: str) -> None:
    set_format(lake, "two")
    with pytest.raises(LakeReadFailed, match=r"rowtide\.format is damaged"):
        SystemTables(lake, "source").read()
