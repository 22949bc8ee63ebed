"""A dry run prints what the command would execute on PostgreSQL, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from builders.commands.dry_runs import catalogue, require_true_dry_run
from builders.servers.copied_databases import moved
from rowtide.handle import Database, connect

if TYPE_CHECKING:
    from builders.capture.captured_databases import LoggedDatabase
    from rowtide.databases.postgres.embedded import EmbeddedServer


Work = Callable[[Any, str], object]

TABLES = (
    "create table item (id int primary key, note text)",
    "create table piece (id int primary key, note text)",
)


def test_dry_runs_of_capture_are_true(logged: LoggedDatabase) -> None:
    logged.execute(*TABLES)
    url = logged.url
    executed = require_true_dry_run(url, "cdc", "enable-db", "--lake", str(logged.lake))
    assert "create table rowtide.source" in " ".join(executed).lower()
    require_true_dry_run(url, "cdc", "enable-table", "item")
    require_true_dry_run(url, "cdc", "enable-table", "item", "--capture-instance", "second", "--truncate", "refuse")
    require_true_dry_run(url, "cdc", "disable-table", "item", "--capture-instance", "second")
    require_true_dry_run(url, "cdc", "disable-table", "item")


def test_a_dry_run_makes_no_folder(logged: LoggedDatabase) -> None:
    assert rowtide("cdc", "enable-db", "--lake", str(logged.lake), "--dry-run", "--db", logged.url).code == 0
    assert not logged.lake.exists()


def test_dry_runs_of_replication_are_true(logged: LoggedDatabase) -> None:
    logged.execute(*TABLES)
    connect(logged.url).replication.add_publication("shop", lake=str(logged.lake))
    require_true_dry_run(logged.url, "replication", "add-article", "shop", "item", "--where", "note = '100%'")
    require_true_dry_run(logged.url, "replication", "change-article", "shop", "item", "--no-where")
    require_true_dry_run(logged.url, "replication", "drop-column", "shop", "item", "note")
    require_true_dry_run(logged.url, "replication", "add-column", "shop", "item", "note")
    require_true_dry_run(logged.url, "replication", "drop-article", "shop", "item")


def test_a_dry_run_of_enabling_beside_publications_is_true(logged: LoggedDatabase) -> None:
    connect(logged.url).replication.add_publication("shop", lake=str(logged.lake))
    require_true_dry_run(logged.url, "cdc", "enable-db", "--lake", str(logged.lake))


def test_dry_runs_of_tracking_are_true(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        for table in TABLES:
            program.execute(table.encode())
        require_true_dry_run(database, "tracking", "enable", "item")
        require_true_dry_run(database, "tracking", "enable", "piece", "--key", "rowguid", "--storage", "side")
        program.execute('drop trigger if exists "__sysTracking_insert" on item')
        require_true_dry_run(database, "tracking", "resume", "item")
        require_true_dry_run(database, "tracking", "disable", "item")
        require_true_dry_run(database, "tracking", "disable", "piece")


def test_dry_runs_of_merge_are_true(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        for table in TABLES:
            program.execute(table.encode())
    require_true_dry_run(database, "merge", "add-publication", "shop")
    require_true_dry_run(database, "merge", "add-article", "shop", "item", "--where", "note like '%1%'")
    require_true_dry_run(database, "merge", "add-article", "shop", "piece")
    require_true_dry_run(database, "merge", "change-article", "shop", "item", "--where", "note is not null")
    require_true_dry_run(database, "merge", "drop-article", "shop", "piece")
    require_true_dry_run(database, "merge", "drop-publication", "shop")


def test_a_dry_run_of_adopting_is_true(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    logged.execute(*TABLES)
    logged.enable("item", "piece")
    connect(logged.url).replication.add_publication("shop")
    connect(logged.url).replication.add_article("shop", "item")
    logged.read_log()
    with moved(logged, server) as url:
        require_true_dry_run(url, "adopt")


def _capture(database: Database, lake: Path) -> tuple[Any, Work]:
    database.cdc.enable_db(str(lake))
    return database.cdc, lambda cdc, table: cdc.enable_table(table)


def _replication(database: Database, lake: Path) -> tuple[Any, Work]:
    database.replication.add_publication("shop", lake=str(lake))
    return database.replication, lambda publishing, table: publishing.add_article("shop", table)


def _merge(database: Database, _lake: Path) -> tuple[Any, Work]:
    database.merge.add_publication("shop")
    return database.merge, lambda publishing, table: publishing.add_article("shop", table)


def _tracking(database: Database, _lake: Path) -> tuple[Any, Work]:
    database.tracking.enable_tracking("first")
    return database.tracking, lambda tracking, table: tracking.enable_tracking(table)


@pytest.mark.parametrize("begin", [_capture, _replication, _merge, _tracking])
def test_rehearsals_and_real_work_do_not_disturb_each_other(
    logged: LoggedDatabase, begin: Callable[[Database, Path], tuple[Any, Work]]
) -> None:
    logged.execute(*TABLES, "create table first (id int primary key)", "create table third (id int primary key)")
    with connect(logged.url) as database:
        handle, work = begin(database, logged.lake)
        rehearsals = [handle.rehearsal(), handle.rehearsal()]
        with ThreadPoolExecutor(3) as threads:
            list(threads.map(work, [*rehearsals, handle], ("item", "piece", "third")))
        for rehearsal, own, foreign in zip(rehearsals, ("item", "piece"), ("piece", "item"), strict=True):
            told = " ".join(rehearsal.statements)
            assert own in told
            assert foreign not in told
            assert "third" not in told
        before = catalogue(logged.url)
        work(handle.rehearsal(), "item")
        assert catalogue(logged.url) == before
        # Neither was enabled by its rehearsal, which enabling again would refuse.
        work(handle, "item")
        work(handle, "piece")
