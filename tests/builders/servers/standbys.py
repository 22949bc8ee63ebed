"""Standbys of a server, that are promoted; and what the server and they need to keep the slots of capture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.servers.copied_databases import base_backup
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion

STANDBY_SLOT = "standby"
KEEPS_SLOTS = {"sync_replication_slots": "on", "hot_standby_feedback": "on", "primary_slot_name": STANDBY_SLOT}
"""A standby's settings, from PostgreSQL 17 on. It looks for slots less and less often while there is none."""


@dataclass
class Standby:
    """A standby of a server; `promote` makes it the primary."""

    server: EmbeddedServer

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.url(), autocommit=True) as session:
            cursor = session.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def promote(self) -> None:
        assert self.execute("select pg_promote()") == [(True,)]

    def disconnect(self) -> None:
        """Receive nothing more of the primary's log."""
        self.execute("alter system set primary_conninfo = ''")
        self.execute("select pg_reload_conf()")
        receiving = "select 1 from pg_stat_wal_receiver"
        wait_until(lambda: not self.execute(receiving), what="the standby receives nothing")

    def keep_slot(self, logged: LoggedDatabase) -> None:
        """Wait until the standby keeps a copy of a database's slot that outlives a promotion.

        It does once the slot needs nothing that the standby had removed already: the log is read meanwhile.
        """
        ((slot,),) = logged.execute("select slot::text from rowtide.source")
        kept = f"select 1 from pg_replication_slots where slot_name = '{slot}' and synced and not temporary"

        def is_kept() -> bool:
            logged.execute("select pg_log_standby_snapshot()")
            logged.read_log()
            return len(self.execute(kept)) == 1

        wait_until(is_kept, what=f"the standby keeps slot {slot}")

    def wait_for(self, primary: EmbeddedServer) -> None:
        """Wait until the standby has the whole log of the primary."""
        with psycopg.connect(primary.url(), autocommit=True) as session:
            (end,) = session.execute("select pg_current_wal_flush_lsn()").fetchone() or ()
        replayed = f"select 1 where pg_last_wal_replay_lsn() >= '{end}'"
        wait_until(lambda: len(self.execute(replayed)) == 1, what=f"the standby has the log up to {end}")


@contextmanager
def standby_of(
    primary: EmbeddedServer, place: Path, settings: Mapping[str, str], *, version: ServerVersion = 18
) -> Iterator[Standby]:
    """Yield a running standby of a server, with a physical slot there."""
    options = ("--write-recovery-conf", "--create-slot", f"--slot={STANDBY_SLOT}", f"--dbname={primary.url()}")
    base_backup(primary, place, *options)
    with EmbeddedServer.start(place, version=version, settings={**SETTINGS, **settings}) as server:
        yield Standby(server)


def make_ordinary(url: str, slot: str) -> None:
    """Make a slot one that standbys keep no copy of."""
    with psycopg.connect(url, replication="database") as session:
        session.pgconn.exec_(f'ALTER_REPLICATION_SLOT "{slot}" (FAILOVER false)'.encode())
