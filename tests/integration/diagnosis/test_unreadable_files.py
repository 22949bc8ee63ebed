"""Files of devices that cannot be read, wholly or in a page: nothing is stated of them then but that.

The hub of a device is asked nothing: what is stated at the device stays, whatever becomes of the hub.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from builders.commands.command_lines import rowtide
from builders.commands.stated_facts import Stated, state

PAGE = 4096
PARTS = 12
"""Each takes every twelfth page."""
_STATING = ("health", "check", "merge status", "tracking options")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub and a device that also tracks its tables."""
    folder = tmp_path_factory.mktemp("devices")
    with closing(sqlite3.connect(folder / "hub.db", isolation_level=None)) as hub:
        hub.execute("create table place (id integer primary key, name text)")
        hub.execute("insert into place values (1, 'a'), (2, 'b')")
    sqlite3.connect(folder / "device.db").close()
    hub_url, device_url = (f"sqlite:///{folder}/{name}.db" for name in ("hub", "device"))
    for command in (
        f"merge add-publication field --db {hub_url}",
        f"merge add-article field place --db {hub_url}",
        f"merge add-subscription field --subscriber {device_url} --db {hub_url}",
        f"merge sync field --subscriber {device_url} --db {hub_url}",
        f"tracking enable place --db {device_url}",
    ):
        ended = rowtide(*command.split())
        assert ended.code == 0, ended
    with closing(sqlite3.connect(folder / "device.db", isolation_level=None)) as device:
        device.execute("pragma wal_checkpoint(truncate)")
    return folder


@pytest.fixture
def device(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """The device's file, in its place, to be damaged; what it had is put back."""
    path, kept = folder / "device.db", tmp_path / "kept.db"
    shutil.copy(path, kept)
    yield path
    for left in folder.glob("device.db*"):
        left.unlink()
    shutil.copy(kept, path)


def facts(stated: dict[str, Stated]) -> dict[str, dict[tuple[str, str], str | None]]:
    return {name: {fact: said[0] for fact, said in one.facts.items()} for name, one in stated.items()}


def require_unknown(before: dict[str, Stated], now: dict[str, Stated], *words: str) -> None:
    """Nothing is stated that was not before, and what is not any more is so because of what is named."""
    for name in _STATING:
        new = now[name].facts.keys() - before[name].facts.keys()
        assert all(any(word in fact[1] for word in words) for fact in new), (name, new)
        if before[name].facts.keys() - now[name].facts.keys():
            said = [now[name].errors, *(fact[1] for fact in new)]
            assert now[name].code in (1, 2), (name, now[name])
            assert any(word in each for word in words for each in said), (name, said)


@pytest.mark.parametrize("how", ["away", "refuses", "damaged"])
def test_a_device_states_the_same_whatever_its_hub_does(folder: Path, how: str) -> None:
    url, hub, kept = f"sqlite:///{folder}/device.db", folder / "hub.db", folder / "kept.db"
    before = state(url)
    hub.rename(kept)
    if how == "refuses":
        hub.mkdir()
    elif how == "damaged":
        hub.write_bytes(b"\xff" * PAGE)
    try:
        now = state(url)
        for command in ("merge sync field", "merge pending field"):
            ended = rowtide(*command.split(), "--subscriber", url, "--db", f"sqlite:///{hub}")
            ended.require_error(1121)
            assert str(hub) in ended.errors
    finally:
        if how == "refuses":
            hub.rmdir()
        kept.replace(hub)
    assert facts(now) == facts(before)


@pytest.mark.parametrize("content", [b"", b"a text, not a database\n" * 100, b"SQLite format 3\0" + b"\xff" * 2 * PAGE])
def test_a_file_that_is_no_database_is_named(device: Path, content: bytes) -> None:
    url = f"sqlite:///{device}"
    before = state(url)
    device.write_bytes(content)
    now = state(url)
    if content:
        require_unknown(before, now, f"{device} cannot be opened", f"{device} is damaged")
    else:
        # An empty file is a database without tables.
        assert {subject for subject, _ in now["health"].facts} == {"database", "disk"}
        assert not now["tracking options"].facts


@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_page_is_named_and_hides_what_it_had(device: Path, part: int) -> None:
    url, content = f"sqlite:///{device}", device.read_bytes()
    before = state(url)
    for page in range(part, len(content) // PAGE, PARTS):
        damaged = bytearray(content)
        damaged[page * PAGE + 100 * (page == 0) : page * PAGE + 300] = b"\xaa" * (300 - 100 * (page == 0))
        device.write_bytes(damaged)
        require_unknown(before, state(url), f"{device} is damaged", f"{device} cannot be")


def test_a_locked_file_is_named_and_not_looked_for(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowtide.databases.sqlite.connect.LOCK_DEADLINE_S", 0.1)
    url = f"sqlite:///{device}"
    before = state(url)
    with closing(sqlite3.connect(device, isolation_level=None)) as program:
        program.execute("pragma locking_mode = exclusive")
        program.execute("begin exclusive")
        now = state(url)
        rowtide("merge", "status", "--db", url).require_error(1122)
    require_unknown(before, now, f"{device} was locked by another program")
    assert {one.code for one in now.values()} == {1, 2}
