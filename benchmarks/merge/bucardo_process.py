"""Bucardo, which merges PostgreSQLs by triggers: Debian's package.

It keeps what it is to do in a database with PL/Perl, which the embedded server has not: that one is of Debian's own
server. What it merges may be anywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.source import Source

NAME = "Bucardo"
INSTALLATION = "apt-get install bucardo postgresql-plperl"
_SYNC = "shop"
_PORT = "6543"
"""Of the socket's name alone: each run has a directory of its own."""
_TIMEOUT_S = 600


def find_programs() -> Path | None:
    """Return where a PostgreSQL's programs are that has PL/Perl; None where it, or Bucardo, is not installed."""
    if shutil.which("bucardo") is None:
        return None
    found = sorted(Path("/usr/lib/postgresql").glob("*/lib/plperl.so"))
    return found[-1].parents[1] / "bin" if found else None


@contextmanager
def open_bucardo(programs: Path, folder: Path) -> Iterator[Bucardo]:
    """Install Bucardo in a server of its own in a folder, which is there for as long as the context lasts."""
    for place in (folder, folder / "run", folder / "log"):
        place.mkdir()
    cluster = folder / "cluster"
    user: list[str] = []
    if os.geteuid() == 0:
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(folder, "postgres")
    _run([*user, str(programs / "initdb"), f"--pgdata={cluster}", "--auth=trust", "--username=bucardo"])
    server = [*user, str(programs / "pg_ctl"), f"--pgdata={cluster}", f"--log={folder}/server.log", "--wait"]
    _run([*server, f"--options=-p {_PORT} -k {folder} -c listen_addresses=", "start"])
    try:
        with psycopg.connect(_address(folder, "postgres"), autocommit=True) as connection:
            connection.execute("create database bucardo")
        bucardo = Bucardo(folder)
        bucardo.command("install", "--batch", f"--piddir={folder}/run")
        bucardo.command("set", f"piddir={folder}/run", f"reason_file={folder}/reason")
        yield bucardo
    finally:
        _run([*server, "--mode=immediate", "stop"])


@dataclass(frozen=True, slots=True)
class Bucardo:
    """Bucardo, installed in a folder."""

    folder: Path

    def command(self, *arguments: str) -> None:
        """Run a command of its program."""
        where = ("--no-bucardorc", f"--dbhost={self.folder}", f"--dbport={_PORT}", "--dbuser=bucardo")
        _run(["bucardo", *where, "--dbname=bucardo", "--quiet", *arguments])

    @contextmanager
    def merging(self, source: Source, databases: Sequence[str], table: str) -> Iterator[None]:
        """Merge a table of some databases, all of which have it with the same rows."""
        login = source.login
        for database in databases:
            address = (f"dbname={database}", "host=127.0.0.1", f"port={login.port}", f"user={login.user}")
            self.command("add", "db", database, *address, f"pass={login.password}")
        self.command("add", "table", f"public.{table}", f"db={databases[0]}", "relgroup=tables")
        self.command("add", "dbgroup", "nodes", *(f"{database}:source" for database in databases))
        options = ("autokick=0", "onetimecopy=0", "conflict_strategy=bucardo_latest")
        self.command("add", "sync", _SYNC, "relgroup=tables", "dbs=nodes", *options)
        self.command("start", "--log-destination", f"{self.folder}/log")
        try:
            yield
        finally:
            self.command("stop")

    def synchronise(self) -> float:
        """Merge what was changed; return the seconds that it counts itself, without its program's waiting."""
        self.command("kick", _SYNC, str(_TIMEOUT_S))
        query = (
            "select extract(epoch from ended - started) from bucardo.syncrun "
            "where sync = %s and (lastgood or lastempty) order by ended desc limit 1"
        )
        with psycopg.connect(_address(self.folder, "bucardo")) as connection:
            row = connection.execute(query, [_SYNC]).fetchone()
        assert row is not None, (self.folder / "log" / "log.bucardo").read_text()
        return float(row[0])


def _address(folder: Path, database: str) -> str:
    return f"host={folder} port={_PORT} user=bucardo dbname={database}"


def _run(command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{command[0]}: {ended.stdout}{ended.stderr}"
