"""Commands in environments that are not a user's shell: a cron job's, a container's, a service's."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from builders.commands.bare_environments import UNKNOWN_UID, BareEnvironment, has_own_mounts
from builders.commands.command_lines import rowtide
from builders.file_modes import modes_in
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.small_disks import fill, small_disk

# Nobody may make a file in /proc, root neither.
READ_ONLY = Path("/proc")
ENVIRONMENTS = {
    "no home": BareEnvironment(),
    "read-only home and folder": BareEnvironment({"HOME": str(READ_ONLY)}, folder=READ_ONLY),
    "home that is missing": BareEnvironment({"HOME": "/nonexistent"}),
    "LANG=C": BareEnvironment({"LANG": "C", "LC_ALL": "C"}),
    "ascii": BareEnvironment({"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}),
    "Apia": BareEnvironment({"TZ": "Pacific/Apia"}),
    "umask 000": BareEnvironment(umask=0),
    "umask 077": BareEnvironment(umask=0o077),
    "no folder for temporary files": BareEnvironment({"TMPDIR": str(READ_ONLY)}),
    "full folder for temporary files": BareEnvironment(has_full_tmpdir=True),
    "unknown user": BareEnvironment(is_unknown_user=True),
    "read-only root": BareEnvironment(is_unknown_user=True, written=Path()),
}
NAME = "東 é"


@pytest.fixture(params=ENVIRONMENTS)
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BareEnvironment]:
    found = ENVIRONMENTS[request.param]
    if found.is_unknown_user and os.geteuid() != 0:
        pytest.skip("only root may become another user")
    if found.written is not None:
        if not has_own_mounts():
            pytest.skip("a program cannot be given mounts of its own here")
        # The folder in which all of a test's lie: a container's volume.
        found = replace(found, written=tmp_path, variables={"TMPDIR": str(tmp_path)})
    if not found.has_full_tmpdir:
        yield found
        return
    with small_disk(tmp_path / "full", 1) as disk:
        fill(disk)
        yield replace(found, variables={"TMPDIR": str(disk)})


def require_done(environment: BareEnvironment, *arguments: str) -> str:
    done = environment.run(arguments)
    assert (done.code, "Traceback" in done.errors) == (0, False), done
    return done.output


def test_a_lake_and_a_subscriber_get_their_rows(
    replicated: ReplicatedDatabase, environment: BareEnvironment, tmp_path: Path
) -> None:
    publisher = replicated.publisher
    replicated.begin("create table item (id int primary key, name text)", item={})
    publisher.enable("item")
    publisher.execute(f"insert into item values (1, '{NAME}')")
    if environment.is_unknown_user:
        give_away(publisher.lake.parent)
    require_done(environment, "cdc", "run", "--once", "--db", publisher.url)
    require_done(environment, "replication", "run", "--once", "--db", publisher.url)
    listed = require_done(environment, "cdc", "changes", "public_item", "--format", "jsonl", "--db", publisher.url)
    health = environment.run(["health", "--format", "json", "--db", publisher.url])

    assert NAME in listed
    replicated.require_equal("item")
    assert modes_in(publisher.lake) == {"folders": {0o700}, "files": {0o600}}
    assert '"area": "log"' in health.output
    assert (health.code in {0, 1}, health.errors) == (True, ""), health


def test_files_are_merged(environment: BareEnvironment, tmp_path: Path) -> None:
    hub, field = tmp_path / "hub.db", tmp_path / "field.db"
    with closing(sqlite3.connect(hub)) as opened:
        opened.execute("create table item (id integer primary key, name text)")
    for command in (
        ("add-publication", "p"),
        ("add-article", "p", "item"),
        ("add-subscription", "p", "--subscriber", f"sqlite:///{field}"),
    ):
        done = rowtide("merge", *command, "--db", f"sqlite:///{hub}")
        assert done.code == 0, done
    with closing(sqlite3.connect(hub)) as opened:
        opened.execute("insert into item (id, name) values (7, ?)", [NAME])
        opened.commit()
    if environment.is_unknown_user:
        give_away(tmp_path)
    require_done(environment, "merge", "sync", "p", "--subscriber", f"sqlite:///{field}", "--db", f"sqlite:///{hub}")
    require_done(environment, "health", "--db", f"sqlite:///{hub}")

    with closing(sqlite3.connect(field)) as opened:
        assert opened.execute("select id, name from item").fetchall() == [(7, NAME)]
    assert field.stat().st_mode & 0o777 == 0o600


def give_away(folder: Path) -> None:
    """Give a folder, with what is in it, to the user without a name."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, UNKNOWN_UID, UNKNOWN_UID)
