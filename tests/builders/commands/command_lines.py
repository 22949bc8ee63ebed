"""The `rowtide` command in this process: its exit code and what it printed, as a shell would see them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO

from rowtide.cli.exit_codes import FAILED, ExitCode, runs_on
from rowtide.cli.main import run_command


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    errors: str
    error_codes: tuple[int, ...] = field(default=(FAILED,), compare=False)
    """The exit codes that an error may give the command."""

    def require_error(self, number: int, code: int | None = None) -> str:
        """Return the one line that an error of the user's or the environment's prints."""
        assert self.code in (self.error_codes if code is None else (code,)), self
        assert self.output == "", self
        lines = self.errors.splitlines()
        assert len(lines) == 1, self.errors
        assert lines[0].startswith(f"RT-{number}: "), self.errors
        return lines[0]


def rowtide(*arguments: str) -> Ended:
    """Run a command in this process, where Spark may be running already."""
    output, errors = StringIO(), StringIO()
    with _signals_kept(), redirect_stdout(output), redirect_stderr(errors):
        code = run_command(arguments)
    return Ended(code, output.getvalue(), errors.getvalue(), _error_codes(arguments))


def rowtide_process(*arguments: str, environment: Mapping[str, str] | None = None) -> Ended:
    """Run a command in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", "rowtide", *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr, _error_codes(arguments))


def _error_codes(arguments: Sequence[str]) -> tuple[int, ...]:
    return (ExitCode.UNAVAILABLE, ExitCode.NEEDS_PERSON) if runs_on(arguments) else (FAILED,)


@contextmanager
def _signals_kept() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
