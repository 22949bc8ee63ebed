"""Rights that are revoked while an agent uses them: it ends or waits, says what it lacks, and loses nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import wait_until
from builders.commands.command_lines import rowtide
from builders.commands.configuration_files import write_file
from builders.commands.service_managers import Service, service
from builders.servers.monitored_databases import as_role
from builders.servers.owned_databases import ATTRIBUTE, JOIN, OWNER, ROLE, OwnedDatabase, open_owned
from rowtide.cli.exit_codes import ExitCode
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect


@pytest.fixture(scope="module")
def owned(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedDatabase]:
    with open_owned(server, tmp_path_factory.mktemp("owned")) as opened:
        yield opened


LEAVE = f'revoke "{OWNER}" from "{ROLE}"'
IN_TRANSACTION = "select from pg_stat_activity where usename = %s and xact_start is not null"
WRITES: Mapping[str, str] = {
    "capture": "insert into item values ({0}, 'value {0}')",
    "subscriptions": "insert into orders values ({0}, 'value {0}')",
    "merge": "insert into part values ({0})",
}


def has_arrived(owned: OwnedDatabase, job: str, number: int) -> bool:
    """Return whether a row that `WRITES` has written is where the job brings it."""
    match job:
        case "capture":
            return f"value {number}" in rowtide("cdc", "changes", "public_item", "--db", owned.url).output
        case "subscriptions":
            with psycopg.connect(owned.subscriber) as session:
                made = session.execute("select to_regclass('orders') is not null").fetchone()
                query = f"select from orders where id = {number}"
                return made == (True,) and session.execute(query.encode()).rowcount == 1
        case _:
            with suppress(sqlite3.OperationalError), closing(sqlite3.connect(owned.folder / "device.db")) as device:
                return device.execute("select 1 from part where id = ?", [number]).fetchone() is not None
            return False


@contextmanager
def as_member(owned: OwnedDatabase) -> Iterator[None]:
    """Let the role run the owner's jobs."""
    owned.session.execute(JOIN.encode())
    owned.session.execute(ATTRIBUTE.encode())
    try:
        yield
    finally:
        owned.session.execute(LEAVE.encode())
        owned.session.execute(f'alter role "{ROLE}" noreplication'.encode())


@contextmanager
def running(owned: OwnedDatabase, job: str, folder: Path, settings: str = "") -> Iterator[Service]:
    """Run one job of the database as the role."""
    text = f'{settings}[databases.shop]\nurl = "{as_role(owned.url, ROLE)}"\nrun = ["{job}"]\n'
    named = {"ROWTIDE_CONFIG": str(write_file(folder, text)), "ROWTIDE_DB": ""}
    with service(folder / "run", "agent", "run", environment=named) as started:
        yield started


@pytest.mark.parametrize("job", ["capture", "subscriptions", pytest.param("merge", marks=pytest.mark.exhaustive)])
def test_a_membership_is_revoked_while_a_job_runs(owned: OwnedDatabase, tmp_path: Path, job: str) -> None:
    def write(number: int) -> None:
        owned.session.execute(WRITES[job].format(number).encode())

    def wait_for(number: int) -> None:
        wait_until(lambda: has_arrived(owned, job, number), what=f"row {number} of {job}")

    with as_member(owned), running(owned, job, tmp_path) as agent:
        write(1)
        wait_for(1)
        owned.session.execute(LEAVE.encode())
        # A transaction that has its locks keeps its rights to the end.
        wait_until(lambda: owned.session.execute(IN_TRANSACTION, [ROLE]).rowcount == 0, what="transactions end")
        write(2)
        assert agent.process.wait(300) == ExitCode.NEEDS_PERSON, agent.output
        assert JOIN in agent.output
    assert not has_arrived(owned, job, 2)

    # Nothing was lost meanwhile.
    with as_member(owned), running(owned, job, tmp_path):
        write(3)
        wait_for(3)
        assert has_arrived(owned, job, 2)


def revoke_replication(owned: OwnedDatabase) -> None:
    """Take the attribute away, for which the server asks when a session begins."""
    owned.session.execute(f'alter role "{ROLE}" noreplication'.encode())
    ended = owned.session.execute(
        "select pg_terminate_backend(active_pid) from pg_replication_slots "
        "where database = current_database() and active_pid is not null"
    )
    assert ended.rowcount == 1


def test_capture_without_the_right_to_replicate_awaits_its_start(owned: OwnedDatabase, tmp_path: Path) -> None:
    """The agent runs its other jobs meanwhile; health says what to do, which loses nothing."""
    with as_member(owned), running(owned, "capture", tmp_path) as agent:
        owned.session.execute(WRITES["capture"].format(11).encode())
        wait_until(lambda: has_arrived(owned, "capture", 11), what="row 11")
        revoke_replication(owned)
        wait_until(lambda: "failed" in rowtide("cdc", "jobs", "--db", owned.url).output, what="capture fails")
        owned.session.execute(WRITES["capture"].format(12).encode())
        (failed,) = (one for one in connect(owned.url).health() if one.subject == "capture")
        assert f'RT-1105: role "{ROLE}" has no right to replicate' in failed.message
        assert str(failed.remediation) == "Do what the error asks for, then run `rowtide cdc start-job capture`."
        assert ATTRIBUTE in failed.message

        owned.session.execute(ATTRIBUTE.encode())
        assert rowtide("cdc", "start-job", "capture", "--db", owned.url).code == 0
        wait_until(lambda: has_arrived(owned, "capture", 12), what="row 12")
        assert agent.process.poll() is None


def test_delivery_without_the_right_to_replicate_ends(owned: OwnedDatabase, tmp_path: Path) -> None:
    """Its process needs a person, whatever form the log has."""
    with as_member(owned), running(owned, "subscriptions", tmp_path, '[log]\nformat = "json"\n') as agent:
        owned.session.execute(WRITES["subscriptions"].format(21).encode())
        wait_until(lambda: has_arrived(owned, "subscriptions", 21), what="row 21")
        revoke_replication(owned)
        assert agent.process.wait(300) == ExitCode.NEEDS_PERSON, agent.output
        assert ATTRIBUTE in agent.output.replace('\\"', '"')
        assert "Traceback" not in agent.output
