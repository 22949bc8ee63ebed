"""Short commands end with exit code 0, however often they are run: no library's thread aborts them at the end."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders.command_lines import rowtide_process
from builders.replicated_files import ReplicatedFile

COMMANDS = (
    ("cdc", "status"),
    ("cdc", "instances"),
    ("replication", "status"),
    ("replication", "browse-commands"),
)
AT_A_TIME = 4
"""Two cores are busy: what ends late is there when the interpreter ends."""


@pytest.mark.parametrize("runs", [20, pytest.param(500, marks=pytest.mark.soak)])
def test_short_commands_end_with_exit_code_0(replicated_file: ReplicatedFile, runs: int) -> None:
    replicated_file.begin("create table orders (id int primary key, qty int)", orders={})
    replicated_file.publisher.execute("insert into orders select i, i from generate_series(1, 1000) i")
    replicated_file.publisher.read_log()

    def end(number: int) -> str:
        command = COMMANDS[number % len(COMMANDS)]
        ended = rowtide_process(*command, "--db", replicated_file.publisher.url)
        return f"{' '.join(command)}: {ended.code}{ended.errors if ended.code else ''}"

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        ends = Counter(pool.map(end, range(runs)))

    assert ends == {f"{' '.join(command)}: 0": runs // len(COMMANDS) for command in COMMANDS}
