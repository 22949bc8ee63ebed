"""Files of format 1 continue in a build of format 2, which is made up: by `rowtide upgrade`, a device's by its sync."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.commands.command_lines import rowtide
from builders.faults.failpoints import UPGRADE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.merge.merged_databases import PUBLICATION, Merge
from builders.merge_machines.merge_machine_base import open_files
from builders.upgrading.next_formats import STEPS, be_of_format_1, be_of_format_2
from rowtide.core.formats import MIGRATIONS, FormatNewer, FormatOutdated
from rowtide.handle import connect
from rowtide.merge.nodes.sqlite.metadata.completing import FORMAT, FORMAT_VIEW

BUILD_OF_FORMAT_2 = """
import sys
sys.path.insert(0, sys.argv[1])
from builders.upgrading.next_formats import be_of_format_2
from rowtide.cli.main import run_command

be_of_format_2()
sys.exit(run_command(sys.argv[2:]))
"""
TESTS = str(Path(__file__).parents[2])


@pytest.fixture
def merge() -> Iterator[Merge]:
    """A hub and a device with a change that is not sent."""
    with ExitStack() as opened:
        hub, device, *_ = open_files(opened)
        merge = Merge(hub, [device])
        merge.begin("create table item (id integer primary key, name text)", item={})
        device.execute("insert into item (id, name) values (1, 'unsent')")
        yield merge
        be_of_format_1()
        MIGRATIONS.clear()


def formats_of(url: str, *words: str) -> dict[str, tuple[int, int]]:
    ended = rowtide("upgrade", *words, "--format", "jsonl", "--db", url)
    assert ended.code == 0, ended
    rows = map(json.loads, ended.output.splitlines())
    return {row["store"]: (row["format"], row["upgraded_to"]) for row in rows}


def test_what_a_file_has_is_listed_and_migrated(merge: Merge) -> None:
    with connect(merge.hub.url) as hub:
        hub.tracking.enable_tracking("item")
        assert formats_of(hub.url) == {"merge metadata of the file": (1, 1), "change tracking of the file": (1, 1)}
        be_of_format_2()
        for use in (hub.tracking.list_tracked, hub.merge.list_publications):
            with pytest.raises(FormatOutdated):
                use()
            formats_of(hub.url, "--dry-run")
        assert formats_of(hub.url) == {"merge metadata of the file": (1, 2), "change tracking of the file": (1, 2)}
        assert [table.name for table in hub.tracking.list_tracked()] == ["item"]
        assert hub.merge.list_publications()
        be_of_format_1()
        for use in (hub.tracking.list_tracked, hub.merge.list_publications):
            with pytest.raises(FormatNewer):
                use()


def test_a_device_of_an_older_format_is_migrated_by_its_sync(merge: Merge) -> None:
    device = merge.subscribers[0]
    be_of_format_2()
    with pytest.raises(FormatOutdated, match="rowtide upgrade"):
        merge.sync()
    assert formats_of(merge.hub.url) == {FORMAT.store: (1, 2)}
    with pytest.raises(FormatOutdated):
        connect(device.url).merge.list_publications()

    assert merge.sync().upload.total.inserts == 1
    assert formats_of(device.url) == {FORMAT.store: (2, 2)}
    assert merge.hub.rows("item", "name") == [("unsent",)]

    be_of_format_1()
    with pytest.raises(FormatNewer):
        merge.sync()


@pytest.mark.parametrize("failpoint", UPGRADE_FAILPOINTS)
def test_a_migration_that_is_killed_goes_on(merge: Merge, failpoint: str) -> None:
    device = merge.subscribers[0]
    assert run_program(BUILD_OF_FORMAT_2, TESTS, "upgrade", "--db", merge.hub.url, failpoint="none") == 0
    sync = ("merge", "sync", PUBLICATION, "--subscriber", device.url, "--db", merge.hub.url)
    assert run_program(BUILD_OF_FORMAT_2, TESTS, *sync, failpoint=failpoint) == KILLED
    be_of_format_2()
    is_done = failpoint.endswith(".after")
    assert formats_of(device.url, "--dry-run") == {FORMAT.store: (2 if is_done else 1, 2)}
    assert merge.sync().upload.total.inserts == 1
    assert device.rows(f"{STEPS}_{FORMAT_VIEW}", "id") == []
