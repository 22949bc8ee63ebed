"""The steps of the container file, run in a folder of the test where no image can be built."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

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
