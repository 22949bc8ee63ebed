"""Commands go by the configuration file: databases by name, defaults of options, and what holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from builders.commands.command_lines import Ended, rowtide, rowtide_process
from builders.commands.configuration_files import write_file
from builders.tracking.tracked_databases import TrackedFile
from rowtide.cli.active_configuration import ChangingFile, _read, configuration, configure
from rowtide.cli.option_names import OPTION_NAMES
from rowtide.configuration.errors import ConfigurationNotRead
from rowtide.databases.passwords import list_accesses, register_accesses

ROOT = Path(__file__).parents[3]


@pytest.fixture
def file(tmp_path: Path, sqlite_file: TrackedFile, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file with a SQLite database `it's`, and a server that does not answer, `gone`."""
    text = f"""
[defaults]
format = "jsonl"
[databases."it's"]
url = "sqlite:///{sqlite_file.path}"
[databases.gone]
url = "postgresql://me@127.0.0.1:1/gone"
password = {{ file = "{tmp_path}/pw" }}
lake = "/data/gone"
"""
    path = write_file(tmp_path / "configuration", text)
    monkeypatch.setenv("ROWTIDE_CONFIG", str(path))
    monkeypatch.delenv("ROWTIDE_DB", raising=False)
    sqlite_file.enable()
    return path


def show(*arguments: str) -> dict[str, tuple[str | None, str]]:
    """Return what `config show` lists, by setting."""
    shown = rowtide(*arguments, "config", "show", "--format", "jsonl")
    assert shown.code == 0, shown
    return {row["setting"]: (row["value"], row["origin"]) for row in map(json.loads, shown.output.splitlines())}


def options_of_t(ended: Ended) -> list[str]:
    assert ended.code == 0, ended
    return [json.loads(line)["table"] for line in ended.output.splitlines()]


def test_a_database_is_found_by_its_name(file: Path) -> None:
    assert options_of_t(rowtide("tracking", "options", "--db", "it's")) == ["t"]
    assert options_of_t(rowtide("tracking", "options", "--db=it's", f"--config={file}")) == ["t"]


def test_an_option_precedes_the_environment_and_that_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(file.read_text().replace("[defaults]", '[defaults]\ndb = "it\'s"'))
    assert options_of_t(rowtide("tracking", "options")) == ["t"]

    monkeypatch.setenv("ROWTIDE_DB", "gone")
    rowtide("tracking", "options").require_error(1165)

    assert options_of_t(rowtide("tracking", "options", "--db", "it's")) == ["t"]


def test_the_only_database_of_a_file_is_not_taken_unasked(file: Path) -> None:
    file.write_text('[databases.shop]\nurl = "sqlite:////data/shop.db"\n')

    assert rowtide("health").code == 2


def test_a_name_that_the_file_lacks_is_an_error_with_the_nearest(file: Path) -> None:
    line = rowtide("tracking", "options", "--db", "its").require_error(1163)

    assert f'{file} has no database "its"; did you mean "it\'s"?' in line


def test_a_subscriber_is_found_by_its_name(file: Path) -> None:
    failed = rowtide("merge", "pending", "p", "--subscriber", "other", "--db", "it's")

    assert failed.require_error(1163).startswith("RT-1163: the configuration file")


def test_the_lake_of_a_database_is_its_commands_default(file: Path, tmp_path: Path) -> None:
    (tmp_path / "pw").touch(mode=0o600)
    (tmp_path / "pw").write_text("s3cr3t")

    failed = rowtide("cdc", "enable-db", "--db", "gone")

    assert "--lake" not in failed.errors
    assert failed.require_error(1101)


def test_a_default_that_an_option_refuses_is_named_with_its_file(file: Path) -> None:
    file.write_text(file.read_text().replace('format = "jsonl"', 'format = "xml"'))

    failed = rowtide("tracking", "options", "--db", "it's")

    assert failed.code == 2
    assert f"defaults.format of {file}" in failed.errors


def test_one_text_is_one_value_of_an_option_that_repeats(file: Path) -> None:
    file.write_text('[defaults]\nspark-conf = "nonsense"\n')

    failed = rowtide("cdc", "apply", "--once", "--db", "postgresql://me@127.0.0.1:1/gone")

    assert failed.code == 2
    assert "nonsense" in failed.errors


def test_an_option_that_no_command_has_is_an_error(file: Path) -> None:
    file.write_text(file.read_text().replace("format", "formt"))

    assert 'unknown option "formt"; did you mean "format"?' in rowtide("cdc", "jobs").require_error(1162)


@pytest.mark.parametrize("option", ["yes", "once"])
def test_consent_is_not_given_by_a_file(option: str, file: Path) -> None:
    file.write_text(f"[defaults]\n{option} = true\n")

    assert f'unknown option "{option}"' in rowtide("cdc", "jobs").require_error(1162)


def test_what_holds_is_shown_with_its_origin(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown = show()
    assert shown["file"] == (str(file), "ROWTIDE_CONFIG")
    assert shown["log.level"] == (None, "default")
    assert shown["defaults.format"] == ("jsonl", f"{file}:3")
    assert shown['databases."it\'s".url'][1] == f"{file}:5"
    assert shown["databases.gone.password"] == (f"*** (the file {tmp_path}/pw)", f"{file}:8")
    assert "defaults.db" not in shown

    monkeypatch.setenv("ROWTIDE_DB", "postgresql://me:s3cr3t@db1/shop")

    assert show()["defaults.db"] == ("postgresql://me:***@db1/shop", "ROWTIDE_DB")
    assert show("--config", os.devnull)["file"] == (None, "default")


def test_help_is_there_whatever_the_file_says(file: Path) -> None:
    file.write_text("[")

    assert rowtide("cdc", "jobs", "--help").code == 0
    assert rowtide("--version").code == 0
    rowtide("cdc", "jobs").require_error(1160)


def test_a_command_that_runs_on_tells_what_is_to_be_done(file: Path, tmp_path: Path) -> None:
    (tmp_path / "pw").touch(mode=0o600)
    (tmp_path / "pw").write_text("s3cr3t")

    usage = rowtide_process("cdc", "run", "--nonsense")
    unreachable = rowtide_process("cdc", "follow", "i", "--db", "gone")
    file.chmod(0o666)
    configuration = rowtide_process("cdc", "run", "--db", "gone")

    assert (usage.code, unreachable.code, configuration.code) == (64, 69, 78)
    assert "s3cr3t" not in unreachable.errors


def test_the_names_of_options_are_those_of_the_commands() -> None:
    script = ROOT / "scripts" / "option_names.py"
    made = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)

    assert (ROOT / "src" / "rowtide" / "cli" / "option_names.py").read_text() == made.stdout
    assert {"group", "retention", "db"} <= OPTION_NAMES


def test_the_gateway_has_a_section_of_its_own(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '[gateway]\ndb = ["nowhere"]\nlisten = "nonsense"\nmax-rows = 0\n[defaults]\nmax-rows = 5\n'
    file.write_text(text)
    assert {name: one for name, one in show().items() if name.startswith("gateway.")} == {
        "gateway.db": ("nowhere", f"{file}:2"),
        "gateway.listen": ("nonsense", f"{file}:3"),
        "gateway.max-rows": ("0", f"{file}:4"),
    }
    assert f"gateway.max-rows of {file}" in rowtide("gateway", "serve").errors
    rowtide("gateway", "serve", "--max-rows", "7").require_error(1163)
    # The environment's database precedes the file's.
    monkeypatch.setenv("ROWTIDE_DB", "sqlite:////gone.db")
    assert "nonsense" in rowtide("gateway", "serve", "--max-rows", "7").errors


def test_a_file_that_changes_is_read_again_by_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = '[databases.shop]\nurl = "postgresql://watch@db1/shop"\n'
    path = write_file(tmp_path / "changing", section)
    monkeypatch.delenv("ROWTIDE_CONFIG", raising=False)
    configure(str(path))
    try:
        changing = ChangingFile()
        assert changing.read_again() is None
        write_file(path.parent, f'{section}operator_url = "postgresql://anna@db1/shop"\n')
        found = changing.read_again()
        assert found is not None
        assert str(found.databases["shop"].operator_url) == "postgresql://anna@db1/shop"
        assert [one.url.parameters.get("user") for one in list_accesses()] == ["watch", "anna"]
        write_file(path.parent, "[databases")
        with pytest.raises(ConfigurationNotRead):
            changing.read_again()
        # It is said once, and what was read before stays in force.
        assert changing.read_again() is None
        assert configuration() == found
        path.unlink()
        assert changing.read_again() is None
    finally:
        _read.clear()
        register_accesses(())
