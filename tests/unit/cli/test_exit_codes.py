"""Commands that run on tell a service manager by their exit code whether to start them again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rowtide.cli.exit_codes import ExitCode, code_of, code_of_usage, runs_on
from rowtide.configuration.errors import ConfigurationInvalid
from rowtide.core.errors import Remedy, RowtideError
from rowtide.databases.passwords import PasswordNotRead
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.lake.errors import SparkLost
from rowtide.log.errors import DatabaseNotEnabled, LeaseHeld

RUNNING_ON = (["agent", "run"], ["cdc", "run"], ["cdc", "apply", "t"], ["cdc", "follow", "i"], ["replication", "run"])


@pytest.mark.parametrize("arguments", RUNNING_ON, ids=lambda arguments: " ".join(arguments[:2]))
def test_a_command_that_runs_on_has_codes_of_its_own(arguments: Sequence[str]) -> None:
    assert code_of(ConnectionFailed("refused"), arguments) == 69
    assert code_of(PasswordNotRead("the file /pw", "it is empty"), arguments) == 69
    assert code_of(ConfigurationInvalid("/etc/rowtide/rowtide.toml", "x"), arguments) == 78
    assert code_of_usage(2, arguments) == 64
    assert code_of_usage(0, arguments) == ExitCode.STOPPED


@pytest.mark.parametrize(
    "arguments",
    [
        ["cdc", "run", "--once"],
        ["cdc", "follow", "i", "--idle-timeout=5"],
        ["replication", "run", "--once"],
        ["cdc", "scan"],
        ["merge", "sync"],
        [],
    ],
)
def test_a_command_that_ends_keeps_its_codes(arguments: Sequence[str]) -> None:
    assert not runs_on(arguments)
    assert code_of(ConnectionFailed("refused"), arguments) == 1
    assert code_of_usage(2, arguments) == 2


@pytest.mark.parametrize(
    ("error", "code"), [(LeaseHeld, 69), (SparkLost, 69), (DatabaseNotEnabled, 78), (ConnectionFailed, 69)]
)
def test_the_kind_of_error_decides(error: type[RowtideError], code: int) -> None:
    failed = error(*["x"] * len(error.field_names))
    failed.remedy = Remedy.STOP  # type: ignore[misc]  # as a log reader says of what it has retried

    assert code_of(failed, ["agent", "run"]) == code
