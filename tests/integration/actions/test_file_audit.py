"""The audit of a SQLite file: as that of a database, and none in a file that rowtide does not use."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from builders.commands.command_lines import rowtide
from rowtide.actions import ActionEntry, ActionOutcome
from rowtide.actions.errors import ActionIdInvalid, ActionIncomplete, ActionNotRecorded, ActionUnknown
from rowtide.handle import connect
from rowtide.tracking.errors import TableToTrackNotFound

HUB = "shop"
CONFLICT = {"conflict": "0f3c", "winner": "subscriber"}


@pytest.fixture
def hub(tmp_path: Path) -> str:
    """A file that is a hub of a publication without subscribers."""
    path = tmp_path / "hub.db"
    with sqlite3.connect(path) as session:
        session.execute("create table item (id integer primary key, name text)")
    session.close()
    url = f"sqlite:///{path}"
    merge = connect(url).merge
    merge.add_publication(HUB)
    merge.add_article(HUB, "item")
    return url


def audited(url: str) -> list[dict[str, str]]:
    ended = rowtide("audit", "--format", "csv", "--db", url)
    assert ended.code == 0, ended
    return list(csv.DictReader(io.StringIO(ended.output)))


def resolve(url: str, action_id: str) -> ActionEntry:
    entry = connect(url).actions.perform("merge resolve", CONFLICT, actor="anna", action_id=action_id)
    assert entry is not None
    return entry


def test_commands_in_a_file_are_recorded(hub: str) -> None:
    ended = rowtide("merge", "resolve", "0f3c", "--winner", "publisher", "--over-later-changes", "--db", hub)
    assert ended.code == 1
    assert rowtide("merge", "reinitialize", HUB, "--subscriber", "sqlite:///gone.db", "--yes", "--db", hub).code == 1
    reinitialized, resolved = audited(hub)
    assert reinitialized["subject"] == f"{HUB} to sqlite:///gone.db"
    assert (resolved["action"], resolved["subject"], resolved["outcome"]) == ("merge resolve", "0f3c", "failed")
    assert resolved["arguments"] == '{"over_later_changes": true, "winner": "publisher"}'
    assert ended.errors.startswith(f"RT-{resolved['error_number']}: ")


def test_an_id_is_used_once(hub: str) -> None:
    action_id = str(uuid4())
    together, found = threading.Barrier(4), []

    def act() -> None:
        together.wait()
        found.append(resolve(hub, action_id))

    threads = [threading.Thread(target=act) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(audited(hub)) == 1
    assert resolve(hub, action_id).outcome is ActionOutcome.FAILED


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to every file")
def test_a_file_that_is_only_read_refuses(hub: str) -> None:
    path = Path(hub.removeprefix("sqlite:///"))
    path.chmod(0o400)
    path.parent.chmod(0o500)
    try:
        with pytest.raises(ActionNotRecorded):
            resolve(hub, str(uuid4()))
    finally:
        path.parent.chmod(0o700)


def test_a_file_that_refuses_to_be_written_refuses(hub: str) -> None:
    """Something else has the name of the table."""
    path = hub.removeprefix("sqlite:///")
    with sqlite3.connect(path) as session:
        session.execute("create view rowtide_actions as select 1")
    session.close()
    with pytest.raises(ActionNotRecorded, match="RT-1226"):
        resolve(hub, str(uuid4()))


def test_a_file_without_rowtide_gets_no_audit(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as session:
        session.execute("create table item (id integer primary key)")
    url = f"sqlite:///{path}"
    assert connect(url).actions.perform("merge resolve", CONFLICT, actor="anna") is None
    assert rowtide("merge", "resolve", "0f3c", "--winner", "publisher", "--db", url).code == 1
    assert audited(url) == []
    assert session.execute("select name from sqlite_schema").fetchall() == [("item",)]
    session.close()


def test_what_cannot_be_asked_for_is_refused_before(hub: str) -> None:
    actions = connect(hub).actions
    with pytest.raises(ActionUnknown):
        actions.perform("drop everything", {}, actor="anna")
    with pytest.raises(ActionIncomplete, match="winner is missing"):
        actions.perform("merge resolve", {"conflict": "1"}, actor="anna")
    with pytest.raises(ActionIncomplete, match="it takes no again"):
        actions.perform("merge resolve", {**CONFLICT, "again": True}, actor="anna")
    with pytest.raises(ActionIdInvalid):
        actions.perform("merge resolve", CONFLICT, actor="anna", action_id="1")
    assert actions.list_entries() == ()


def test_the_audit_is_a_store_of_the_file(hub: str) -> None:
    resolve(hub, str(uuid4()))
    listed = rowtide("upgrade", "--dry-run", "--format", "csv", "--db", hub)
    assert "audit of actions" in listed.output


def test_the_audit_is_no_table_to_be_tracked(tmp_path: Path) -> None:
    """It is left in a file that rowtide uses no more."""
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as session:
        session.execute("create table item (id integer primary key)")
    session.close()
    url = f"sqlite:///{path}"
    assert rowtide("tracking", "enable", "item", "--db", url).code == 0
    assert resolve(url, str(uuid4())).outcome is ActionOutcome.FAILED
    assert rowtide("tracking", "disable", "item", "--db", url).code == 0
    with pytest.raises(TableToTrackNotFound):
        connect(url).check(["rowtide_actions"])


def test_entries_are_kept_for_a_year_or_as_asked(hub: str) -> None:
    old, younger, newest = (str(uuid4()) for _ in range(3))
    path = hub.removeprefix("sqlite:///")
    for action_id, begun_at in ((old, "2020-01-01T00:00:00+00:00"), (younger, None)):
        resolve(hub, action_id)
        if begun_at is not None:
            with sqlite3.connect(path) as session:
                session.execute("update rowtide_actions set begun_at = ?", (begun_at,))
            session.close()
    assert [one["action_id"] for one in audited(hub)] == [younger]
    ten_days_ago = (datetime.now(UTC) - timedelta(days=10)).isoformat()
    with sqlite3.connect(path) as session:
        session.execute("update rowtide_actions set begun_at = ?", (ten_days_ago,))
    session.close()
    resolve(hub, newest)
    assert [one["action_id"] for one in audited(hub)] == [newest, younger]
    ended = rowtide("audit", "--keep-days", "9", "--format", "csv", "--db", hub)
    assert "Deleted 1 entries." in ended.errors
    assert [one["action_id"] for one in csv.DictReader(io.StringIO(ended.output))] == [newest]


def test_entries_are_kept_as_the_configuration_says(hub: str, tmp_path: Path) -> None:
    config = tmp_path / "rowtide.toml"
    config.write_text(f'[databases.hub]\nurl = "{hub}"\naudit_days = 30\n')
    config.chmod(0o600)
    old = str(uuid4())
    resolve(hub, old)
    with sqlite3.connect(hub.removeprefix("sqlite:///")) as session:
        forty_days_ago = (datetime.now(UTC) - timedelta(days=40)).isoformat()
        session.execute("update rowtide_actions set begun_at = ?", (forty_days_ago,))
    session.close()
    resolving = ("merge", "resolve", "0f3c", "--winner", "publisher")
    rowtide(*resolving, "--db", hub)
    assert len(audited(hub)) == 2
    rowtide(*resolving, "--db", "hub", "--config", str(config))
    assert [one["action_id"] == old for one in audited(hub)] == [False, False]


def test_a_command_and_a_page_say_the_same(hub: str) -> None:
    subscriber = hub.replace("hub.db", "field.db")
    connect(hub).merge.add_subscription(HUB, subscriber)
    wanted = {"publication": HUB, "subscriber": subscriber}
    assert rowtide("merge", "validate", HUB, "--subscriber", subscriber, "--db", hub).code == 0
    connect(hub).actions.perform("merge validate", wanted, actor="anna")
    assert {one["result"] for one in audited(hub)} == {"Tables with equal rows: 1."}
