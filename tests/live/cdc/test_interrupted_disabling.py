"""Disabling a database that was interrupted: a repeat finds and removes what is left. The lake's part needs Spark."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.faults.failpoints import SOURCE_REMOVAL_FAILPOINTS
from rowtide.cdc.enabling.administration import disable_database
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.errors import DatabaseNotEnabled

DISABLE = """
import sys
from rowtide.cdc.enabling.administration import disable_database
from rowtide.databases.postgres.connect import open_engine
disable_database(open_engine(sys.argv[1]), "shop", lambda source: None)
"""
LEFT = (
    "select nspname from pg_namespace where nspname in ('cdc', 'rowtide')",
    "select pubname from pg_publication",
    "select slot_name from pg_replication_slots where database = current_database()",
)


def interrupt(logged: LoggedDatabase, failpoint: str) -> None:
    """Disable a database in a process that is killed at a failpoint."""
    environment = {**os.environ, "ROWTIDE_FAILPOINT": failpoint}
    assert subprocess.run([sys.executable, "-c", DISABLE, logged.url], env=environment, check=False).returncode == -9


@pytest.mark.parametrize("failpoint", SOURCE_REMOVAL_FAILPOINTS[:-1])
def test_a_repeat_removes_what_an_interrupted_disabling_has_left(logged: LoggedDatabase, failpoint: str) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    interrupt(logged, failpoint)
    with pytest.raises(DatabaseNotEnabled, match="is not enabled for change data capture"):
        logged.cdc.status()
    disable_database(open_engine(logged.url), "shop", lambda _source: None)

    assert [logged.execute(sql) for sql in LEFT] == [[], [], []]


def test_enabling_after_an_interrupted_disabling_begins_again(logged: LoggedDatabase) -> None:
    logged.enable()
    first = logged.cdc.get_source().source_id
    interrupt(logged, "slot_removal.after")

    assert not logged.cdc.enable_db(str(logged.lake)).was_enabled
    assert logged.cdc.get_source().source_id != first
    logged.read_log()
