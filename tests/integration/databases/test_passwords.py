"""Passwords are read where they are kept, each time, and appear nowhere else."""

from __future__ import annotations

import os
import pickle
import sys
import time
from pathlib import Path

import pytest

from builders.commands.configuration_files import write_secret
from rowtide.databases.passwords import (
    Access,
    CommandPassword,
    EnvironmentPassword,
    FilePassword,
    PasswordFileNotPrivate,
    PasswordNotRead,
    PasswordSource,
    find_replication_url,
    list_accesses,
    read_password,
    register_accesses,
)
from rowtide.databases.urls import parse_url

ODD = "@:/?#%' \"\\é"
PRINT = "import sys; sys.stdout.write({!r})"


def printing(text: str) -> CommandPassword:
    return CommandPassword((sys.executable, "-c", PRINT.format(text)))


def test_every_character_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PW", ODD)
    file = write_secret(tmp_path / "pw", f"{ODD}\n")

    for source in (EnvironmentPassword("SHOP_PW"), FilePassword(str(file)), printing(f"{ODD}\n")):
        assert source.read() == ODD


def test_a_replaced_file_counts_at_the_next_reading(tmp_path: Path) -> None:
    source = FilePassword(str(write_secret(tmp_path / "pw", "one")))
    assert source.read() == "one"

    write_secret(tmp_path / "pw", "two\r\n")

    assert source.read() == "two"


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o660, 0o601])
def test_a_file_that_others_may_use_is_refused(mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_secret(tmp_path / "pw", "s3cr3t")
    if os.geteuid() == 0:
        os.chown(path, 54321, -1)
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    path.chmod(mode)

    with pytest.raises(PasswordFileNotPrivate, match=f"its mode is 0{mode:o}"):
        FilePassword(str(path)).read()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to root")
def test_the_group_may_read_a_file_of_root(tmp_path: Path) -> None:
    path = write_secret(tmp_path / "pw", "s3cr3t")
    path.chmod(0o440)
    assert FilePassword(str(path)).read() == "s3cr3t"

    for mode in (0o644, 0o660):
        path.chmod(mode)
        with pytest.raises(PasswordFileNotPrivate):
            FilePassword(str(path)).read()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"\n", "empty"), (b"a\nb\n", "2 lines"), (b"\xff", "not UTF-8"), (b"a\0b", "null character")],
)
def test_what_is_no_password_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(PasswordNotRead, match=reason):
        FilePassword(str(write_secret(tmp_path / "pw", content))).read()


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (EnvironmentPassword("ROWTIDE_NOT_SET"), "environment variable ROWTIDE_NOT_SET: it is not set"),
        (FilePassword("/nowhere/pw"), "No such file"),
        (FilePassword("/tmp"), "it is not a regular file|Is a directory"),
        (printing(""), "it is empty"),
        (CommandPassword((sys.executable, "-c", "raise SystemExit(3)", "s3cr3t")), "ended with exit code 3"),
        (CommandPassword(("/nowhere/pass", "s3cr3t")), "the command /nowhere/pass: No such file"),
    ],
)
def test_what_cannot_be_read_is_named(source: PasswordSource, reason: str) -> None:
    with pytest.raises(PasswordNotRead, match=reason) as raised:
        source.read()

    assert "s3cr3t" not in f"{raised.value} {source!r} {source}"


def test_a_command_without_end_is_ended_with_what_it_started(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    script = f"sleep 600 & echo $! > {started}; echo s3cr3t; wait"
    before = time.monotonic()

    with pytest.raises(PasswordNotRead, match="not ended after 0.5 s"):
        CommandPassword(("/bin/sh", "-c", script), deadline_s=0.5).read()

    assert time.monotonic() - before < 10
    child = Path(f"/proc/{started.read_text().strip()}/stat")
    assert not child.exists() or child.read_text().split()[2] == "Z"


def test_a_command_gets_the_first_line_alone_and_no_input() -> None:
    script = "import sys; print(sys.stdin.read() or 'first'); print('user: me')"

    assert CommandPassword((sys.executable, "-c", script)).read() == "first"


def test_a_password_is_found_by_the_url_without_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PW", "s3cr3t")
    url = parse_url("postgresql://me@pooler/shop")
    access = Access(url, EnvironmentPassword("SHOP_PW"), parse_url("postgresql://me@db1/shop"))
    try:
        register_accesses([access])

        assert read_password(parse_url("postgres://me@pooler/shop")) == "s3cr3t"
        assert read_password(parse_url("postgresql://me@db1/shop")) == "s3cr3t"
        assert read_password(parse_url("postgresql://me:own@pooler/shop")) == "own"
        assert read_password(parse_url("postgresql://you@pooler/shop")) is None
        assert find_replication_url("postgresql://me@pooler/shop") == parse_url("postgresql://me@db1/shop")
        assert find_replication_url("postgresql://me@db1/shop") == parse_url("postgresql://me@db1/shop")
        assert pickle.loads(pickle.dumps(list_accesses())) == (access,)
        assert b"s3cr3t" not in pickle.dumps(list_accesses())
    finally:
        register_accesses([])
