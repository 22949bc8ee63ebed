"""Exit codes. Pure.

Commands that run until they are stopped say by them whether to start them again: sysexits.h has the numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from rowtide.core.errors import Remedy, RowtideError


class ExitCode(IntEnum):
    """How a command that runs on has ended."""

    STOPPED = 0
    """By a signal."""
    USAGE = 64
    """The command line is wrong (EX_USAGE)."""
    UNAVAILABLE = 69
    """What it needs cannot be reached, or is held by another process: start it again (EX_UNAVAILABLE)."""
    NEEDS_PERSON = 78
    """The configuration is wrong, or a person must act: it would end in the same way again (EX_CONFIG)."""


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
"""Options by which such a command ends by itself."""
_BY_REMEDY = {
    Remedy.RETRY: ExitCode.UNAVAILABLE,
    Remedy.REGAIN: ExitCode.UNAVAILABLE,
    Remedy.RESTART: ExitCode.UNAVAILABLE,
    Remedy.STOP: ExitCode.NEEDS_PERSON,
}


def runs_on(arguments: Sequence[str]) -> bool:
    """Return whether a command line is of a command that runs until it is stopped."""
    return tuple(arguments[:2]) in _RUNNING_ON and not any(
        argument.partition("=")[0] in _ENDING for argument in arguments
    )


def code_of(error: RowtideError, arguments: Sequence[str]) -> int:
    """Return the exit code of a command that an error has ended."""
    return code_when_running_on(error) if runs_on(arguments) else FAILED


def code_when_running_on(error: RowtideError) -> ExitCode:
    """Return how a command that runs on ends with an error."""
    # Of the class: an agent that has retried says of the error itself that it stops.
    return _BY_REMEDY[type(error).remedy]


def code_of_usage(code: int, arguments: Sequence[str]) -> int:
    """Return the exit code of a command that has ended with click's."""
    return ExitCode.USAGE if code == WRONG_USAGE and runs_on(arguments) else code
