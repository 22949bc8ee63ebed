"""Registration in a Hive metastore: what its other clients see, and what they keep."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide
from builders.servers.hive_metastores import Metastore, running_metastore
from rowtide.catalogs.errors import CatalogueNamespaceUnknown, CatalogueNameTaken, CatalogueUnreachable
from rowtide.cdc.errors.enabling import NotOwner
from rowtide.handle import connect
from rowtide.targets import TargetFormat

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Metastore:
    """One inside Spark's JVM: to start a process of its own takes ten seconds."""
    return Metastore("jdbc:derby:memory:metastore;create=true", tmp_path_factory.mktemp("metastore"))


@pytest.fixture
def namespace(metastore: Metastore, captured: CapturedDatabase) -> str:
    name = f"lake_{next(_numbers)}"
    metastore.make_namespace(captured.spark, name)
    return name


def list_tables(metastore: Metastore, captured: CapturedDatabase, namespace: str) -> dict[str, Any]:
    with metastore.open(captured.spark) as client:
        return {name: client.getTable(namespace, name) for name in client.getAllTables(namespace)}


def columns_of(table: Any) -> dict[str, tuple[str, str]]:
    return {column.getName(): (column.getType(), column.getComment()) for column in table.getSd().getCols()}


def actions(ended: Any) -> dict[str, str]:
    assert ended.code == 0, ended
    return {row["name"] or row["table"]: row["action"] for row in map(json.loads, ended.output.splitlines())}


def test_tables_come_change_and_go(captured: CapturedDatabase, metastore: Metastore, namespace: str) -> None:
    captured.execute('create table "Odd-Item" (id int primary key, "a, b" numeric(10,2), note text)')
    captured.execute("create table other (id int primary key)")
    captured.enable('"Odd-Item"', snapshot=True)
    captured.enable("other")
    captured.execute("""insert into "Odd-Item" values (1, 2.50, 'x')""")
    captured.copy_tables()
    applied = AppliedTargets(captured)
    applied.add("shop", "public_Odd-Item", kind="history")
    applied.follow()
    command = ("cdc", "register-catalog", "hive", metastore.url, namespace, "--format", "jsonl", "--db", captured.url)
    rehearsed = rowtide(*command, "--dry-run")
    assert list_tables(metastore, captured, namespace) == {}
    done = rowtide(*command)
    assert actions(rehearsed) == actions(done)
    assert actions(done) == dict.fromkeys(
        ["public_odd_item_ct", "public_odd_item_base", "public_other_ct", "shop_public_odd_item"], "add"
    )
    found = list_tables(metastore, captured, namespace)
    changes = found["public_odd_item_ct"]
    assert changes.getTableType() == "EXTERNAL_TABLE"
    assert changes.getSd().getLocation() == f"file:{captured.lake}/cdc/public_Odd-Item_CT"
    assert changes.getParameters()["comment"].startswith("Changes of public.Odd-Item")
    seen = columns_of(changes)
    assert seen["__$operation"] == (
        "int",
        "1 delete, 2 insert, 3 update (row before), 4 update (row after), 6 truncate",
    )
    assert seen["a%2c%20b"] == ("decimal(10,2)", "column a, b of public.Odd-Item, numeric(10,2), ordinal 2")
    history = columns_of(found["shop_public_odd_item"])
    assert history["valid_from_lsn"][0] == "bigint"
    assert history["id"] == ("int", "column id of public.Odd-Item, integer, ordinal 1, key")
    assert set(actions(rowtide(*command)).values()) == {"keep"}
    captured.execute("alter table other alter column id type bigint")
    captured.execute("insert into other values (7)")
    captured.cdc.disable_table('"Odd-Item"')
    captured.capture()
    again = actions(rowtide(*command))
    assert again["public_other_ct"] == "correct"
    assert (again["public_odd_item_ct"], again["public_odd_item_base"]) == ("remove", "remove")
    left = list_tables(metastore, captured, namespace)
    assert left.keys() == {"public_other_ct", "shop_public_odd_item"}
    assert columns_of(left["public_other_ct"])["id"][0] == "bigint"
    assert (captured.lake / "cdc" / "public_Odd-Item_CT").is_dir()


def test_what_others_made_stays(captured: CapturedDatabase, metastore: Metastore, namespace: str) -> None:
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    captured.capture()
    database = connect(captured.url)
    database.register_catalog("hive", metastore.url, namespace)
    with metastore.open(captured.spark) as client:
        foreign = client.getTable(namespace, "public_item_ct")
        foreign.setParameters({"EXTERNAL": "TRUE", "comment": "not rowtide's"})
        client.alter_table(namespace, "public_item_ct", foreign)
    with pytest.raises(CatalogueNameTaken, match="public_item_ct"):
        database.register_catalog("hive", metastore.url, namespace)
    assert list_tables(metastore, captured, namespace)["public_item_ct"].getParameters()["comment"] == "not rowtide's"
    captured.cdc.disable_table("item")
    captured.capture()
    assert database.register_catalog("hive", metastore.url, namespace).tables == ()
    assert "public_item_ct" in list_tables(metastore, captured, namespace)
    with pytest.raises(CatalogueNamespaceUnknown, match="no namespace nowhere"):
        database.register_catalog("hive", metastore.url, "nowhere")
    for place in ("thrift://127.0.0.1:1", "nonsense"):
        with pytest.raises(CatalogueUnreachable):
            database.register_catalog("hive", place, namespace)


def test_only_the_owner_of_capture_registers(make_role: Callable[[str], str], logged: LoggedDatabase) -> None:
    stranger = make_role("login")
    logged.enable()
    url = str(psycopg.conninfo.make_conninfo(logged.url, user=stranger))
    with pytest.raises(NotOwner):
        connect(url).register_catalog("hive", "thrift://127.0.0.1:1", "lake")


READER = """
import sys
from pyspark.sql import SparkSession
url, namespace, packages = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").enableHiveSupport()
    .config("spark.hadoop.hive.metastore.uris", url)
    .config("spark.jars.packages", packages)
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.ui.enabled", "false").getOrCreate()
)
for row in spark.sql(f"show tables in {namespace}").collect():
    print("table", row["tableName"])
rows = spark.sql(f"select `__$operation`, id from {namespace}.public_item_ct order by 1, 2").collect()
print("rows", [tuple(row) for row in rows])
print("current", [tuple(row) for row in spark.sql(f"select id from {namespace}.shop_public_item order by 1").collect()])
spark.stop()
"""


@pytest.mark.exhaustive
def test_a_spark_with_hive_support_reads_what_is_registered(captured: CapturedDatabase, tmp_path: Path) -> None:
    from rowtide.lake.jars import DELTA

    captured.execute("create table item (id int primary key)")
    captured.enable("item", snapshot=True)
    captured.execute("insert into item values (1), (2)")
    captured.copy_tables()
    applied = AppliedTargets(captured)
    applied.add("shop", "public_item")
    applied.add("ice", "public_item", format=TargetFormat.ICEBERG)
    captured.execute("insert into item values (3)")
    applied.follow()
    program = tmp_path / "reader.py"
    program.write_text(READER)
    with running_metastore(tmp_path) as metastore:
        metastore.make_namespace(captured.spark, "lake")
        command = ("cdc", "register-catalog", "hive", metastore.url, "lake", "--db", captured.url)
        assert rowtide(*command).code == 0
        again = actions(rowtide(*command, "--format", "jsonl"))
        assert again.pop("target ice") == "leave out"
        assert set(again.values()) == {"keep"}
        ended = subprocess.run(
            [sys.executable, str(program), metastore.url, "lake", DELTA.package],
            capture_output=True, text=True, check=False, timeout=300, cwd=tmp_path,
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.splitlines()
    assert {line for line in said if line.startswith("table")} == {
        f"table {name}" for name in ("public_item_ct", "public_item_base", "shop_public_item")
    }
    assert "current [(1,), (2,), (3,)]" in said
    assert any(line.startswith("rows [(2, ") for line in said)
