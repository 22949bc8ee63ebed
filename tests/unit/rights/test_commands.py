"""The table of grants has every command."""

from __future__ import annotations

import re

from builders.commands.command_tree import commands
from rowtide.rights.commands import AS_OTHERS, COMMANDS, WITHOUT_RIGHTS


def test_every_command_is_in_the_table_of_grants_once() -> None:
    rows = [re.sub(r" ([A-Z]+ ?)+$| --as \w+$", "", row.command) for row in COMMANDS]
    assert len(rows) == len({*rows})
    listed = {*rows, *AS_OTHERS, *WITHOUT_RIGHTS}
    assert len(listed) == len(rows) + len(AS_OTHERS) + len(WITHOUT_RIGHTS)
    assert listed == {command.name for command in commands()}


def test_commands_without_a_row_lead_to_one() -> None:
    assert {*AS_OTHERS.values()} <= {row.command for row in COMMANDS}
