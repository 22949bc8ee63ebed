"""Exit codes. Pure.

Those of commands that run until they are stopped tell a service manager whether to restart them; the numbers are those
of sysexits.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from rowtide.core.errors import Remedy, RowtideError


class ExitCode(IntEnum):
    """Exit codes of long-running commands."""

    STOPPED = 0
    """By a signal."""
    USAGE = 64
    """The command line is wrong (EX_USAGE)."""
    UNAVAILABLE = 69
    """A resource cannot be reached, or is held by another process: restart the command (EX_UNAVAILABLE)."""
    NEEDS_PERSON = 78
    """The configuration is wrong, or a person must act: a restart would fail again (EX_CONFIG)."""


FAILED = 1
WRONG_USAGE = 2
_RUNNING_ON = (
    ("agent", "run"),
    ("cdc", "apply"),
    ("cdc", "follow"),
    ("cdc", "run"),
    ("gateway", "serve"),
    ("monitor", "serve"),
    ("replication", "run"),
)
_ENDING = ("--once", "--idle-timeout")
"""Options with which such a command ends by itself."""
_BY_REMEDY = {
    Remedy.RETRY: ExitCode.UNAVAILABLE,
    Remedy.REGAIN: ExitCode.UNAVAILABLE,
    Remedy.RESTART: ExitCode.UNAVAILABLE,
    Remedy.STOP: ExitCode.NEEDS_PERSON,
}


def runs_on(arguments: Sequence[str]) -> bool:
    """Return whether a command line is that of a command that runs until it is stopped."""
    return tuple(arguments[:2]) in _RUNNING_ON and not any(
        argument.partition("=")[0] in _ENDING for argument in arguments
    )


def code_of(error: RowtideError, arguments: Sequence[str]) -> int:
    """Return the exit code for an error."""
    return code_when_running_on(error) if runs_on(arguments) else FAILED


def code_when_running_on(error: RowtideError) -> ExitCode:
    """Return the exit code of a long-running command for an error."""
    # The remedy of the class: the error itself says "stop" once an agent has given up retrying.
    return _BY_REMEDY[type(error).remedy]


def code_of_usage(code: int, arguments: Sequence[str]) -> int:
    """Return the exit code for one of click's."""
    return ExitCode.USAGE if code == WRONG_USAGE and runs_on(arguments) else code
