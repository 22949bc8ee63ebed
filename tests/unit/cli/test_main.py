"""The log reader of a run begins before the command line is parsed, with the database that the parser will find."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from rowtide.cli.active_configuration import find_database

SHOP, OTHER = "postgresql://localhost/shop", "postgresql://localhost/other"
_RUN = """
import sys
from rowtide.agents import log_reader_process
from rowtide.cli.main import main
def note(url):
    print(f"reads {url}", "click" in sys.modules, flush=True)
log_reader_process.begin_reading = note
main()
"""


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--once", "--db", SHOP], SHOP),
        ([f"--db={SHOP}", "--once"], SHOP),
        (["--db", OTHER, "--db", SHOP], SHOP),
        (["--once"], "sqlite:///of/the/environment"),
        (["--once", "--db"], "sqlite:///of/the/environment"),
        (["--subscriber", OTHER, "--db", SHOP], SHOP),
    ],
)
def test_the_last_database_that_is_named_is_read(
    arguments: Sequence[str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWTIDE_DB", "sqlite:///of/the/environment")

    assert find_database(["replication", "run", *arguments]) == found


def begins(*arguments: str) -> str:
    ended = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=False)
    return "\n".join(line for line in ended.stdout.splitlines() if line.startswith("reads"))


@pytest.mark.parametrize(
    "command",
    [("replication", "run", "--once", "--streams", "none"), ("cdc", "run", "--engine", "no"), ("cdc", "scan", "--no")],
)
def test_a_run_reads_before_its_parser_is_imported(command: Sequence[str]) -> None:
    assert begins("--debug", *command, "--db", SHOP) == f"reads {SHOP} False"


@pytest.mark.parametrize(
    "arguments",
    [
        ("replication", "run", "--help", "--db", SHOP),
        ("replication", "run", "--once"),
        ("cdc", "status", "--db", "sqlite:///nowhere/there"),
        ("replication", "status", "--db", "sqlite:///nowhere/there"),
        ("--help",),
    ],
)
def test_no_other_command_reads(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROWTIDE_DB", raising=False)

    assert begins(*arguments) == ""
