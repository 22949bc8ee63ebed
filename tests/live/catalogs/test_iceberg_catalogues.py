"""Targets whose tables are in an Iceberg REST catalogue, Iceberg's own server: what its other clients see."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IntegerType, NestedField, TimestamptzType

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import Ended, rowtide
from builders.servers.rest_catalogues import RestCatalogue, relayed, running_rest_catalogue
from rowtide.catalogs.errors import (
    CatalogueNamespaceUnknown,
    CatalogueRefused,
    CatalogueUnreachable,
    NothingForCatalogue,
)
from rowtide.handle import connect
from rowtide.targets import TargetFormat

MADE = Schema(
    NestedField(1, "id", IntegerType()),
    NestedField(2, "a, b", DecimalType(10, 2)),
    NestedField(3, "made", TimestamptzType()),
)
COMMENT = "Current rows of public.Item, by rowtide's target ice: written by it alone"
COLUMNS = {
    "id": ("int", "column id of public.Item, integer, ordinal 1, key"),
    "a, b": ("decimal(10, 2)", "column a, b of public.Item, numeric(10,2), ordinal 2"),
    "made": ("timestamptz", "column made of public.Item, timestamp with time zone, ordinal 3"),
}
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogue]:
    with running_rest_catalogue(tmp_path_factory.mktemp("rest") / "warehouse") as served:
        yield served


@pytest.fixture
def applied(captured: CapturedDatabase) -> AppliedTargets:
    captured.execute('create table "Item" (id int primary key, "a, b" numeric(10,2), made timestamptz)')
    captured.enable('"Item"')
    captured.execute("""insert into "Item" values (1, 2.50, '2020-01-02 03:04:05+00')""")
    captured.capture()
    return AppliedTargets(captured)


def add_target(applied: AppliedTargets, catalogue: RestCatalogue, namespace: str) -> None:
    """Add a target whose tables are in a namespace of a catalogue."""
    applied.add(
        "ice",
        "public_Item",
        path=None,
        format=TargetFormat.ICEBERG,
        # Of its own: a session of Spark keeps what it knows of a catalogue's name.
        catalog=f"shared{next(_numbers)}.{namespace}",
        catalog_options=catalogue.settings,
    )


def make_table(applied: AppliedTargets, catalogue: RestCatalogue, namespace: str, owner: str | None = None) -> None:
    """Create the table of the target as its first apply does, without the time that Spark takes."""
    client, levels = connect_other(catalogue), tuple(namespace.split("."))
    with suppress(NamespaceAlreadyExistsError):
        client.create_namespace(levels)
    with psycopg.connect(applied.captured.url) as connection:
        [(target_id,)] = connection.execute("select target_id from cdc.targets").fetchall()
    client.create_table((*levels, "public_Item"), MADE, properties={"rowtide.target": owner or target_id})


def connect_other(catalogue: RestCatalogue) -> RestCatalog:
    return RestCatalog("other", uri=catalogue.url)


def load(catalogue: RestCatalogue, namespace: str) -> Any:
    """Return the table as pyiceberg has it."""
    return connect_other(catalogue).load_table((*namespace.split("."), "public_Item"))


def described(table: Any) -> dict[str, tuple[str, str | None]]:
    return {field.name: (str(field.field_type), field.doc) for field in table.schema().fields}


def listed(ended: Ended) -> dict[str, dict[str, Any]]:
    assert ended.code == 0, ended
    return {row["table"]: row for row in map(json.loads, ended.output.splitlines())}


def test_others_see_names_types_and_comments(applied: AppliedTargets, catalogue: RestCatalogue) -> None:
    add_target(applied, catalogue, "lake.deep")
    make_table(applied, catalogue, "lake.deep")
    url = applied.captured.url
    command = ("cdc", "register-catalog", "iceberg", catalogue.url, "lake.deep", "--format", "jsonl", "--db", url)
    assert listed(rowtide(*command, "--dry-run"))["ice_public_Item"]["action"] == "correct"
    assert "comment" not in load(catalogue, "lake.deep").properties
    done = listed(rowtide(*command))
    assert {name: row["action"] for name, row in done.items()} == {
        "public_Item_CT": "leave out",
        "ice_public_Item": "correct",
    }
    assert "no Iceberg catalogue can have" in done["public_Item_CT"]["note"]
    assert listed(rowtide(*command))["ice_public_Item"]["action"] == "keep"
    table = load(catalogue, "lake.deep")
    assert (table.properties["comment"], described(table)) == (COMMENT, COLUMNS)
    assert {field.name: field.field_id for field in table.schema().fields} == {"id": 1, "a, b": 2, "made": 3}


def test_a_column_that_is_added_meanwhile_stays(applied: AppliedTargets, catalogue: RestCatalogue) -> None:
    add_target(applied, catalogue, "busy")
    make_table(applied, catalogue, "busy")
    names = iter(("more", "most"))

    def add_column() -> None:
        if name := next(names, None):
            with load(catalogue, "busy").update_schema() as update:
                update.add_column(name, IntegerType(), "its own comment")

    with relayed(catalogue, before_commit=add_column) as other:
        done = connect(applied.captured.url).register_catalog("iceberg", other.url, "busy")
    assert {table.table: table.action for table in done.tables}["ice_public_Item"] == "correct"
    added = dict.fromkeys(("more", "most"), ("int", "its own comment"))
    assert described(load(catalogue, "busy")) == {**COLUMNS, **added}


def test_nothing_of_others_is_touched_or_shown(
    applied: AppliedTargets, catalogue: RestCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = connect(applied.captured.url)
    with pytest.raises(CatalogueNamespaceUnknown, match="no namespace nowhere"):
        database.register_catalog("iceberg", catalogue.url, "nowhere")
    add_target(applied, catalogue, "foreign")
    make_table(applied, catalogue, "foreign", owner="another database's")
    with pytest.raises(NothingForCatalogue, match="namespace foreign"):
        database.register_catalog("iceberg", catalogue.url, "foreign")
    assert "comment" not in load(catalogue, "foreign").properties
    with relayed(catalogue, token="s3cret") as closed:
        with pytest.raises(CatalogueRefused, match="not for you") as refused:
            database.register_catalog("iceberg", closed.url, "foreign")
        assert "ROWTIDE_CATALOG_TOKEN" in refused.value.filled_hint
        monkeypatch.setenv("ROWTIDE_CATALOG_TOKEN", "s3cret")
        with pytest.raises(NothingForCatalogue):
            database.register_catalog("iceberg", closed.url, "foreign")
    for place in ("http://127.0.0.1:1", "thrift://127.0.0.1:1", "nonsense", "http://[", "http://u:s3cret@127.0.0.1:1"):
        with pytest.raises(CatalogueUnreachable) as unreachable:
            database.register_catalog("iceberg", place, "foreign")
        assert "s3cret" not in str(unreachable.value)
    monkeypatch.setenv("ROWTIDE_CATALOG_TOKEN", "s3cret\n")
    with pytest.raises(CatalogueUnreachable) as unreachable:
        database.register_catalog("iceberg", catalogue.url, "foreign")
    assert "s3cret" not in str(unreachable.value)


@pytest.mark.exhaustive
def test_each_apply_is_in_the_catalogue_at_once(applied: AppliedTargets, catalogue: RestCatalogue) -> None:
    captured = applied.captured
    add_target(applied, catalogue, "shop.deep")
    applied.follow()
    # Made by itself: other catalogues have no namespace without the one that it is in.
    assert "owner" in json.loads(catalogue.ask("GET", "/v1/namespaces/shop")[1])["properties"]
    connect(captured.url).register_catalog("iceberg", catalogue.url, "shop.deep")
    table = load(catalogue, "shop.deep")
    assert (table.properties["comment"], described(table)) == (COMMENT, COLUMNS)
    assert table.scan().to_arrow()["id"].to_pylist() == [1]
    captured.execute('update "Item" set id = 2', 'insert into "Item" values (3)')
    applied.follow()
    table = load(catalogue, "shop.deep")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3]
    assert described(table) == COLUMNS
    spark = captured.spark.newSession()
    spark.conf.set("spark.sql.catalog.reader", "org.apache.iceberg.spark.SparkCatalog")
    for option, value in catalogue.settings.items():
        spark.conf.set(f"spark.sql.catalog.reader.{option}", value)
    shown = spark.sql("describe reader.shop.deep.public_Item").collect()
    assert {row["col_name"]: row["comment"] for row in shown} == {name: doc for name, (_, doc) in COLUMNS.items()}
    assert sorted(row["id"] for row in spark.table("reader.shop.deep.public_Item").collect()) == [2, 3]


@pytest.mark.exhaustive
def test_a_catalogue_without_branches_is_said(applied: AppliedTargets, catalogue: RestCatalogue) -> None:
    with relayed(catalogue, has_branches=False) as other:
        add_target(applied, other, "plain")
        applied.follow()
        note = applied.notes()["public_Item"]
    assert note is not None
    assert note.startswith("RT-8162")
    assert load(catalogue, "plain").current_snapshot() is None
