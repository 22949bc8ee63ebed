"""Each command that monitors run needs the rights of its row in the table of grants, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from builders.commands.command_lines import Ended
from builders.servers.monitored_databases import ROLE, MonitoredDatabase, open_monitored
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.diagnosis import State
from rowtide.monitor.databases import name_databases
from rowtide.monitor.polling import open_reader
from rowtide.monitor.views import make_view
from rowtide.rights.commands import AS_OTHERS, COMMANDS, CommandRights
from rowtide.rights.grants import describe
from rowtide.rights.purpose import Purpose

MONITORS = [row for row in COMMANDS if row.purpose is Purpose.MONITOR]


@pytest.fixture(scope="module")
def monitored(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredDatabase]:
    with open_monitored(server, tmp_path_factory.mktemp("monitored")) as opened:
        yield opened


@pytest.fixture(scope="module")
def monitored_16(server_16: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredDatabase]:
    with open_monitored(server_16, tmp_path_factory.mktemp("monitored_16")) as opened:
        yield opened


def failures(ended: Ended) -> list[str]:
    """Return what a command did not see, or why it failed."""
    lines = f"{ended.output}\n{ended.errors}".splitlines()
    return [line for line in lines if line.startswith(("UNKNOWN", "RT-", "Traceback"))]


def require_whole(monitored: MonitoredDatabase, row: CommandRights) -> None:
    monitored.only(*row.needed)
    ended = monitored.run(row.command)
    assert failures(ended) == [], (row.command, ended)


def require_named(monitored: MonitoredDatabase, row: CommandRights, right: str) -> None:
    """Without the right the command fails, or sees less and says so; it prints the statement that grants it."""
    monitored.only(*(one for one in row.needed if one != right))
    ended = monitored.run(row.command)
    assert failures(ended) != [], (row.command, right, ended)
    said = " ".join(f"{ended.output} {ended.errors}".split())
    assert f"{monitored.grants[right].grant_to(ROLE)}" in said, (row.command, right, said)


def test_the_table_has_the_rights_that_monitors_are_granted(monitored: MonitoredDatabase) -> None:
    of_rows = {right for row in MONITORS for right in row.needed}
    assert of_rows == {describe(grant) for grant in monitored.plan().needed}
    assert {right for row in MONITORS for right in row.widening} == {
        describe(grant) for grant in monitored.plan().widening
    }


def test_commands_work_with_the_rights_of_their_rows(monitored: MonitoredDatabase) -> None:
    for row in MONITORS:
        require_whole(monitored, row)


def test_a_right_that_is_missing_is_named_as_a_statement(monitored: MonitoredDatabase) -> None:
    """Each right once, by the command that needs the fewest."""
    by_length = sorted(MONITORS, key=lambda row: len(row.needed))
    for right in monitored.grants:
        row = next((row for row in by_length if right in row.needed), None)
        if row is not None:
            require_named(monitored, row, right)


def test_what_widens_the_view_is_named(monitored: MonitoredDatabase) -> None:
    for row in MONITORS:
        for right in row.widening:
            monitored.only(*row.needed)
            assert monitored.grants[right].grant_to(ROLE) in " ".join(monitored.run(row.command).output.split())
            monitored.only(*row.needed, right)
            assert monitored.grants[right].grant_to(ROLE) not in " ".join(monitored.run(row.command).output.split())


def test_polls_need_what_health_needs(monitored: MonitoredDatabase) -> None:
    """`monitor serve` and `top` show as unknown what they may not see, with the statement that grants it."""
    (health,) = (row for row in MONITORS if row.command == "health")
    assert {*AS_OTHERS.values()} - {"merge sync"} == {"health"}
    (database,) = name_databases([monitored.url])
    with open_reader(database) as reader:

        def poll(lacking: str | None) -> str:
            monitored.only(*(right for right in health.needed if right != lacking))
            checks = make_view(reader.read()).checks
            return " ".join(f"{one.message} {one.remediation}" for one in checks if one.state is State.UNKNOWN)

        for right in (right for right in health.needed if right.startswith("usage on schema")):
            assert monitored.grants[right].grant_to(ROLE) in poll(right), right
        assert "" in [poll(None) for _ in range(3)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", MONITORS, ids=lambda row: row.command.replace(" ", "-"))
def test_every_row_without_each_right(monitored_16: MonitoredDatabase, row: CommandRights) -> None:
    require_whole(monitored_16, row)
    for right in row.needed:
        require_named(monitored_16, row, right)
