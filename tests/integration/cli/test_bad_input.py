"""Whatever is typed: a command succeeds, says one numbered line, or refuses the usage; it never ends in a traceback."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from builders.command_lines import rowtide
from builders.command_tree import Command, commands

JUNK = ("", "'", '"', "no such thing", "-1", "a.b.c", "☃", "x" * 300)
NUMBERS = ("0", "99999999999999999999")
ALWAYS = {"dry_run": "", "once": "", "yes": "", "days": "1"}
"""Where a command takes them: nothing lasts, nothing asks."""
FUZZED = [command for command in commands() if command.words not in {("demo",), ("agent", "run")}]
SCHEMA = """
create table orders (id integer primary key, note text);
create table lines (id integer primary key, order_id integer references orders, rowguid integer);
create table "no columns left" (a);
create view v as select * from orders;
insert into orders values (1, 'a');
insert into lines values (1, 1, 5);
"""


def attempts(command: Command) -> Iterator[dict[str, str]]:
    """Yield values for a command's parameters, one of them junk."""
    names = {parameter.name for parameter in command.parameters}
    given = {name: value for name, value in ALWAYS.items() if name in names}
    yield given
    for parameter in command.parameters:
        if parameter.name in ("db", "dry_run"):
            continue
        if parameter.is_flag:
            yield {**given, parameter.name: ""}
            continue
        for junk in (*JUNK, *NUMBERS):
            yield {**given, parameter.name: junk}


def complaint(arguments: list[str]) -> str | None:
    """Run a command; return what is wrong with how it ended."""
    try:
        ended = rowtide(*arguments)
    except Exception as error:  # noqa: BLE001 - the traceback that a user would see
        return f"{arguments}: {type(error).__name__}: {error}"
    lines = ended.errors.splitlines()
    if ended.code in (0, 2) or (
        ended.code == 1 and lines and lines[-1].startswith("RT-") and ended.errors.count("RT-") == 1
    ):
        return None
    return f"{arguments}: {ended}"


@pytest.mark.parametrize("command", FUZZED, ids=lambda command: command.name)
def test_no_input_ends_in_a_traceback_on_a_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("hub.db")) as connection:
        connection.executescript(SCHEMA)
    db = {"db": "sqlite:///hub.db", "subscriber": "sqlite:///copy.db"}

    complaints = [complaint(command.call({**db, **given})) for given in attempts(command)]

    assert [found for found in complaints if found is not None] == []
