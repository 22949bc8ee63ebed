"""The steps of the container file, run in a folder of the test where no image can be built."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path

import pytest

from builders.capture.captured_databases import wait_until
from builders.commands.bare_environments import UNKNOWN_UID, BareEnvironment, has_own_mounts
from builders.commands.command_lines import rowtide
from builders.commands.configuration_files import write_file
from builders.commands.container_files import ROOT, Instruction, read_stages
from rowtide.lake.jars import JARS_FOLDER


def values_of(name: str, stage: str = "") -> list[str]:
    return [found.arguments for found in read_stages()[stage] if found.name == name]


def test_the_image_is_of_a_user_without_rights() -> None:
    (user,) = values_of("USER")
    created = " ".join(values_of("RUN"))

    assert user != "0"
    assert f"--uid {user}" in created
    assert values_of("VOLUME") == ["/data"]
    assert values_of("STOPSIGNAL") == ["SIGTERM"]
    assert not re.search(r"\bHOME=", " ".join(values_of("ENV")))


def test_what_is_copied_is_there() -> None:
    copied = [path for line in values_of("COPY", "build") for path in line.split()[:-1]]

    assert "requirements.lock" in copied
    assert [path for path in copied if not (ROOT / path).exists()] == []


def test_healthy_is_what_has_no_failure(tmp_path: Path) -> None:
    (line,) = values_of("HEALTHCHECK")
    command = line.partition(" CMD ")[2]
    assert command.startswith("rowtide health ")
    program = tmp_path / "rowtide"
    for code, is_healthy in ((0, True), (1, True), (2, False), (127, False)):
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o755)
        checked = subprocess.run(["sh", "-c", command], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False)
        assert (checked.returncode == 0) == is_healthy, code


def test_what_it_starts_runs_on_a_read_only_root(tmp_path: Path) -> None:
    if not has_own_mounts():
        pytest.skip("a program cannot be given mounts of its own here")
    require_running(tmp_path, Path(sys.executable))


def require_running(data: Path, python: Path) -> None:
    """Require that what the last stage starts does its work as a user without rights and home, and stops."""
    hub, field = data / "hub.db", data / "field.db"
    with closing(sqlite3.connect(hub)) as opened:
        opened.execute("create table item (id integer primary key)")
    text = f'[databases.hub]\nurl = "sqlite:///{hub}"\nrun = ["merge"]\n'
    file = write_file(data / "etc", f'{text}[databases.field]\nurl = "sqlite:///{field}"\nrun = []\n')
    variables = dict(line.split("=", 1) for found in values_of("ENV") for line in found.split())
    del variables["PATH"]
    given = {name: value.replace("/data", str(data)) for name, value in variables.items()}
    given |= {"ROWTIDE_CONFIG": str(file), "TMPDIR": str(data)}
    container = BareEnvironment(given, folder=data, is_unknown_user=True, written=data, python=python)
    for command in (
        ("add-publication", "p"),
        ("add-article", "p", "item"),
        ("add-subscription", "p", "--subscriber", f"sqlite:///{field}"),
    ):
        done = rowtide("merge", *command, "--db", f"sqlite:///{hub}")
        assert done.code == 0, done
    with closing(sqlite3.connect(hub)) as opened:
        opened.execute("insert into item (id) values (7)")
        opened.commit()
    for path in (data, *data.rglob("*")):
        os.chown(path, UNKNOWN_UID, UNKNOWN_UID)

    (started,) = values_of("CMD")
    with container.start(json.loads(started)) as running:
        try:
            wait_until(lambda: has_row(field), what="a merged row")
            running.terminate()
            _, errors = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 0, errors
    (line,) = values_of("HEALTHCHECK")
    health = shlex.split(line.partition(" CMD ")[2].partition("||")[0])[1:]
    checked = container.run([*health, "--db", "hub"])
    assert checked.code in {0, 1}, checked


def has_row(field: Path) -> bool:
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(field)) as opened:
        return opened.execute("select id from item").fetchall() == [(7,)]
    return False


@pytest.mark.exhaustive
def test_its_steps_install_a_rowtide_that_runs(tmp_path: Path) -> None:
    build(read_stages()["build"], {"/opt/rowtide": tmp_path / "installed", "/build": tmp_path / "build"})
    shutil.rmtree(tmp_path / "build")
    installed, data = tmp_path / "installed", tmp_path / "data"
    data.mkdir()
    with closing(sqlite3.connect(data / "shop.db")) as file:
        file.execute("create table item (id integer primary key)")
    environment = {
        "PATH": f"{installed / 'bin'}:{os.environ['PATH']}",
        JARS_FOLDER: str(installed / "spark-jars"),
        "XDG_CACHE_HOME": str(data / "cache"),
    }
    jars = {jar.name.partition("_delta-")[0] for jar in (installed / "spark-jars").iterdir()}
    assert len(jars) > 5

    for command in (("merge", "add-publication", "p"), ("merge", "add-article", "p", "item"), ("health",)):
        done = run([str(installed / "bin" / "rowtide"), *command, "--db", f"sqlite:///{data}/shop.db"], environment)
        assert done.returncode == 0, done
    if has_own_mounts():
        contained = tmp_path / "contained"
        contained.mkdir()
        require_running(contained, installed / "bin" / "python")
    started = "from rowtide.lake.session import build_session; build_session().range(3).collect()"
    done = run([str(installed / "bin" / "python"), "-c", started], environment)
    assert done.returncode == 0, done


def build(steps: list[Instruction], places: Mapping[str, Path]) -> None:
    """Run a stage's steps with some folders elsewhere."""

    def placed(text: str) -> str:
        for path, place in places.items():
            text = text.replace(path, str(place))
        return text

    folder = ROOT
    for step in steps:
        arguments = placed(step.arguments)
        match step.name:
            case "COPY":
                *sources, target = arguments.split()
                copy(sources, Path(target), is_folder=target.endswith("/"))
            case "WORKDIR":
                folder = Path(arguments)
            case "RUN":
                path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
                done = run(["sh", "-ec", arguments], {**os.environ, "PATH": path}, folder)
                assert done.returncode == 0, done


def copy(sources: list[str], target: Path, *, is_folder: bool) -> None:
    for source in (ROOT / source for source in sources):
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            assert is_folder
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def run(
    command: list[str], environment: Mapping[str, str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1500,
        stdin=subprocess.DEVNULL,
        check=False,
    )
