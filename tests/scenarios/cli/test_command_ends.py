"""Short commands end with exit code 0, however often they are run: no library's thread aborts them at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide_process
from builders.replication.replicated_files import ReplicatedFile

COMMANDS = (
    ("cdc", "status"),
    ("cdc", "instances"),
    ("replication", "status"),
    ("replication", "browse-commands"),
)
LSNS = (("cdc", "lsn", "min", "public_orders"), ("cdc", "lsn", "max"))
AT_A_TIME = 4
"""Two cores are busy: what ends late is there when the interpreter ends."""


@pytest.mark.parametrize(
    "runs", [len(COMMANDS), pytest.param(20, marks=pytest.mark.exhaustive), pytest.param(500, marks=pytest.mark.soak)]
)
def test_short_commands_end_with_exit_code_0(replicated_file: ReplicatedFile, runs: int) -> None:
    replicated_file.begin("create table orders (id int primary key, qty int)", orders={})
    replicated_file.publisher.execute("insert into orders select i, i from generate_series(1, 1000) i")
    replicated_file.publisher.read_log()

    assert run(COMMANDS, replicated_file.publisher.url, runs) == {
        f"{' '.join(command)}: 0": runs // len(COMMANDS) for command in COMMANDS
    }


@pytest.mark.soak
def test_lsns_end_with_exit_code_0(captured: CapturedDatabase) -> None:
    captured.execute("create table orders (id int primary key)")
    captured.enable("orders")
    captured.execute("insert into orders values (1)")
    captured.capture()

    assert run(LSNS, captured.url, 50) == {f"{' '.join(command)}: 0": 25 for command in LSNS}


def run(commands: Sequence[tuple[str, ...]], url: str, runs: int) -> Counter[str]:
    """Run commands in turn, and count how each ended."""

    def end(number: int) -> str:
        command = commands[number % len(commands)]
        ended = rowtide_process(*command, "--db", url)
        return f"{' '.join(command)}: {ended.code}{ended.errors if ended.code else ''}"

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        return Counter(pool.map(end, range(runs)))
