"""Shells complete commands, options, and names that were listed, without features and without a connection."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rowtide.cdc.introspection import ListedInstance
from rowtide.cli.output.completion_names import known_names, remember

DB = "postgresql://me:secret@nowhere.invalid/shop"
_COMPLETE = """
import os, sys
from rowtide.cli.main import main
from importlib import import_module
import socket
def refuse(*_given):
    raise AssertionError("a connection")
socket.socket.connect = refuse
try:
    main()
finally:
    heavy = {"numpy", "psycopg", "pyarrow", "pyspark", "rich", "sqlalchemy", "structlog", "rowtide.cdc.api"}
    print(*sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


class Named:
    """A row of a listing."""

    def __init__(self, capture_instance: str) -> None:
        self.capture_instance = capture_instance


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("ROWTIDE_DB", raising=False)
    return tmp_path / "cache"


def complete(*words: str, shell: str = "bash") -> Sequence[str]:
    """Return what completes the last of the words."""
    line = " ".join(["rowtide", *words])
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words)), "_ROWTIDE_COMPLETE": f"{shell}_complete"}
    ended = subprocess.run(
        [sys.executable, "-c", _COMPLETE], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    assert ended.stderr.strip() == ""
    return [one.partition(",")[2] for one in ended.stdout.splitlines() if one]


def test_commands_and_options_are_completed(cache: Path) -> None:
    assert complete("replication", "add-s") == ["add-schema", "add-subscription"]
    assert complete("cdc", "run", "--log-") == ["--log-format", "--log-level", "--log-destination"]
    assert not cache.exists()


def test_names_are_those_of_the_last_listing(cache: Path) -> None:
    remember(ListedInstance, [Named("public_old")], DB)
    hostile = ["public_two\nlines", "postgresql://a:secret@b/c", "\x1b[2J"]
    remember(ListedInstance, [*map(Named, ["public_orders", "public_items", "sales_orders", *hostile])], DB)

    assert complete("cdc", "columns", "--db", DB, "public_") == ["public_orders", "public_items"]
    (kept,) = cache.rglob("*.json")
    assert "secret" not in f"{kept} {kept.read_text()}"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept, kept.parent)] == [0o600, 0o700]


def test_a_database_is_known_whatever_its_password(cache: Path) -> None:
    remember(ListedInstance, [Named("public_orders")], DB)

    assert known_names(DB.replace("secret", "other"), "cdc", "capture_instance") == ["public_orders"]
    assert known_names(DB.replace("shop", "other"), "cdc", "capture_instance") == []
    assert known_names(DB, "merge", "capture_instance") == []


@pytest.mark.parametrize("content", ["", "[1]", '{"cdc capture_instance": 5}', "\udcff"])
def test_a_damaged_cache_has_no_names(cache: Path, content: str) -> None:
    remember(ListedInstance, [Named("public_orders")], DB)
    (kept,) = cache.rglob("*.json")
    kept.write_bytes(content.encode("utf-8", "surrogateescape"))

    assert known_names(DB, "cdc", "capture_instance") == []
    remember(ListedInstance, [Named("public_orders")], DB)
    assert json.loads(kept.read_text()) == {"cdc capture_instance": ["public_orders"]}


def test_a_cache_that_cannot_be_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    remember(ListedInstance, [Named("public_orders")], DB)

    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "")
    remember(ListedInstance, [Named("public_orders")], DB)
    assert known_names(DB, "cdc", "capture_instance") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_takes_its_script(shell: str, tmp_path: Path) -> None:
    """A shell that is not installed cannot judge its script; that it asks rowtide is judged for all."""
    command = [sys.executable, "-m", "rowtide", "completion", shell]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    script = tmp_path / "script"
    script.write_text(made.stdout)

    assert f"_ROWTIDE_COMPLETE={shell}_complete" in made.stdout
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n", str(script)], check=True)


def test_bash_completes_a_command_line(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "rowtide").write_text(f'#!/bin/sh\nexec {sys.executable} -m rowtide "$@"\n')
    (tmp_path / "rowtide").chmod(0o755)
    script = """
eval "$(rowtide completion bash)"
COMP_WORDS=(rowtide cdc inst) COMP_CWORD=2
_rowtide_completion rowtide inst cdc
echo "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    ended = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)

    assert (ended.stdout, ended.stderr) == ("instances\n", "")
