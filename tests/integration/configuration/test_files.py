"""Where a configuration file is found, and when it is not trusted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from builders.commands.configuration_files import write_file
from rowtide.configuration.errors import ConfigurationNotRead, ConfigurationNotTrusted
from rowtide.configuration.parsing import FoundFile, find_file, read_file

OTHER_USER = 54321


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file belong to another user; who is not root becomes another user instead."""
    if os.geteuid() == 0:
        os.chown(path, OTHER_USER, -1, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER)


def test_the_first_place_that_has_a_file_is_taken(tmp_path: Path) -> None:
    named, of_variable = write_file(tmp_path / "a", ""), write_file(tmp_path / "b", "")
    of_user = write_file(tmp_path / "c" / "rowtide", "")
    environment = {"ROWTIDE_CONFIG": str(of_variable), "XDG_CONFIG_HOME": str(tmp_path / "c")}

    assert find_file(str(named), environment) == FoundFile(str(named), "--config")
    assert find_file(None, environment) == FoundFile(str(of_variable), "ROWTIDE_CONFIG")
    assert find_file(None, environment | {"ROWTIDE_CONFIG": ""}) == FoundFile(str(of_user), str(of_user))


def test_a_file_of_the_current_folder_is_never_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (".", "rowtide", ".config/rowtide", "~/.config/rowtide"):
        write_file(tmp_path / folder, "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rowtide.configuration.parsing._FOR_ALL_USERS", tmp_path / "none" / "rowtide.toml")

    assert find_file(None, {"XDG_CONFIG_HOME": "."}) is None
    for home in ("", "."):
        monkeypatch.setenv("HOME", home)
        assert find_file(None, {}) is None
    with pytest.raises(ConfigurationNotRead, match="must be a path from the root"):
        find_file(None, {"ROWTIDE_CONFIG": "rowtide.toml"})


def test_without_home_the_place_of_all_users_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for_all = write_file(tmp_path, "")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: OTHER_USER)
    monkeypatch.setattr("rowtide.configuration.parsing._FOR_ALL_USERS", for_all)

    assert find_file(None, {}) == FoundFile(str(for_all), str(for_all))


def test_the_null_device_stands_for_no_file(tmp_path: Path) -> None:
    write_file(tmp_path / "rowtide", "")

    assert find_file(None, {"ROWTIDE_CONFIG": os.devnull, "XDG_CONFIG_HOME": str(tmp_path)}) is None
    assert find_file(os.devnull, {}) is None


def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationNotRead, match="it does not exist"):
        find_file(str(tmp_path / "none.toml"), {})


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o622])
def test_a_file_that_others_may_write_is_refused(mode: int, tmp_path: Path) -> None:
    path = write_file(tmp_path, "")
    path.chmod(mode)

    with pytest.raises(ConfigurationNotTrusted, match=f"others may write to it \\(mode 0{mode:o}\\)"):
        read_file(str(path))


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_file_in_a_folder_that_others_may_write_is_refused(mode: int, tmp_path: Path) -> None:
    path = write_file(tmp_path / "shared", "")
    path.parent.chmod(mode)

    with pytest.raises(ConfigurationNotTrusted, match="others may write to its folder"):
        read_file(str(path))


def test_a_link_to_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = write_file(tmp_path / "theirs", "")
    link = write_file(tmp_path / "own", "")
    link.unlink()
    link.symlink_to(theirs)
    assert read_file(str(link)) == ""

    give_away(theirs, monkeypatch)

    with pytest.raises(ConfigurationNotTrusted, match=f"it belongs to the user with ID {theirs.stat().st_uid}"):
        read_file(str(link))


def test_a_link_into_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = write_file(tmp_path / "theirs", "")
    link = tmp_path / "rowtide.toml"
    link.symlink_to(theirs)

    give_away(theirs.parent, monkeypatch)

    with pytest.raises(ConfigurationNotTrusted, match="belongs to the user with ID"):
        read_file(str(link))


def test_a_link_in_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "shared" / "rowtide.toml"
    link.parent.mkdir()
    link.parent.chmod(0o777)
    link.symlink_to(write_file(tmp_path / "own", ""))

    with pytest.raises(ConfigurationNotTrusted, match="others may write to its folder"):
        read_file(str(link))


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rowtide.toml", 0o600)

    with pytest.raises(ConfigurationNotRead, match="it is not a regular file"):
        read_file(str(tmp_path / "rowtide.toml"))


def test_a_mark_of_utf_8_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    path = write_file(tmp_path, "")
    path.write_bytes(b"\xef\xbb\xbf[log]\r\nlevel = 'info'\r\n")

    assert read_file(str(path)) == "[log]\nlevel = 'info'\n"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[log]\n".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        ("[log]\n# é\n".encode("latin-1"), "line 2 is not UTF-8"),
    ],
)
def test_other_encodings_are_named(content: bytes, reason: str, tmp_path: Path) -> None:
    path = write_file(tmp_path, "")
    path.write_bytes(content)

    with pytest.raises(ConfigurationNotRead, match=reason):
        read_file(str(path))


def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_file(tmp_path / "closed" / "rowtide", "").parent
    if os.geteuid() == 0:
        os.chown(path.parent, OTHER_USER, -1)
        monkeypatch.setattr(os, "lstat", _refused)
    path.parent.chmod(0)
    try:
        with pytest.raises(ConfigurationNotRead, match="Permission denied"):
            find_file(None, {"XDG_CONFIG_HOME": str(path.parent)})
    finally:
        path.parent.chmod(0o700)


def _refused(_path: str) -> os.stat_result:
    # Root may read everything.
    raise PermissionError(13, "Permission denied")
