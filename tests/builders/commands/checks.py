"""Doing what a finding says: its statements in the database, its commands in this process."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import DEADLINE_S, wait_until
from builders.commands.command_lines import rowtide
from builders.commands.command_tree import commands
from rowtide.diagnosis.result import Advice, CheckResult, ShellCommand, Sql, State


def matching(findings: Iterable[CheckResult], words: str) -> list[CheckResult]:
    """Return the findings in whose subject or fact the words are."""
    return [finding for finding in findings if words in f"{finding.subject}: {finding.message}"]


def only(findings: Iterable[CheckResult], words: str) -> CheckResult:
    """Return the one finding in whose subject or fact the words are."""
    found = matching(findings, words)
    assert len(found) == 1, (words, list(findings))
    return found[0]


def stopping(findings: Iterable[CheckResult]) -> list[CheckResult]:
    return [finding for finding in findings if finding.state is State.FAILING]


def run_mend(finding: CheckResult, url: str, environment: Mapping[str, str] | None = None) -> None:
    """Run the statements or commands exactly as they are printed, on the database of a URL."""
    match finding.remediation:
        case Sql():
            run_statements(finding.remediation, url)
        case ShellCommand():
            run_line(finding.remediation, url, environment)
        case _:
            pytest.fail(f"nothing to run: {finding}")


def printed_command(finding: CheckResult, **chosen: str) -> ShellCommand:
    """Return the command within an advice, with what its reader puts for the words in capitals."""
    assert isinstance(finding.remediation, Advice), finding
    found = re.search(r"`(rowtide [^`]+)`", finding.remediation.text)
    assert found is not None, finding
    words = [chosen.get(word, word) for word in shlex.split(found[1])]
    assert set(chosen.values()) <= set(words), finding
    return ShellCommand(shlex.join(words))


def run_line(mend: ShellCommand, url: str, environment: Mapping[str, str] | None = None) -> None:
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


_ASKING = {command.words for command in commands() if any(one.option == "--yes" for one in command.parameters)}


def answered(words: Sequence[str]) -> Sequence[str]:
    """Return the words of a command, with the option by which one that may ask does not: there is nobody to answer."""
    asks = any(tuple(words[1 : 1 + len(names)]) == names for names in _ASKING)
    return [*words, "--yes"] if asks and "--yes" not in words else words


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
        ended = rowtide(*answered(words)[1:])
    assert ended.code == 0, ended


def run_until(mend: ShellCommand, url: str, is_met: Callable[[], bool], *, what: str) -> None:
    """Run a command that continues for ever, as it is printed, until it has helped."""
    words = shlex.split(mend.line)
    assert words[0] == "rowtide", mend
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        env={**os.environ, "ROWTIDE_DB": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: is_met() or process.poll() is not None, what=what)
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert is_met(), errors
