"""Records what the program stores, as it is now, in `tests/recordings/NAME`: later versions have to continue from it.

    .venv/bin/python scripts/record_fixtures.py format-1

A lake, log stores, databases with their metadata, devices' files and subscribers are made by the present code, on the
oldest PostgreSQL that the tests use, and archived with what they contain. The tests `test_recorded_*` open every
recording that is there. One is made as soon as a format has its number, and not again. With `--into FOLDER` it is
`FOLDER/NAME` instead, to try the script.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

REPOSITORY = Path(__file__).parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.merge.merged_databases import Merge, open_file_member, open_server_member
from builders.recordings import (
    CONTENTS,
    DATABASES,
    FILES,
    FOLDER_MARK,
    SERVER_MARK,
    as_plain,
    read_change_rows,
    read_file_tables,
    read_server_tables,
)
from builders.replication.replicated_databases import deliver_all
from builders.replication.replicated_files import declare
from rowtide.cdc import system_tables
from rowtide.cdc.capture import capture
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion
from rowtide.delta.writing.alteration import set_properties
from rowtide.handle import connect
from rowtide.lake.session import build_session, pinned
from rowtide.lake.stores import locate
from rowtide.lake.tables import Compacted, compact
from rowtide.log import reader as log_reader
from rowtide.log.opening import open_log_reader
from rowtide.replication.subscription_settings import SyncType
from rowtide.tracking import ChangeTracking, Storage

OLDEST_SERVER: ServerVersion = 16
SETTINGS = {"fsync": "off", "max_prepared_transactions": "8"}
ORDERS = "create table orders (id int primary key, item text, qty int)"
ODD = 'create table "odd, table" (id int primary key, "a, b" text, "per cent %%" int, "größe=" text)'
TRACKED = "create table {} (id integer primary key, name text, qty integer)"


@dataclass
class Recorder:
    """A server, a folder that everything is made in, and what is found in it."""

    server: EmbeddedServer
    folder: Path
    recorded: Path
    contents: dict[str, Any] = field(default_factory=dict)

    @contextmanager
    def database(self, name: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Make a database, and record it at the end: its metadata as SQL, and the rows of all its tables."""
        with psycopg.connect(self.server.url(), autocommit=True) as session:
            session.execute(f"create database {name}".encode())
        with psycopg.connect(self.server.url(name), autocommit=True) as session:
            yield session
        self.contents[name] = read_server_tables(self.server.url(name))
        self._dump(name)

    def _dump(self, name: str) -> None:
        command = [str(self.server.binary("pg_dump")), "--no-sync", "--dbname", name]
        dumped = subprocess.run(
            command, env={**os.environ, **self.server.environment()}, check=True, capture_output=True, text=True
        ).stdout
        # psql's guard against what a server could slip in is different in each dump.
        lines = (
            line for line in dumped.splitlines(keepends=True) if not line.startswith(("\\restrict", "\\unrestrict"))
        )
        text = (
            "".join(lines)
            .replace(str(self.folder), FOLDER_MARK)
            .replace(str(self.server.socket_directory), SERVER_MARK)
        )
        (self.recorded / DATABASES / f"{name}.sql").write_text(text)

    def record_file(self, name: str) -> None:
        """Note the rows of a SQLite file that nothing has open any more."""
        path = self.folder / name
        assert not list(self.folder.glob(f"{name}-*")), f"{name} is open"
        self.contents[name] = read_file_tables(path)


def record_lake(recorder: Recorder, spark: Any) -> None:
    """A lake of all shapes of tables, and the database it was captured from."""
    with recorder.database("captured") as session:
        db = CapturedDatabase(recorder.server.url("captured"), recorder.folder / "lake", session, spark)
        _create_shapes(db)
        db.capture()
        _change_shapes(db)
        _clean_up_ticks(db, spark)
        names = [
            one.instance.capture_instance for one in Changes(pinned(spark), str(db.lake)).list_recorded_instances()
        ]
        recorder.contents["lake"] = {name: read_change_rows(spark, str(db.lake), name) for name in names}
        logs = {
            name: sorted(file.name for file in (db.lake / "cdc" / name / "_delta_log").glob("0*"))
            for name in ("public_ticks_CT", "cycles")
        }
        for name, files in logs.items():
            assert any("checkpoint" in file for file in files), (name, files)


def _create_shapes(db: CapturedDatabase) -> None:
    """Create and capture a table of each shape, with rows."""
    db.execute(
        ORDERS,
        ODD.replace("%%", "%"),
        "create table readings (id int primary key, n smallint, price numeric(8, 2), day date)",
        "create table moments (id int primary key, at timestamp, seen timestamptz, born date, during interval)",
        "create table notes (id int primary key, title text, body text)",
        "alter table notes alter body set storage external",
        "create table again (id int primary key, name text)",
        "create table ticks (id int primary key)",
        "create table bare (id int, name text)",
        "create role reporter",
        "grant select on all tables in schema public to reporter",
    )
    db.enable("orders", "readings", "moments", "again", "ticks", "bare")
    db.cdc.enable_table('"odd, table"', capture_instance="odd")
    db.cdc.enable_table("notes", before_images=BeforeImages.KEY)
    db.cdc.enable_table("orders", capture_instance="orders_part", columns=("id", "qty"), role_name="reporter")
    db.execute(
        "insert into orders values (1, 'pen', 3), (2, 'ink', null)",
        """insert into "odd, table" values (1, 'x', 7, 'groß')""",
        "insert into readings values (1, 32767, 123456.78, '2026-02-28')",
        "insert into moments values (1, '2026-03-29 02:30:00.000001', '2026-03-29 02:30+02', '0044-03-15', '1mon')",
        "insert into notes select 1, 'first', string_agg(md5(i::text), '') from generate_series(1, 100) i",
        "insert into again values (1, 'before')",
        "insert into bare values (null, 'a'), (1, 'b')",
    )


def _change_shapes(db: CapturedDatabase) -> None:
    """Alter, disable, enable again and truncate tables between cycles."""
    _checkpoint_often(db, "public_ticks_CT", "cycles", "lsn_time_mapping")
    db.cdc.disable_table("again")
    db.execute(
        "alter table readings alter n type int, alter price type numeric(12, 3)",
        "insert into readings values (2, 2147483647, 123456789.125, '2026-03-01')",
        "update notes set title = 'second'",
        "alter table again add added int",
        "update orders set qty = 4 where id = 1",
        "update orders set id = 20 where id = 2",
        """update "odd, table" set "a, b" = null, "größe=" = 'kleiner' """,
    )
    db.capture()
    db.cdc.enable_table("again")
    db.execute("insert into again values (2, 'after', 5)", "truncate orders", "insert into orders values (3, 'cap', 1)")
    db.execute("alter table orders rename column item to article", "delete from bare")
    db.capture()
    for number in range(1, 9):
        db.execute(f"insert into ticks values ({number})", f"insert into orders values ({100 + number}, 'o', {number})")
        db.capture()


def _clean_up_ticks(db: CapturedDatabase, spark: Any) -> None:
    """Clean up a change table, merge small files, and leave a consumer and jobs with other options behind."""
    low = db.cdc.get_all_changes("public_ticks", spark=spark).collect()[2]["__$start_lsn"]
    order = CleanupOrder(capture_instance="public_ticks", low_water_mark=CommitLsn(low), is_forced=True)
    db.cdc.cleanup(order)
    for name in ("public_orders_CT", "public_ticks_CT", "cycles", "lsn_time_mapping"):
        ordered_by = "__$start_lsn" if name.endswith("_CT") else "cycle"
        compact(Compacted(f"{db.lake}/cdc/{name}", ordered_by, None if "orders" in name else timedelta(0)))
    db.execute("insert into ticks values (9)", "delete from orders where id = 3")
    db.cdc.add_consumer("warehouse", ["public_orders", "orders_part"], limit_hours=72, role_name="reporter")
    with db.cdc.consume("warehouse", spark=spark) as window:
        assert not window.is_empty
    db.cdc.change_job("cleanup", retention=10080, threshold=1000)
    db.cdc.change_job("capture", maxtrans=700, pollinginterval=2)
    db.capture()


def record_open_cycle(recorder: Recorder, spark: Any) -> None:
    """A lake with a cycle that was recorded and not published, and a log store with half a transaction."""
    with recorder.database("interrupted") as session:
        db = CapturedDatabase(recorder.server.url("interrupted"), recorder.folder / "interrupted", session, spark)
        db.execute("create table item (id int primary key, name text)", "create table other (id int primary key)")
        db.enable("item", "other")
        db.execute("insert into item values (1, 'published')")
        db.capture()
        db.execute("insert into item values (2, 'open')", "update item set name = 'open too' where id = 1")
        db.execute("insert into other values (1)")
        db.read_log()
        with _raising("publication.before"), db.open_capture() as opened, pytest.raises(_Stopped):
            opened.step()
        db.execute("insert into item select i, 'pending' from generate_series(100, 199) i")
        pending = db.lake / "log" / "pending"
        with pytest.MonkeyPatch.context() as patched, open_log_reader(db.url) as opened_reader:
            patched.setattr(log_reader, "MAX_BATCH_MESSAGES", 10)
            while not list(pending.glob("*.parquet")):
                opened_reader.step()
        recorder.contents["interrupted lake"] = {
            "public_item": read_change_rows(spark, str(db.lake), "public_item"),
        }


def record_replication(recorder: Recorder) -> None:
    """A publisher with a subscriber of either kind, each delivered to, and something on its way to both."""
    with recorder.database("subscriber") as subscriber, recorder.database("publisher") as session:
        publisher = LoggedDatabase(recorder.server.url("publisher"), recorder.folder / "publisher", session)
        replication = connect(publisher.url).replication
        publisher.execute(
            ORDERS,
            ODD.replace("%%", "%"),
            "insert into orders values (1, 'pen', 3), (2, 'ink', null)",
            """insert into "odd, table" values (1, 'x', 7, 'groß')""",
        )
        for name in ("shop", "whole"):
            replication.add_publication(name, lake=str(publisher.lake))
        replication.add_article("shop", "orders", where="qty > 0 or qty is null")
        replication.add_article("shop", '"odd, table"')
        replication.add_article("whole", "orders", columns=("id", "qty"))
        url = recorder.server.url("subscriber")
        replication.add_subscription("shop", url)
        path = recorder.folder / "subscriber.db"
        with (
            closing(sqlite3.connect(path, isolation_level=None)) as program,
            open_engine(publisher.url).connect() as own,
        ):
            for table in ("orders", '"odd, table"'):
                program.execute(declare(find_table(own, table)))
            program.execute("insert into orders values (1, 'pen', 3), (2, 'ink', null)")
            program.execute("""insert into "odd, table" values (1, 'x', 7, 'groß')""")
        replication.add_subscription("shop", f"sqlite:///{path}", sync_type=SyncType.REPLICATION_SUPPORT_ONLY)
        replication.post_tracer_token("shop")
        publisher.execute(
            "insert into orders values (3, 'cap', 1)",
            "update orders set qty = 0 where id = 1",
            """update "odd, table" set "a, b" = 'y'""",
        )
        deliver_all(publisher)
        publisher.execute("insert into orders values (4, 'on its way', 1)")
        publisher.read_log()
        assert subscriber.execute("select id from orders order by 1").fetchall() == [(2,), (3,)]
    recorder.record_file("subscriber.db")


def record_tracking(recorder: Recorder) -> None:
    """Tracked tables with tombstones, in a database and in a device's file, and an anchor from before."""
    with recorder.database("tracked") as session:
        recorder.contents["tracked anchor"] = _track(
            ChangeTracking(session), session.execute, (Storage.ROW, Storage.SIDE)
        )
    path = recorder.folder / "device.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as program:
        program.execute("pragma journal_mode = wal")
        program.execute("pragma foreign_keys = on")
        recorder.contents["device anchor"] = _track(
            ChangeTracking(program), program.execute, (Storage.ROW, Storage.SIDE)
        )
    recorder.record_file("device.db")


def record_merge(recorder: Recorder) -> None:
    """A hub of either kind with a subscriber in a file, synchronised, and with changes that are not yet."""
    with recorder.database("merge_hub") as _session, open_server_member(recorder.server.url("merge_hub")) as hub:
        _merge(recorder, hub, "merge_field.db")
    with open_file_member(recorder.folder / "merge_hub.db") as hub_file:
        _merge(recorder, hub_file, "merge_device.db")
    for name in ("merge_field.db", "merge_hub.db", "merge_device.db"):
        recorder.record_file(name)


def _merge(recorder: Recorder, hub: Any, name: str) -> None:
    with open_file_member(recorder.folder / name) as subscriber:
        merge = Merge(hub, [subscriber])
        merge.begin(
            "create table orders (id integer primary key, item varchar(20), qty integer)",
            "create table hidden (id integer primary key, region varchar(10))",
            "insert into orders values (1, 'pen', 3), (2, 'ink', null), (3, 'cap', 1)",
            "insert into hidden values (1, 'north'), (2, 'south')",
            orders={"column_tracking": True},
            hidden={"where": "region = 'north'"},
        )
        merge.settle()
        hub.execute("update orders set item = 'hub' where id = 1", "delete from orders where id = 3")
        subscriber.execute(
            "update orders set item = 'field' where id = 1", "insert into orders (id, item) values (10, 'new')"
        )
        merge.settle()
        assert merge.conflicts()
        hub.execute("update orders set qty = 30 where id = 1")
        subscriber.execute("update orders set qty = 5 where id = 2", "delete from orders where id = 10")


def _track(tracking: ChangeTracking, execute: Callable[[Any], Any], storages: tuple[Storage, ...]) -> str:
    """Track a table in each storage; return the anchor after which an update, a delete and an insert came."""
    names = [f"in_{storage}" for storage in storages]
    for name, storage in zip(names, storages, strict=True):
        execute(TRACKED.format(name))
        execute(f"insert into {name} values (1, 'one', 1), (2, 'two', null), (3, 'three', 3)")
        tracking.enable_tracking(name, storage=storage)
    execute(f"delete from {names[0]} where id = 3")
    with tracking.changes(names) as changes:
        list(changes)
    for name in names:
        execute(f"update {name} set qty = 10 where id = 1")
        execute(f"delete from {name} where id = 2")
        execute(f"insert into {name} (id, name, qty) values (4, 'four', 4)")
    return str(changes.anchor)


class _Stopped(BaseException):
    """What stands for the process's end."""


@contextmanager
def _raising(name: str) -> Iterator[None]:
    def stop(passed: str) -> None:
        if passed == name:
            raise _Stopped

    with pytest.MonkeyPatch.context() as patched:
        for module in (capture, system_tables):
            patched.setattr(module, "failpoint", stop)
        yield


def _checkpoint_often(db: CapturedDatabase, *names: str) -> None:
    for name in names:
        set_properties(locate(f"{db.lake}/cdc/{name}"), {"delta.checkpointInterval": "3"})


def main() -> None:
    """Record everything, then put it in its place."""
    parser = argparse.ArgumentParser(description="Record what this version stores, for later versions to open.")
    parser.add_argument("name", help="the folder's name: the formats that are recorded")
    parser.add_argument("--into", type=Path, default=REPOSITORY / "tests" / "recordings", help="the folder above it")
    arguments = parser.parse_args()
    target = arguments.into / arguments.name
    assert not target.exists(), f"{target} is there already: recordings are not made again"
    with tempfile.TemporaryDirectory(prefix="rowtide-recording-") as place:
        recorded, folder = Path(place) / "recorded", Path(place) / "folder"
        (recorded / DATABASES).mkdir(parents=True)
        folder.mkdir()
        with EmbeddedServer.start(Path(place) / "server", version=OLDEST_SERVER, settings=SETTINGS) as server:
            recorder = Recorder(server, folder, recorded)
            record_merge(recorder)
            record_tracking(recorder)
            record_replication(recorder)
            spark = build_session()
            record_lake(recorder, spark)
            record_open_cycle(recorder, spark)
            spark.stop()
        recorder.contents["folder"] = str(folder)
        with tarfile.open(recorded / FILES, "w:xz") as archive:
            archive.add(folder, ".")
        (recorded / CONTENTS).write_text(json.dumps(recorder.contents, indent=1, ensure_ascii=False, default=as_plain))
        shutil.copytree(recorded, target)


if __name__ == "__main__":
    main()
