"""What rowtide makes is its user's alone; what is in a place that others may read, they may read too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from builders.commands.checks import run_mend
from builders.file_modes import modes_in
from rowtide.databases.file_access import make_file, make_folder_in, make_place, mask_of
from rowtide.diagnosis.places import LAKE, PlaceFacts, check_places, read_place
from rowtide.log.store.location import LocalStore
from rowtide.merge.nodes.connecting import open_subscriber

PRIVATE = {"folders": {0o700}, "files": {0o600}}
OF_GROUP = {"folders": {0o750}, "files": {0o640}}


@pytest.fixture(params=[0o000, 0o022, 0o077], autouse=True)
def process_mask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever the process's own mask is."""
    before = os.umask(request.param)
    yield
    os.umask(before)


def make_private(folder: Path) -> None:
    make_place(folder)


def make_for_group(folder: Path) -> None:
    make_place(folder, for_group=True)


def make_by_others(mode: int) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir()
        folder.chmod(mode)

    return make


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (make_private, PRIVATE),
        (make_for_group, OF_GROUP),
        (make_by_others(0o755), {"folders": {0o755}, "files": {0o644}}),
        (make_by_others(0o770), {"folders": {0o770}, "files": {0o660}}),
        (make_by_others(0o777), {"folders": {0o777, 0o775}, "files": {0o664}}),
        (lambda _folder: None, PRIVATE),
    ],
)
def test_a_store_is_as_readable_as_its_folder(
    tmp_path: Path, make: Callable[[Path], None], expected: dict[str, set[int]]
) -> None:
    make(tmp_path / "log")
    store = LocalStore(str(tmp_path / "log"))
    store.put_durable("segments/a/b", b"1")
    store.put_if_absent("manifest/a", b"1")

    assert modes_in(tmp_path / "log") == expected


def test_what_is_made_for_a_group_has_the_groups_mark(tmp_path: Path) -> None:
    make_place(tmp_path / "above" / "lake", for_group=True)

    assert (tmp_path / "above").stat().st_mode & 0o7777 == 0o2750
    assert mask_of(tmp_path / "above" / "lake") == 0o027


@pytest.mark.parametrize("make", [make_private, make_for_group])
def test_what_is_made_at_once_is_as_readable(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A folder that another thread is making does not show the process's own mask to what is written into it."""
    with ThreadPoolExecutor(4) as pool:
        for round_ in range(60):
            folder = tmp_path / str(round_)
            make(folder)

            def write(name: int, log: Path = folder / "log") -> None:
                make_folder_in(log, mask_of(log.parent))
                LocalStore(str(log)).put_durable(str(name), b"1")

            list(pool.map(write, range(4)))
            assert modes_in(folder) == (PRIVATE if make is make_private else OF_GROUP)


def test_what_is_written_for_a_group_stays_the_groups(tmp_path: Path) -> None:
    make_for_group(tmp_path / "log")
    LocalStore(str(tmp_path / "log")).put_durable("segments/a/b", b"1")

    assert [(tmp_path / "log" / below).stat().st_mode & 0o7777 for below in ("segments", "segments/a")] == [0o2750] * 2


def test_a_place_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake").chmod(0o755)
    make_place(tmp_path / "lake", for_group=True)
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o644)
    make_file(tmp_path / "file")

    assert (tmp_path / "lake").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_what_is_written_where_no_folder_is_to_follow_is_private(tmp_path: Path) -> None:
    assert mask_of(tmp_path / "nowhere") == 0o077


def test_a_file_that_is_made_is_private(tmp_path: Path) -> None:
    make_file(tmp_path / "device.db")

    assert (tmp_path / "device.db").stat().st_mode & 0o777 == 0o600


def test_device_file_created_by_a_merge_is_private_with_its_wal(tmp_path: Path) -> None:
    with open_subscriber(f"sqlite:///{tmp_path}/device.db") as node:
        node.tables.prepare()
        node.connection.exec_driver_sql("create table t (id integer)")
        (tmp_path / "device.db-wal").stat()
        assert modes_in(tmp_path)["files"] == {0o600}


@pytest.mark.parametrize(("mode", "found"), [(0o700, 0), (0o750, 0), (0o755, 1), (0o701, 1)])
def test_check_warns_of_places_that_everybody_reads(tmp_path: Path, mode: int, found: int) -> None:
    place = tmp_path / "the lake"
    make_by_others(mode)(place)
    read = read_place(LAKE, str(place), was_made=True)
    assert isinstance(read, PlaceFacts)
    warned = [each for each in check_places([read]) if "every user" in each.message]

    assert [str(each.remediation) for each in warned] == [f"chmod -R o= '{place}'"] * found
    for each in warned:
        run_mend(each, "")
    again = read_place(LAKE, str(place), was_made=True)
    assert not [each for each in check_places([again]) if "every user" in each.message]
