"""`rowtide cdc` as a shell sees it: output, exit codes, and one numbered line for every error."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import Ended, rowtide, rowtide_process
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder


@pytest.fixture(scope="module")
def written(shared: CapturedDatabase) -> CapturedDatabase:
    """A table with an insert, an update and a delete, enabled and captured by commands."""
    shared.execute("create table item (id int primary key, name text, price numeric(8,2), big bigint, day date)")
    db = ("--db", shared.url)
    enabled = rowtide("cdc", "enable-db", *db, "--lake", str(shared.lake))
    assert enabled.code == 0, enabled
    table = rowtide("cdc", "enable-table", "item", *db, "--columns", "id, name, price, big, day", "--no-snapshot")
    assert (table.code, table.errors) == (0, "Enabled: capture instance public_item.\n")
    shared.execute(
        "insert into item values (1, 'tea, green', 1.50, 9007199254740993, 'infinity')",
        "update item set name = null",
        "delete from item",
    )
    ran = rowtide("cdc", "run", "--once", *db)
    assert ran.code == 0, ran
    return shared


def test_changes_are_printed_as_json_lines(written: CapturedDatabase) -> None:
    ended = rowtide("cdc", "changes", "public_item", "--format", "jsonl", "--db", written.url)
    rows = [json.loads(line) for line in ended.output.splitlines()]
    assert [row.pop("__$start_lsn") for row in rows] == [
        row["__$start_lsn"] for row in written.changes("public_item", "all")
    ]
    values = {"id": 1, "price": "1.50", "big": 9007199254740993, "day": "infinity"}
    assert rows == [
        {"__$seqval": 1, "__$operation": 2, "__$update_mask": "1f", "name": "tea, green", **values},
        {"__$seqval": 1, "__$operation": 4, "__$update_mask": "02", "name": None, **values},
        {"__$seqval": 1, "__$operation": 1, "__$update_mask": "1f", "name": None, **values},
    ]
    assert (ended.code, ended.errors) == (0, "")


def test_changes_are_printed_as_csv_and_as_a_table(written: CapturedDatabase) -> None:
    ended = rowtide(
        "cdc", "changes", "public_item", "--format", "csv", "--db", written.url, "--row-filter", "all update old"
    )
    rows = list(csv.reader(StringIO(ended.output)))
    assert rows[0][1:5] == ["__$seqval", "__$operation", "__$update_mask", "id"]
    assert [row[2] for row in rows[1:]] == ["2", "3", "4", "1"]
    table = rowtide("cdc", "changes", "public_item", "--db", written.url)
    assert "tea, green" in table.output
    assert (ended.code, table.code) == (0, 0)


@pytest.mark.exhaustive
def test_changes_are_written_to_files(written: CapturedDatabase, tmp_path: Path) -> None:
    asked = ("cdc", "changes", "public_item", "--db", written.url)
    for form in ("jsonl", "csv"):
        printed = rowtide(*asked, "--format", form).output
        ended = rowtide(*asked, "--format", form, "--out", str(tmp_path / f"item.{form}"))
        assert (ended.code, ended.output) == (0, "")
        assert (tmp_path / f"item.{form}").read_text(encoding="utf-8") == printed
    ended = rowtide(*asked, "--format", "parquet", "--out", str(tmp_path / "item.parquet"))
    assert (ended.code, ended.output, ended.errors) == (0, "", "")
    rows = pq.read_table(tmp_path / "item.parquet")
    assert rows.schema.field("price").type == pa.decimal128(8, 2)
    assert rows.select(["__$operation", "id", "name", "big"]).to_pylist() == [
        {"__$operation": operation, "id": 1, "name": name, "big": 9007199254740993}
        for operation, name in ((2, "tea, green"), (4, None), (1, None))
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["item.csv", "item.jsonl", "item.parquet"]


def test_unwritable_file_is_an_error_and_parquet_requires_a_file(written: CapturedDatabase, tmp_path: Path) -> None:
    asked = ("cdc", "changes", "public_item", "--db", written.url)
    for form in ("jsonl", "parquet"):
        rowtide(*asked, "--format", form, "--out", str(tmp_path / "none" / "item")).require_error(1005)
    assert rowtide(*asked, "--format", "parquet").code == 2


@pytest.mark.exhaustive
def test_net_changes_are_printed(written: CapturedDatabase) -> None:
    asked = ("cdc", "changes", "public_item", "--net", "--format", "jsonl", "--db", written.url)
    assert rowtide(*asked) == Ended(0, "", "")
    lsns = [str(row["__$start_lsn"]) for row in written.changes("public_item", "all")]
    for option, printed in (("all with merge", (5, None)), ("all with mask", (4, "02"))):
        ended = rowtide(*asked, "--from", lsns[1], "--to", lsns[1], "--row-filter", option)
        (row,) = (json.loads(line) for line in ended.output.splitlines())
        assert (row["__$operation"], row["__$update_mask"], row["day"]) == (*printed, "infinity")
        assert "__$seqval" not in row
    rowtide(*asked, "--row-filter", "all update old").require_error(313)


def test_lsns_are_printed_and_bound_what_is_asked(written: CapturedDatabase) -> None:
    low = rowtide("cdc", "lsn", "min", "public_item", "--db", written.url).output.strip()
    high = rowtide("cdc", "lsn", "max", "--db", written.url).output.strip()
    after = rowtide("cdc", "lsn", "increment", high).output.strip()
    assert rowtide("cdc", "lsn", "decrement", after).output.strip() == high
    asked = ("cdc", "changes", "public_item", "--format", "jsonl", "--db", written.url)
    assert len(rowtide(*asked, "--from", low, "--to", high).output.splitlines()) == 3
    assert len(rowtide(*asked, "--from", high).output.splitlines()) == 1
    assert rowtide(*asked, "--from", after).output == ""
    line = rowtide(*asked, "--to", after).require_error(313)
    assert f"{low} to {high}" in line


def test_instances_are_listed(written: CapturedDatabase) -> None:
    ended = rowtide("cdc", "instances", "--format", "jsonl", "--db", written.url)
    (row,) = (json.loads(line) for line in ended.output.splitlines())
    assert datetime.fromisoformat(row.pop("create_date")).tzinfo is not None
    assert isinstance(row.pop("object_id"), int)
    assert isinstance(row.pop("source_object_id"), int)
    assert row == {
        "source_schema": "public",
        "source_table": "item",
        "capture_instance": "public_item",
        "start_lsn": None,
        "end_lsn": None,
        "supports_net_changes": True,
        "has_drop_pending": False,
        "role_name": None,
        "index_name": "item_pkey",
        "filegroup_name": None,
        "index_column_list": "[id]",
        "captured_column_list": "[id], [name], [price], [big], [day]",
    }
    (listed,) = written.cdc.list_instances("public", "item", with_start_lsn=True)
    assert listed.start_lsn == written.cdc.get_min_lsn("public_item")
    assert written.cdc.list_instances("public", "nothing") == ()


def test_columns_are_listed_and_found_in_masks(written: CapturedDatabase) -> None:
    db = ("--db", written.url)
    ended = rowtide("cdc", "columns", "public_item", "--format", "csv", *db)
    rows = list(csv.DictReader(StringIO(ended.output)))
    assert [(row["column_ordinal"], row["column_name"], row["data_type"]) for row in rows] == [
        ("1", "id", "integer"),
        ("2", "name", "text"),
        ("3", "price", "numeric"),
        ("4", "big", "bigint"),
        ("5", "day", "date"),
    ]
    assert rowtide("cdc", "column-ordinal", "public_item", "name", *db).output == "2\n"
    assert rowtide("cdc", "column-ordinal", "public_item", "nothing", *db) == Ended(0, "", "")
    for column, mask, printed in (("name", "02", "1"), ("name", "0x1D", "0"), ("nothing", "1f", "0")):
        assert rowtide("cdc", "has-column-changed", "public_item", column, mask, *db).output == f"{printed}\n"
    assert rowtide("cdc", "is-bit-set", "9", "01ff").output == "1\n"
    assert rowtide("cdc", "is-bit-set", "1", "1ff").code == 2


@pytest.mark.exhaustive
def test_lsns_have_times_and_times_bound_what_is_asked(written: CapturedDatabase) -> None:
    """The first time is excluded, the last is included: three changes, of which the last two are after the first."""
    db = ("--db", written.url)
    lsns = [CommitLsn(row["__$start_lsn"]) for row in written.changes("public_item", "all")]
    times = [rowtide("cdc", "lsn", "time-of", str(lsn), *db).output.strip() for lsn in lsns]
    assert all(datetime.fromisoformat(time).tzinfo is not None for time in times)
    assert rowtide("cdc", "lsn", "time-of", str(lsns[0].increment()), *db) == Ended(0, "", "")
    assert rowtide("cdc", "lsn", "of-time", "largest less than", times[1], *db).output == f"{lsns[0]}\n"
    assert rowtide("cdc", "lsn", "of-time", "smallest greater than", "2100-01-01", *db) == Ended(0, "", "")
    asked = ("cdc", "changes", "public_item", "--format", "jsonl", *db)
    ended = rowtide(*asked, "--from", times[0], "--to", times[2])
    assert [json.loads(line)["__$start_lsn"] for line in ended.output.splitlines()] == [lsn.value for lsn in lsns[1:]]
    assert len(rowtide(*asked, "--from", str(lsns[0]), "--to", times[1]).output.splitlines()) == 2


def test_wrappers_are_printed_as_scripts_and_as_rows(written: CapturedDatabase) -> None:
    asked = ("cdc", "generate-wrapper", "public_item", "--db", written.url)
    scripts = rowtide(*asked).output
    assert scripts.count("create or replace temporary function") == 2
    rows = [json.loads(line) for line in rowtide(*asked, "--format", "jsonl").output.splitlines()]
    assert [row["function_name"] for row in rows] == ["fn_all_changes_public_item", "fn_net_changes_public_item"]
    assert all(row["create_script"].strip() in scripts for row in rows)


def test_enabling_a_database_twice_is_a_notice(written: CapturedDatabase) -> None:
    ended = rowtide("cdc", "enable-db", "--db", written.url, "--lake", str(written.lake))
    assert (ended.code, ended.errors.splitlines()) == (
        0,
        ["RT-22905: the database is enabled already. Nothing was changed."],
    )


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        (22960, ["changes", "nobody"]),
        (22960, ["lsn", "min", "nobody"]),
        (22960, ["disable-table", "item", "--capture-instance", "nobody"]),
        (313, ["changes", "public_item", "--row-filter", "every"]),
        (313, ["changes", "public_item", "--from", "0/1"]),
        (4141, ["changes", "public_item", "--from", "yesterday"]),
        (4141, ["changes", "public_item", "--from", "-1"]),
        (313, ["changes", "public_item", "--to", "2001-01-01"]),
        (4141, ["lsn", "of-time", "largest less than", "0/1"]),
        (313, ["lsn", "of-time", "nearest", "2026-01-31T08:00:00Z"]),
        (1001, ["lsn", "time-of", "yesterday"]),
        (22981, ["columns", "nobody"]),
        (22972, ["instances", "--source-schema", "public"]),
        (22960, ["generate-wrapper", "nobody"]),
        (22918, ["generate-wrapper", "public_item", "--column-list", "nothing"]),
        (22919, ["generate-wrapper", "public_item", "--update-flag-list", "nothing"]),
        (22921, ["generate-wrapper", "--column-list", "id"]),
        (22931, ["enable-table", "public.nothing"]),
        (22931, ["disable-table", "public.nothing"]),
        (22974, ["enable-table", "cdc.change_tables"]),
        (22926, ["enable-table", "item", "--capture-instance", "public_item"]),
        (22927, ["enable-table", "item", "--capture-instance", "n" * 101]),
        (22932, ["enable-table", "item", "--capture-instance", "a/b"]),
        (22930, ["enable-table", "item", "--capture-instance", "x", "--columns", "id,nothing"]),
        (22943, ["enable-table", "item", "--capture-instance", "x", "--columns", "name"]),
        (22942, ["enable-table", "item", "--capture-instance", "x", "--columns", "id,id"]),
        (22965, ["enable-table", "item", "--capture-instance", "x", "--columns", "id,[name"]),
        (22928, ["enable-table", "item", "--capture-instance", "x", "--index", "nothing"]),
        (22907, ["enable-table", "item", "--capture-instance", "x", "--role", ""]),
        (22938, ["enable-table", "item", "--capture-instance", "x", "--role", "public"]),
    ],
)
def test_a_mistake_is_one_numbered_line(written: CapturedDatabase, number: int, arguments: list[str]) -> None:
    rowtide("cdc", *arguments, "--db", written.url).require_error(number)


@pytest.mark.parametrize(
    "arguments",
    [
        ["cdc", "changes"],
        ["cdc", "changes", "public_item", "--format", "xml"],
        ["cdc", "enable-db"],
        ["cdc", "nothing"],
        ["cdc", "lsn", "min"],
    ],
)
def test_wrong_usage_ends_with_two(arguments: list[str]) -> None:
    ended = rowtide(*arguments)
    assert ended.code == 2
    assert "Usage:" in ended.errors


@pytest.mark.parametrize(
    "arguments",
    [["instances"], ["run", "--once"], ["run"], ["enable-table", "item"], ["disable-db"], ["reinitialize", "--yes"]],
)
def test_a_database_that_is_not_enabled_says_so(database: str, arguments: list[str]) -> None:
    rowtide("cdc", *arguments, "--db", database).require_error(22901)


@pytest.mark.parametrize("arguments", [["instances"], ["run", "--once"], ["enable-db", "--lake", "/tmp/lake"]])
def test_a_server_that_is_not_there_is_named(tmp_path: Path, arguments: list[str]) -> None:
    nowhere = f"postgresql://postgres@/shop?host={tmp_path}"
    assert str(tmp_path) in rowtide("cdc", *arguments, "--db", nowhere).require_error(1101)


def test_a_lake_that_cannot_be_written_is_refused(database: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for lake in (tmp_path / "file" / "lake", Path("/proc/lake")):
        rowtide("cdc", "enable-db", "--db", database, "--lake", str(lake)).require_error(3101)


def test_a_dry_run_prints_statements_and_runs_none(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    db = ("--db", logged.url)
    planned = rowtide("cdc", "enable-db", *db, "--lake", str(logged.lake), "--dry-run")
    assert "create publication" in planned.output
    assert "pg_create_logical_replication_slot" in planned.output
    assert logged.execute("select 1 from pg_publication") == []
    assert not logged.lake.exists()
    logged.enable()
    planned = rowtide("cdc", "enable-table", "item", *db, "--dry-run")
    assert 'lock table "public"."item" in share row exclusive mode;' in planned.output.splitlines()
    assert "insert into rowtide.control" in planned.output.lower()
    assert logged.cdc.list_instances() == ()
    logged.cdc.enable_table("item")
    planned = rowtide("cdc", "disable-table", "item", *db, "--dry-run")
    assert 'alter table "public"."item" replica identity default;' in planned.output.splitlines()
    assert len(logged.cdc.list_instances()) == 1


@pytest.mark.exhaustive
def test_a_second_capture_says_who_runs_the_first(logged: LoggedDatabase) -> None:
    logged.enable()
    engine = open_engine(logged.url, application_name=f"rowtide capture on {describe_holder()}")
    with AdvisoryLease.take(engine, "lake"):
        for arguments in (["run"], ["run", "--once"], ["disable-db", "--yes"], ["reinitialize", "--yes"]):
            ended = rowtide("cdc", *arguments, "--db", logged.url)
            assert ended.code == (69 if arguments == ["run"] else 1)
            line = ended.errors.splitlines()[-1]
            assert line.startswith("RT-2108: the lake lease is held by rowtide capture on ")
            assert describe_holder() in line


@pytest.mark.exhaustive
def test_java_is_needed_by_sparks_engine_alone(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.execute("insert into item values (1)")
    without = {"PATH": "/nowhere", "JAVA_HOME": ""}

    def run(*arguments: str) -> Ended:
        return rowtide_process("cdc", *arguments, "--db", logged.url, environment=without)

    assert "apt-get install" in run("run", "--once", "--engine", "spark").require_error(1002)
    assert run("run", "--once").code == 0
    assert '"id": 1' in run("changes", "public_item", "--format", "jsonl").output


def test_reinitialize_after_a_lost_slot_reports_loss_and_asks(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.execute(f"select pg_drop_replication_slot('{logged.cdc.get_source().slot}')")
    db = ("--db", logged.url)
    assert "rowtide cdc reinitialize" in rowtide("cdc", "run", "--once", *db).require_error(2102)
    refused = rowtide_process("cdc", "reinitialize", *db)
    assert refused.code == 1
    assert "missing from public_item" in refused.errors
    assert logged.manifest().state.epoch == 0
    done = rowtide("cdc", "reinitialize", "--yes", *db)
    assert (done.code, "missing from public_item" in done.errors) == (0, True)
    assert logged.manifest().state.epoch == 1


@pytest.fixture(scope="module")
def cramped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server with one replication slot and no WAL sender."""
    settings = {"max_replication_slots": "1", "max_wal_senders": "0"}
    with EmbeddedServer.start(tmp_path_factory.mktemp("cramped"), settings=settings) as server:
        yield server


def test_role_without_replication_right_gets_the_statement(server: EmbeddedServer, lake: Path) -> None:
    with psycopg.connect(server.url(), autocommit=True) as session:
        session.execute("""create role "cl""erk" login""")
        url = server.url().replace("postgres@", "cl%22erk@")
        line = rowtide("cdc", "enable-db", "--db", url, "--lake", str(lake)).require_error(1105)
        session.execute("""drop role "cl""erk\"""")
    assert """alter role "cl""erk" replication""" in line


@pytest.mark.exhaustive
def test_a_server_without_a_free_slot_or_sender_says_so(cramped: EmbeddedServer, lake: Path) -> None:
    enable = ("cdc", "enable-db", "--db", cramped.url(), "--lake", str(lake))
    with psycopg.connect(cramped.url(), autocommit=True) as session:
        session.execute("select pg_create_physical_replication_slot('taken')")
        rowtide(*enable).require_error(1103)
        session.execute("select pg_drop_replication_slot('taken')")
    assert rowtide(*enable).code == 0
    ended = rowtide("cdc", "run", "--once", "--db", cramped.url())
    assert ended.code == 1
    assert ended.errors.splitlines()[-1].startswith("RT-1104: ")


def test_a_server_without_logical_log_gets_the_statement(tmp_path: Path, lake: Path) -> None:
    with EmbeddedServer.start(tmp_path / "server", settings={"wal_level": "replica"}) as server:
        line = rowtide("cdc", "enable-db", "--db", server.url(), "--lake", str(lake)).require_error(1102)
    assert "alter system set wal_level = logical" in line
    assert not lake.exists()
