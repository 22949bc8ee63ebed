"""Changes of a PostgreSQL database as DataFrames, typed as its change tables are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from rowtide.tracking import ChangeTracking
from rowtide.tracking.errors import DevicesFailed
from rowtide.tracking.spark import read_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = {
    "small smallint": ("smallint", "7", "7", None),
    "price numeric(8, 2)": ("decimal(8,2)", "1.10", "1.10", None),
    "worse numeric(8, 2)": ("decimal(8,2)", "NaN", None, "NaN"),
    "free numeric": ("string", "1.10", "1.10", None),
    "flag boolean": ("boolean", "true", "true", None),
    "bytes bytea": ("binary", r"\x00ff", "00FF", None),
    "padded character(4)": ("string", "a", "a   ", None),
    "day date": ("date", "2026-02-28", "2026-02-28", None),
    "ever date": ("date", "infinity", None, "infinity"),
    "past date": ("date", "0044-03-15 BC", None, "0044-03-15 BC"),
    "at timestamp": ("timestamp_ntz", "2026-02-28 12:00:00.5", "2026-02-28 12:00:00.5", None),
    "late timestamp": ("timestamp_ntz", "20026-02-28 12:00", "+20026-02-28 12:00:00", None),
    "moment timestamptz": ("timestamp", "2026-02-28 12:00+02", "2026-02-28 10:00:00", None),
    "never timestamptz": ("timestamp", "-infinity", None, "-infinity"),
    "span interval": ("string", "1 mon 2 days", "P1M2D", None),
    "list integer[]": ("string", "{1,NULL}", "{1,NULL}", None),
    "document jsonb": ("string", '{"a": 1}', '{"a": 1}', None),
    "guid uuid": ("string", "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000a", None),
    "reach int4range": ("string", "[1,5)", "[1,5)", None),
    "amount positive": ("int", "3", "3", None),
}


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[1:-1]) for row in frame.collect()), key=repr)


def test_values_are_typed_as_in_change_tables_or_kept_as_text(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create domain positive as int check (value > 0)")
        program.execute(f"create table t (id int primary key, {', '.join(TYPES)})".encode())
        tracking = ChangeTracking(program)
        tracking.enable_tracking("t")
        places = ", ".join(["%s"] * len(TYPES))
        names = ", ".join(declared.split()[0] for declared in TYPES)
        values = [given for _, given, _, _ in TYPES.values()]
        program.execute(f"insert into t (id, {names}) values (1, {places})".encode(), values)
    frame = read_changes(database, "t", spool=str(tmp_path), spark=spark)["t"]

    expected = {declared.split()[0]: rest for declared, rest in TYPES.items()}
    assert {name: dict(frame.dtypes)[name] for name in expected} == {name: rest[0] for name, rest in expected.items()}
    texts = [f"hex({name})" if rest[0] == "binary" else f"cast({name} as string)" for name, rest in expected.items()]
    (row,) = frame.selectExpr("`__$exact`", *texts).collect()
    assert dict(zip(expected, row[1:], strict=True)) == {name: rest[2] for name, rest in expected.items()}
    assert row[0] == {name: rest[3] for name, rest in expected.items() if rest[3] is not None}


@pytest.mark.exhaustive
def test_changes_of_several_tables_share_a_snapshot_and_anchor(
    spark: SparkSession, database: str, tmp_path: Path
) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create table parents (id int primary key, name text)")
        program.execute("create table children (id int primary key, parent int references parents)")
        tracking = ChangeTracking(program)
        tracking.enable_tracking("parents")
        tracking.enable_tracking("children")
        program.execute("insert into parents values (1, 'one')")
        program.execute("insert into children values (10, 1)")
        first = read_changes(database, ["parents", "public.children"], spool=str(tmp_path), spark=spark)
        program.execute("delete from children")
        program.execute("update parents set id = 2")
        program.execute("insert into children values (20, 2)")

        assert rows(first["parents"]) == [(2, 1, "one")]
        assert rows(first["public.children"]) == [(2, 10, 1)]
        then = read_changes(database, ["parents", "public.children"], first.anchors, spool=str(tmp_path), spark=spark)
    assert rows(then["parents"]) == [(1, 1, None), (2, 2, "one")]
    assert rows(then["public.children"]) == [(1, 10, None), (2, 20, 2)]


def test_a_password_is_in_no_name(spark: SparkSession, database: str, tmp_path: Path) -> None:
    secret = f"{database}{'&' if '?' in database else '?'}password=secret"
    with psycopg.connect(database, autocommit=True) as program:
        program.execute("create table t (id int primary key)")
        program.execute("insert into t values (1)")
        with pytest.raises(DevicesFailed) as raised:
            read_changes(secret, "t", spool=str(tmp_path), spark=spark)
        ChangeTracking(program).enable_tracking("t")
    changes = read_changes(secret, "t", spool=str(tmp_path), spark=spark)

    (device,) = changes.anchors
    assert changes["t"].first() is not None
    assert [row[0] for row in changes["t"].collect()] == [device]
    assert "RT-22105" in str(raised.value)
    assert "secret" not in f"{raised.value} {device}"
