"""Tables that need Spark, read by readers that know nothing of rowtide: as the page says, all rows or none.

Targets with the features that Delta's properties switch on, with partitions, and in Iceberg tables, after columns were
widened, added, renamed and dropped; and tables of other programs, which rowtide refuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.lakes.delta_tables import own
from builders.lakes.outside_readers import as_arrow, compare, find_differences, load_functions
from rowtide.delta.errors import TableUnreadable
from rowtide.targets.options import ApplyEngine, TargetFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = (
    "create table item (id int primary key, n smallint, note text, gone text)",
    "create table wide (id int primary key, n smallint, rough real)",
    "create table stamped (id int primary key, at timestamp, seen timestamptz, day date, amount numeric(12, 2))",
    'create table odd (id int primary key, "a, b" text, "it\'s ""q""" text, "ünï" text)',
    "insert into item select n, n, 'note', 'gone' from generate_series(1, 9) n",
    "insert into wide values (1, 1, 1.5)",
    "insert into stamped values (1, '2020-01-01 00:00:00.123456', '2020-01-01 00:00:00.123456+00', '2020-01-01', 1.5)",
    r"""insert into odd select place, 'a', kind, 'u' from unnest(
    array['a', ' ', 'null', 'a/b=c%20', e'é\n\'"\\', '0', '.', null]) with ordinality as _ (kind, place)""",
)
CHANGES = (
    # Before the others: it writes all rows again, and leaves no deletion vector.
    "alter table item drop column gone",
    "update item set n = -n where id < 3",
    "delete from item where id = 3",
    "alter table item rename note to renamed",
    "alter table item add column added text",
    "alter table wide alter n type bigint, alter rough type float8",
    "insert into wide values (2, 5000000000, 1e300)",
    "insert into stamped values (2, 'infinity', '0001-01-01', '9999-12-31', 'NaN')",
    "insert into odd values (20, 'b', 'r', 'v')",
    "delete from odd where id = 2",
)
DELETION_VECTORS, CHECKPOINTS = "deletion vectors", "v2 checkpoint"
PROPERTIES = {
    DELETION_VECTORS: {"delta.enableDeletionVectors": "true"},
    CHECKPOINTS: {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"},
    "writers' features": {"delta.enableChangeDataFeed": "true", "delta.enableInCommitTimestamps": "true"},
}
"""Those of tables that are examples of a feature."""
READERS = [f"read_with_{name}" for name in ("delta_rs", "polars", "duckdb", "datafusion", "spark")]
INSTANCES = ("public_item", "public_wide", "public_stamped", "public_odd")
NAMES = {'it\'s "q"': "kind", "a, b": "a_b"}


@pytest.fixture(autouse=True)
def planner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars says that another planner of Iceberg scans would be faster, and takes pyiceberg's."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")


def find_wrong(spark: SparkSession, tables: dict[str, tuple[Path, str]]) -> list[str]:
    """Return what readers find that is other than what Spark does, or than the page says."""

    def read(path: Path) -> pa.Table:
        return as_arrow(spark.read.format("delta").load(str(path)))

    return find_differences(tables, READERS, read)


def find_wrong_in_iceberg(applied: AppliedTargets, target: str, *instances: str) -> list[str]:
    """Return what pyiceberg and Polars find that is other than what Spark does."""
    functions = load_functions()
    found = []
    for instance in instances:
        wanted = as_arrow(applied.targets.read(target, instance, spark=applied.captured.spark))
        for name in ("read_iceberg", "read_iceberg_with_polars", "read_iceberg_with_duckdb"):
            rows = as_arrow(functions[name](str(applied.folder / target / target / instance)))
            difference = compare(rows, wanted)
            found += [f"{name} of {instance}: {difference}"] if difference is not None else []
    return found


def test_tables_of_other_programs_are_refused_as_said(spark: SparkSession, tmp_path: Path) -> None:
    """Also by rowtide's own reader, which does not know them."""
    tables = {}
    for feature, named in ((DELETION_VECTORS, "deletion vectors"), (CHECKPOINTS, "v2Checkpoint")):
        tables[feature] = path, _ = tmp_path / feature.replace(" ", "_"), feature
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES[feature].items())
        spark.sql(f"create table delta.`{path}` (id bigint) using delta tblproperties ({listed})")
        spark.sql(f"insert into delta.`{path}` select id from range(0, 20, 1, 1)")
        spark.sql(f"delete from delta.`{path}` where id in (3, 4)")
        with pytest.raises(TableUnreadable, match=named):
            own(path).read()
    assert find_wrong(spark, tables) == []
    assert any(file.has_deletion_vector for file in own(tables[DELETION_VECTORS][0]).files.values())


@pytest.mark.exhaustive
def test_all_targets_of_spark_are_read_or_refused_as_said(captured: CapturedDatabase) -> None:
    captured.execute(*SOURCE)
    captured.enable("item", "wide", "stamped", "odd", snapshot=True)
    captured.copy_tables()
    applied = AppliedTargets(captured)
    for number, properties in enumerate(PROPERTIES.values()):
        applied.add(f"with_{number}", "public_item", table_properties=properties)
    applied.add("plain", *INSTANCES)
    applied.add("mapped_feed", "public_odd", table_properties={"delta.enableChangeDataFeed": "true"})
    applied.add("mapped_rows", "public_odd", table_properties={"delta.enableRowTracking": "true"})
    parted: Any = {"rename": NAMES, "partition_by": ("kind",)}
    applied.add("parted", "public_odd", engine=ApplyEngine.SPARK, **parted)
    applied.add("history", *INSTANCES, kind="history", engine=ApplyEngine.SPARK)
    applied.add("history_parted", "public_odd", kind="history", engine=ApplyEngine.SPARK, **parted)
    applied.add("berg", *INSTANCES, format=TargetFormat.ICEBERG)
    applied.add("berg_history", *INSTANCES, kind="history", format=TargetFormat.ICEBERG)
    applied.add("berg_parted", "public_odd", format=TargetFormat.ICEBERG, **parted)
    applied.follow()
    captured.execute(*CHANGES)
    applied.follow()
    assert set(applied.notes().values()) == {None}

    tables = {f: (applied.folder / f"with_{number}" / "public_item", f) for number, f in enumerate(PROPERTIES)}
    features = ("plain", "plain", "timestamps", "mapped")
    tables |= {
        f"{target} {instance}": (applied.folder / target / instance, feature)
        for target in ("plain", "history")
        for instance, feature in zip(INSTANCES, features, strict=True)
    }
    tables |= {name: (applied.folder / name / "public_odd", "mapped") for name in ("mapped_feed", "mapped_rows")}
    tables |= {name: (applied.folder / name / "public_odd", "plain") for name in ("parted", "history_parted")}
    found = find_wrong(captured.spark, tables)
    for target, instances in (("berg", INSTANCES), ("berg_history", INSTANCES), ("berg_parted", ("public_odd",))):
        found += find_wrong_in_iceberg(applied, target, *instances)
    assert found == []
