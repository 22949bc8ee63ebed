"""Files of format 1 continue in a build of format 2, which is made up: by `rowtide upgrade`, a device's by its sync."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.commands.command_lines import rowtide
from builders.faults.failpoints import UPGRADE_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.merge.merged_databases import PUBLICATION, Merge
from builders.merge_machines.merge_machine_base import open_files
from builders.recordings import Recording, read_file_tables
from builders.upgrading.next_formats import STEPS, be_of_format_1, be_of_format_2
from rowtide.core.formats import MIGRATIONS, FormatNewer, FormatOutdated
from rowtide.databases.urls import parse_url
from rowtide.handle import connect
from rowtide.merge.nodes.sqlite.metadata.node_form import FORMAT, FORMAT_VIEW

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
        hub, device, other, *_ = open_files(opened)
        merge = Merge(hub, [device, other])
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


def test_a_hub_and_its_devices_are_listed_and_migrated(merge: Merge) -> None:
    device = merge.subscribers[0]
    gone = merge.subscribers[1]
    Path(parse_url(gone.url).database or "").unlink()
    be_of_format_2()
    for words, after in ((("--dry-run",), (1, 2)), ((), (1, 2)), ((), (2, 2))):
        ended = rowtide("upgrade", *words, "--subscribers", "--format", "jsonl", "--db", merge.hub.url)
        rows = [json.loads(line) for line in ended.output.splitlines()]
        own, of_device = (row for row in rows if row["refused"] is None)
        assert [(row["format"], row["upgraded_to"]) for row in (own, of_device)] == [after, after]
        assert (of_device["least_reader"], of_device["least_writer"]) == (2, 2)
        assert of_device["place"] == parse_url(device.url).database
        assert [(row["place"], row["refused"]) for row in rows if row["refused"]] == [(gone.url, "RT-1121")]
        assert (ended.code, "RT-1121" in ended.errors) == (1, True)
        read_by = "format 2 is read by versions that know format 2 or later"
        assert (read_by in ended.errors) == (after == (1, 2))
    assert "Not listed: 2 subscribers" in rowtide("upgrade", "--db", merge.hub.url).errors


def test_a_synchronisation_migrates_both_ends_first(merge: Merge) -> None:
    device = merge.subscribers[0]
    be_of_format_2()
    ended = rowtide("merge", "sync", PUBLICATION, "--upgrade", "--subscriber", device.url, "--db", merge.hub.url)
    assert ended.code == 0, ended
    assert f"{FORMAT.store} at {parse_url(device.url).database}: migrated to format 2." in ended.errors
    assert formats_of(merge.hub.url) == formats_of(device.url) == {FORMAT.store: (2, 2)}
    assert merge.hub.rows("item", "name") == [("unsent",)]


def test_two_upgrades_at_once_do_each_step_once(merge: Merge) -> None:
    commands = [("upgrade", "--db", merge.hub.url)] * 2
    with ThreadPoolExecutor(len(commands)) as both:
        codes = both.map(lambda words: run_program(BUILD_OF_FORMAT_2, TESTS, *words, failpoint="none"), commands)
        assert list(codes) == [0, 0]
    be_of_format_2()
    assert formats_of(merge.hub.url) == {FORMAT.store: (2, 2)}


@pytest.mark.parametrize("name", ["device", "merge_device", "merge_field", "merge_hub", "subscriber"])
def test_a_recorded_file_is_migrated_and_then_refused(recording: Recording, name: str) -> None:
    path = recording.folder / f"{name}.db"
    before = read_file_tables(path)
    try:
        be_of_format_2()
        assert set(formats_of(f"sqlite:///{path}").values()) == {(1, 2)}
        assert set(formats_of(f"sqlite:///{path}").values()) == {(2, 2)}
    finally:
        be_of_format_1()
        MIGRATIONS.clear()
    assert {table: rows for table, rows in read_file_tables(path).items() if STEPS not in table} == before
    ended = rowtide("upgrade", "--db", f"sqlite:///{path}")
    assert (ended.code, "RT-1134" in ended.errors) == (1, True)
