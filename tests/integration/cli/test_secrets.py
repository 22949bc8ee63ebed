"""No command and no error prints a password, whatever its URL looks like."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import pytest

from builders.commands.command_lines import rowtide
from builders.commands.command_tree import Command, commands
from rowtide.cli.exit_codes import runs_on

SECRET = "s3cr3t"
CLOSED = "127.0.0.1:1"
"""No server listens there."""
READ = (
    f"postgresql://me:{SECRET}@{CLOSED}/shop",
    f"host=127.0.0.1 port=1 password='{SECRET}' sslmode=nonsense",
    f"postgres://me@{CLOSED}/shop?password={SECRET}",
)
REFUSED = (
    f"postgresql+psycopg://me:x@{SECRET}@{CLOSED}/shop",
    f"postgresql://me@{CLOSED}/shop?sslpassword={SECRET}&nonsense=1",
    f"postgresql://me:{SECRET}@127.0.0.1:abc/shop",
    f"postgresql://me:1/{SECRET}@/x@{CLOSED}/shop",
    f"mysql://me:{SECRET}@{CLOSED}/shop",
    f"me:{SECRET}@{CLOSED}/shop",
    f"host=127.0.0.1 port=1 password='{SECRET}",
)
ASKED_FOR = {"instances": "public_orders", "once": "", "yes": "", "days": "1", "where": "id = 1"}
"""Beside what every call needs: without them a command would continue, ask or refuse."""
WALKED = [
    command
    for command in commands()
    if any(parameter.is_url for parameter in command.parameters)
    and command.words not in {("monitor", "serve"), ("top",), ("gateway", "serve")}
]
"""But the monitor, which waits for databases that it cannot reach."""


def is_agent(command: Command) -> bool:
    """Whether a command tries again to connect."""
    return command.words[-1] in ("run", "follow")


def all_of_them(command: Command) -> Sequence[str]:
    """Return every URL that a command is given; one that tries again to connect, fewer."""
    return (*(READ[:1] if is_agent(command) else READ), *REFUSED)


def in_turn(command: Command) -> Sequence[str]:
    """Return one that is read and one that is refused, not the same for all commands."""
    read = READ[:1] if is_agent(command) else READ
    turn = crc32(command.name.encode())
    return read[turn % len(read)], REFUSED[turn % len(REFUSED)]


@pytest.mark.parametrize("urls", [in_turn, pytest.param(all_of_them, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["plain", "debug"])
@pytest.mark.parametrize("command", WALKED, ids=lambda command: command.name)
def test_no_command_prints_the_password_of_a_url(
    command: Command, debug: tuple[str, ...], urls: Callable[[Command], Sequence[str]], tmp_path: Path
) -> None:
    names = {parameter.name for parameter in command.parameters}
    (tmp_path / "hub.db").touch()
    for url in urls(command):
        for db in (url, *[f"sqlite:///{tmp_path}/hub.db"] * ("subscriber" in names)):
            given = {name: value for name, value in ASKED_FOR.items() if name in names}
            ended = rowtide(*debug, *command.call({"db": db, "subscriber": url, **given}))

            assert SECRET not in ended.output + ended.errors, (url, ended)
            failed = {69, 78} if runs_on(command.words) and "once" not in given else {1}
            assert ended.code in ({2} if command.name == "health" else failed), (url, ended)
            if not (debug or is_agent(command) or command.name == "health"):
                assert ended.errors.splitlines()[-1].startswith("RT-"), (url, ended)
                assert ended.errors.count("RT-") == 1, (url, ended)


def test_a_traceback_shows_no_password_of_a_drivers_message() -> None:
    program = (
        "import rowtide.cli.main as cli\n"
        f"def app(_arguments): raise ValueError('no connection to postgresql://me:{SECRET}@host/shop')\n"
        "cli._run = app\n"
        "cli.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "ValueError: no connection to postgresql://me:***@host/shop" in ended.stderr
