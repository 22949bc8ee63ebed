"""Hints of errors of merge and tracking, run as they are printed, in SQLite files: hub, device, and another one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from builders.commands.hints import Place, Refused, require_help

PUBLISH = ("merge add-publication field", "merge add-article field place")
SUBSCRIBE = (*PUBLISH, "merge add-subscription field --subscriber DEVICE")
SYNC = "merge sync field --subscriber DEVICE"
VALIDATE = "merge validate field --subscriber DEVICE --checksum"
CHOSEN = {"PUBLICATION": "field", "URL": "DEVICE", "ARTICLE": "place", "TABLE": "place", "FOLDER": "TAKEN-2"}
TRACK = "tracking enable place"
CHANGES = "tracking changes place --format jsonl"


def move(place: Place, old: str, new: str) -> None:
    """Put a file in another's place."""
    shutil.copy(*(place.words[name].removeprefix("sqlite:///") for name in (old, new)))


def remove(place: Place, name: str) -> None:
    Path(place.words[name].removeprefix("sqlite:///")).unlink()


def damage(place: Place) -> None:
    """Change a file of a prepared snapshot."""
    for path in Path(place.words["TAKEN"]).rglob("*"):
        if path.is_file() and path.name != "snapshot.json":
            path.write_bytes(b"x")


def drop_triggers(place: Place) -> None:
    """Drop the triggers of the device's table, as a program does that rebuilds it."""
    with closing(sqlite3.connect(place.words["DEVICE"].removeprefix("sqlite:///"), isolation_level=None)) as file:
        for (name,) in file.execute("select name from sqlite_master where type = 'trigger' and tbl_name = 'place'"):
            file.execute(f'drop trigger "{name}"')


def rewrite(place: Place) -> None:
    """Change a row of the device's behind its triggers."""
    with closing(sqlite3.connect(place.words["DEVICE"].removeprefix("sqlite:///"), isolation_level=None)) as file:
        found = file.execute(
            "select name, sql from sqlite_master where type = 'trigger' and tbl_name = 'place'"
        ).fetchall()
        for name, _ in found:
            file.execute(f'drop trigger "{name}"')
        file.execute("update place set name = 'other' where id = 1")
        for _, made in found:
            file.execute(made)


REFUSED = [
    Refused(8002, "merge add-article field place", chosen=CHOSEN, runs=(0, 1)),
    Refused(8010, "merge add-publication field", PUBLISH),
    Refused(8012, "merge change-article field nothing --where 'id > 1'", PUBLISH, tells="place"),
    Refused(8013, SYNC, PUBLISH),
    Refused(8014, "merge add-subscription field --subscriber DEVICE", SUBSCRIBE, tells=""),
    Refused(
        8017,
        SYNC,
        (
            *SUBSCRIBE,
            SYNC,
            partial(move, old="DEVICE", new="BACKUP"),
            "DEVICE: insert into place (id, name) values (3, 'c')",
            SYNC,
            partial(move, old="BACKUP", new="DEVICE"),
        ),
        CHOSEN,
    ),
    Refused(
        8018,
        SYNC,
        (
            *SUBSCRIBE,
            SYNC,
            "insert into MSmerge_agent values (1)",
            "update sysmerge_stored_subscriptions set last_sync_date = '2020-01-01 00:00'",
            "delete from MSmerge_agent",
        ),
        CHOSEN,
    ),
    Refused(
        8019,
        "merge resolve 6f9619ff-8b86-d011-b42d-00c04fc964ff --winner subscriber",
        SUBSCRIBE,
        CHOSEN,
        tells="conflict_id",
    ),
    Refused(
        8022,
        VALIDATE,
        (
            *SUBSCRIBE,
            SYNC,
            "DEVICE: create table kept as select sql from sqlite_master where type = 'trigger' and tbl_name = 'place'",
            rewrite,
        ),
        CHOSEN,
    ),
    Refused(8029, SYNC, (*SUBSCRIBE, SYNC, drop_triggers), CHOSEN),
    Refused(
        8060,
        "merge change-subscription field --subscriber DEVICE --host-name b",
        SUBSCRIBE,
        {**CHOSEN, "TABLE": "note", "CONDITION": "name = host_name()"},
        first=("merge drop-subscription field --subscriber DEVICE",),
        after="merge add-subscription field --subscriber OTHER --host-name b",
    ),
    Refused(8070, VALIDATE, (*SUBSCRIBE, SYNC, "merge alter-article field place 'add column tag text'"), CHOSEN),
    Refused(8076, "merge mark-schema-change field 9 --skip", SUBSCRIBE, tells="version"),
    Refused(
        8092,
        SYNC,
        (*SUBSCRIBE, SYNC, "merge change-article field place --subscriber-upload-options 1"),
        CHOSEN,
    ),
    Refused(
        8110,
        "merge add-subscription field --subscriber OTHER --snapshot TAKEN",
        (*PUBLISH, "merge add-publication second", "merge add-article second note", "merge snapshot second --to TAKEN"),
        CHOSEN,
        after="merge add-subscription field --subscriber OTHER --snapshot TAKEN-2",
    ),
    Refused(
        8112,
        "merge add-subscription field --subscriber OTHER --snapshot TAKEN",
        (*PUBLISH, "merge snapshot field --to TAKEN", damage),
        CHOSEN,
        after="merge add-subscription field --subscriber OTHER --snapshot TAKEN-2",
    ),
    Refused(
        8131,
        "merge drop-subscription field --subscriber DEVICE --upload-first",
        (*SUBSCRIBE, SYNC, "DEVICE: insert into place (id, name) values (9, 'refused')"),
        CHOSEN,
        tells="refused",
    ),
    Refused(
        8134,
        "merge add-subscription field --subscriber DEVICE",
        (*SUBSCRIBE, SYNC, partial(remove, name="DEVICE"), partial(move, old="OTHER", new="DEVICE")),
    ),
    Refused(6104, TRACK, (TRACK,)),
    Refused(22105, CHANGES, ("tracking enable note",)),
    Refused(6119, CHANGES, (TRACK, "tracking enable note", "drop table place"), after="tracking options"),
]


@dataclass(frozen=True, slots=True)
class Files:
    """A hub, a device and another file."""

    folder: Path

    @property
    def url(self) -> str:
        return self.words["HUB"]

    @property
    def words(self) -> Mapping[str, str]:
        names = ("HUB", "DEVICE", "OTHER", "BACKUP")
        return {
            **{name: f"sqlite:///{self.folder}/{name.lower()}.db" for name in names},
            "TAKEN": f"{self.folder}/taken",
        }

    def execute(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.folder / "hub.db", isolation_level=None)) as file:
            for statement in statements:
                file.execute(statement)


@pytest.mark.parametrize("refused", REFUSED, ids=str)
def test_an_error_of_files_is_gone_once_its_hint_is_done(tmp_path: Path, refused: Refused) -> None:
    files = Files(tmp_path)
    files.execute(
        "create table place (id integer primary key, name text, size text)",
        "create table note (id integer primary key, name text)",
        "insert into place values (1, 'a', null), (2, 'b', null)",
        "create trigger judge before insert on place when new.name = 'refused' begin select raise(abort, 'no'); end",
    )
    for name in ("device", "other"):
        sqlite3.connect(tmp_path / f"{name}.db").close()
    require_help(refused, files, files.url)
