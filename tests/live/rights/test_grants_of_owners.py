"""What the owner of rowtide's schemas administers is refused to others, who are told to become members."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping

import psycopg
import pytest

from builders.commands.command_lines import Ended, rowtide
from builders.commands.command_tree import Command, commands
from builders.servers.monitored_databases import as_role
from builders.servers.owned_databases import ATTRIBUTE, JOIN, OWNER, ROLE, OwnedDatabase, open_owned
from rowtide.cdc.cleanup import cleanup
from rowtide.cli.exit_codes import ExitCode
from rowtide.databases.postgres.connect import libpq_url
from rowtide.databases.postgres.denied import find_grant
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.rights.commands import COMMANDS
from rowtide.rights.purpose import Purpose

BY_NAME: Mapping[str, Command] = {command.name: command for command in commands()}
OF_OWNER = "membership in the owner of rowtide's schemas"
SERVES = {"gateway serve"}
"""It ends when it is stopped; see `test_grants_of_purposes`."""
OWNED = [BY_NAME[row.command] for row in COMMANDS if OF_OWNER in row.needed and row.command in BY_NAME.keys() - SERVES]
READ_THE_LOG = [row.command for row in COMMANDS if {*row.needed} == {OF_OWNER, "the attribute replication"}]
RUNS_ON = "agent run"
WITH_OWNERS_RIGHTS = {*Purpose} - {Purpose.MONITOR, Purpose.SUBSCRIBER}
"""They act as the owner of rowtide's schemas; readers where tables are tracked."""
STARTS_SPARK = {"replication deliver-backlogs"}
REFUSALS = ("RT-1143", "RT-1149", "RT-1106", "RT-22904", "RT-1127", "RT-229:")
VERSIONS = ["owned", pytest.param("owned_16", marks=pytest.mark.exhaustive)]
LAST = ("drop", "disable", "reinitialize", "restart", "adopt", "skip")


@pytest.fixture(scope="module")
def owned(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedDatabase]:
    with open_owned(server, tmp_path_factory.mktemp("owned")) as opened:
        yield opened


@pytest.fixture(scope="module")
def owned_16(server_16: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedDatabase]:
    with open_owned(server_16, tmp_path_factory.mktemp("owned_16")) as opened:
        yield opened


def require_refused(owned: OwnedDatabase) -> None:
    wrong = {}
    for command in OWNED:
        if command.name not in STARTS_SPARK:
            ended = owned.run(command)
            if ended.code not in ended.error_codes or JOIN not in " ".join(ended.errors.split()):
                wrong[command.name] = ended
    assert not wrong, "\n".join(f"{name}: {ended}" for name, ended in wrong.items())


def require_done(owned: OwnedDatabase) -> None:
    """As a member, no command is refused for its rights; those that destroy come last."""
    owned.session.execute(JOIN.encode())
    lacking: dict[str, Ended] = {}
    ending = [command for command in OWNED if command.name not in {RUNS_ON, *STARTS_SPARK}]
    for command in sorted(ending, key=lambda one: any(word in one.words[-1] for word in LAST)):
        ended = owned.run(command)
        if any(number in ended.errors for number in REFUSALS):
            lacking[command.name] = ended
    assert not lacking, "\n".join(f"{name}: {ended}" for name, ended in lacking.items())


@pytest.mark.parametrize("version", VERSIONS)
def test_others_are_told_how_to_become_members(request: pytest.FixtureRequest, version: str) -> None:
    require_refused(request.getfixturevalue(version))


def test_no_hint_makes_a_role_a_member_of_a_superuser(owned: OwnedDatabase) -> None:
    """It could do all that the superuser can: who administers the superuser's schemas connects as the superuser."""
    owned.session.execute(f'alter role "{OWNER}" superuser'.encode())
    try:
        for command in (command for command in OWNED if command.name not in STARTS_SPARK):
            ended = owned.run(command)
            said = f"{ended.output} {' '.join(ended.errors.split())}"
            assert ended.code in ended.error_codes, (command.name, ended)
            assert JOIN not in said, (command.name, ended)
            assert f"connect as {OWNER}" in said, (command.name, ended)
        for purpose in Purpose:
            granted = rowtide("grant", ROLE, "--as", purpose, "--db", owned.url)
            found = rowtide("check", "--as", purpose, "--db", as_role(owned.url, ROLE))
            assert JOIN not in f"{granted.output}{granted.errors}{found.output}", purpose
            assert (f"membership in {OWNER}" in granted.errors) is (purpose in WITH_OWNERS_RIGHTS), (purpose, granted)
        is_member = owned.session.execute("select pg_has_role(%s, %s, 'member')", [ROLE, OWNER]).fetchone()
        assert is_member == (False,)
        with psycopg.connect(libpq_url(as_role(owned.url, ROLE)), autocommit=True) as session:
            with pytest.raises(psycopg.errors.InsufficientPrivilege) as refused:
                session.execute(f'set role "{OWNER}"'.encode())
            assert find_grant(str(refused.value.diag.message_primary), "", session) is None
    finally:
        owned.session.execute(f'alter role "{OWNER}" nosuperuser'.encode())
        owned.session.execute(f'drop owned by "{ROLE}"'.encode())
        owned.session.execute(f'alter role "{ROLE}" noreplication'.encode())
        owned.session.execute(f'revoke pg_read_all_stats from "{ROLE}"'.encode())


def test_who_reads_the_log_needs_the_attribute_too(owned: OwnedDatabase) -> None:
    owned.session.execute(JOIN.encode())
    try:
        for name in READ_THE_LOG:
            if name == RUNS_ON:
                continue
            ended = owned.run(BY_NAME[name])
            assert ended.code != 0, ended
            assert ATTRIBUTE in " ".join(ended.errors.split()), ended
    finally:
        owned.session.execute(f'revoke "{OWNER}" from "{ROLE}"'.encode())


def test_an_agent_reports_the_attribute_of_its_job(owned: OwnedDatabase) -> None:
    owned.session.execute(JOIN.encode())
    try:
        command = [sys.executable, "-m", "rowtide", *RUNS_ON.split(), "--db", as_role(owned.url, ROLE)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as agent:
            assert agent.stderr is not None
            assert any(ATTRIBUTE in line for line in agent.stderr)
            agent.send_signal(signal.SIGTERM)
            agent.stderr.read()
        assert agent.returncode == ExitCode.STOPPED
    finally:
        owned.session.execute(f'revoke "{OWNER}" from "{ROLE}"'.encode())


@pytest.mark.usefixtures("spark")
def test_members_may_start_spark_for_it(owned: OwnedDatabase) -> None:
    """In a process that has a session: one more would take longer than all other commands."""
    owned.session.execute(JOIN.encode())
    try:
        for name in STARTS_SPARK:
            ended = owned.run(BY_NAME[name])
            assert ended.code == 0, (name, ended)
    finally:
        owned.session.execute(f'revoke "{OWNER}" from "{ROLE}"'.encode())


@pytest.mark.parametrize("version", VERSIONS)
def test_members_may_do_all_of_it(
    request: pytest.FixtureRequest, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of the module: it ends with what disables and drops."""
    monkeypatch.setattr(cleanup, "READER_GRACE_S", 0.0)
    owned: OwnedDatabase = request.getfixturevalue(version)
    owned.session.execute(f'alter role "{ROLE}" replication'.encode())
    require_done(owned)
