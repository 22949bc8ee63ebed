"""Doing what a finding says: its statements in the database, its commands in this process."""

from __future__ import annotations

import os
import shlex
import sqlite3
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.commands.command_lines import rowtide
from rowtide.findings.finding import Command, Finding, Severity, Sql


def matching(findings: Iterable[Finding], words: str) -> list[Finding]:
    """Return the findings in whose subject or fact the words are."""
    return [finding for finding in findings if words in f"{finding.subject}: {finding.fact}"]


def only(findings: Iterable[Finding], words: str) -> Finding:
    """Return the one finding in whose subject or fact the words are."""
    found = matching(findings, words)
    assert len(found) == 1, (words, list(findings))
    return found[0]


def stopping(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.severity is Severity.STOPS]


def run_mend(finding: Finding, url: str, environment: Mapping[str, str] | None = None) -> None:
    """Run the statements or commands exactly as they are printed, on the database of a URL."""
    match finding.mend:
        case Sql():
            run_statements(finding.mend, url)
        case Command():
            run_line(finding.mend, url, environment)
        case _:
            pytest.fail(f"nothing to run: {finding}")


def run_line(mend: Command, url: str, environment: Mapping[str, str] | None = None) -> None:
    """Run commands as they are printed, on the database of a URL."""
    for words in _split(shlex.split(mend.line)):
        _run(words, url, environment or {})


def run_statements(mend: Sql, url: str) -> None:
    """Run each printed statement by itself, as the databases' own programs do."""
    _RUN[make_url(url).get_backend_name()](url, mend.statements)


def _run_in_postgres(url: str, statements: Sequence[str]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def _run_in_sqlite(url: str, statements: Sequence[str]) -> None:
    with closing(sqlite3.connect(make_url(url).database or "", isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


_RUN = {"postgresql": _run_in_postgres, "sqlite": _run_in_sqlite}


def _split(words: Sequence[str]) -> Iterable[Sequence[str]]:
    while "&&" in words:
        end = words.index("&&")
        yield words[:end]
        words = words[end + 1 :]
    yield words


def _run(words: Sequence[str], url: str, environment: Mapping[str, str]) -> None:
    if words[0] != "rowtide":
        subprocess.run(words, env={**os.environ, **environment}, check=True, capture_output=True)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROWTIDE_DB", url)
        # There is nobody to be asked.
        ended = rowtide(*words[1:], *(["--yes"] if words[1:3] == ["cdc", "reinitialize"] else []))
    assert ended.code == 0, ended
