"""Changes of device files as DataFrames: what comes, what belongs together, and what goes wrong on some devices."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from builders.tracking.device_files import Fleet, T
from rowtide.core.anchors import Anchor
from rowtide.tracking import ChangeTracking, PurgeType
from rowtide.tracking.errors import DevicesFailed, EnumerationFailed, NoDatabaseFound
from rowtide.tracking.spark import ChangeFrames, read_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INSERT = "insert into t (id, name, qty) values"
DELETE, INSERTED, UPDATED = 1, 2, 4


class Reader:
    """Who reads a fleet's changes again and again, and keeps the anchors as JSON."""

    def __init__(self, spark: SparkSession, fleet: Fleet, spool: Path) -> None:
        self.spark = spark
        self.fleet = fleet
        self.spool = spool
        self.kept = "{}"

    def read(self, *tables: str, **options: Any) -> ChangeFrames:
        """Read without keeping the next anchors."""
        options = {"spool": str(self.spool), "spark": self.spark, **options}
        return read_changes(self.fleet.pattern, tables or "t", json.loads(self.kept), **options)

    def keep(self, changes: ChangeFrames) -> None:
        self.kept = json.dumps(changes.anchors)

    def next(self, *tables: str, **options: Any) -> ChangeFrames:
        """Read, and keep the next anchors."""
        changes = self.read(*tables, **options)
        self.keep(changes)
        return changes


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path / "devices")


@pytest.fixture
def reader(spark: SparkSession, fleet: Fleet, tmp_path: Path) -> Reader:
    return Reader(spark, fleet, tmp_path / "the {spool} of *")


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return a DataFrame's rows in order, a device by its file's name alone."""
    found = [(Path(row[0]).stem, *row[1:]) for row in frame.collect()]
    return sorted(found, key=repr)


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    """As above, without `__$exact`, where nothing is in it."""
    found = rows(frame)
    assert [row for row in found if row[-1] is not None] == []
    return [row[:-1] for row in found]


@pytest.mark.exhaustive
def test_new_device_is_copied_whole_and_others_send_changes(fleet: Fleet, reader: Reader) -> None:
    fleet.add("a")
    fleet.add("b")
    fleet.write("a", f"{INSERT} (1, 'one', 10), (2, 'two', 20), (3, 'three', 30)")
    assert values(reader.next()["t"]) == [
        ("a", INSERTED, 1, "one", 10),
        ("a", INSERTED, 2, "two", 20),
        ("a", INSERTED, 3, "three", 30),
    ]

    fleet.write("a", "delete from t where id = 1", "update t set qty = null where id = 2")
    fleet.add("c")
    fleet.write("c", f"{INSERT} (1, 'new', 1)")
    changes = reader.next()
    assert values(changes["t"]) == [
        ("a", DELETE, 1, None, None),
        ("a", UPDATED, 2, "two", None),
        ("c", INSERTED, 1, "new", 1),
    ]
    assert changes["t"].dtypes == [
        ("__$device", "string"),
        ("__$operation", "int"),
        ("id", "bigint"),
        ("name", "string"),
        ("qty", "bigint"),
        ("__$exact", "map<string,string>"),
    ]
    assert set(changes.anchors) == {fleet.path(name) for name in "abc"}
    assert changes.failures == {}
    nothing = reader.next()
    assert values(nothing["t"]) == []
    assert nothing["t"].dtypes == changes["t"].dtypes


@pytest.mark.exhaustive
def test_failing_devices_do_not_affect_others_and_are_reported(fleet: Fleet, reader: Reader) -> None:
    for name in ("a", "copied", "damaged", "lost"):
        fleet.add(name)
    fleet.add("old", T, "create table u (id integer primary key)", tables=("t", "u"))
    reader.next()
    before = json.loads(reader.kept)
    for name in ("a", "lost", "old"):
        fleet.write(name, f"{INSERT} (1, 'one', 1)")
    Path(fleet.path("damaged")).write_bytes(b"no database at all" * 1000)
    fleet.write("lost", "drop trigger __sysTracking_t_update")
    fleet.write("old", "delete from t")
    with closing(sqlite3.connect(fleet.path("old"))) as program:
        purging = ChangeTracking(program)
        purging.purge_tombstone_table_data("t", PurgeType.CSN_BASED, purging.get_last_committed_csn())
    reader.kept = json.dumps(before | {fleet.path("copied"): str(Anchor(2, "0" * 32))})
    fleet.add("untracked", T, tables=())

    with pytest.raises(DevicesFailed, match="RT-6116: 5 of 6 databases could not be enumerated: .*copied.db: RT-1007"):
        reader.read()
    assert len(list(reader.spool.iterdir())) == 1, "what a refused call wrote is left over"
    changes = reader.read(keep_going=True)
    assert values(changes["t"]) == [("a", INSERTED, 1, "one", 1)]
    assert {Path(device).stem: failure.partition(":")[0] for device, failure in changes.failures.items()} == {
        "copied": "RT-1007",
        "damaged": "RT-1121",
        "lost": "RT-6106",
        "old": "RT-6105",
        "untracked": "RT-22105",
    }
    assert {name for name, anchor in changes.anchors.items() if anchor != before.get(name)} == {
        fleet.path("a"),
        fleet.path("copied"),
    }
    assert changes.anchors[fleet.path("copied")] == str(Anchor(2, "0" * 32))
    assert fleet.path("untracked") not in changes.anchors


@pytest.mark.exhaustive
def test_what_a_device_gave_before_it_failed_is_left_out(fleet: Fleet, reader: Reader) -> None:
    fill = f"{INSERT} (1, 'sound', 1)"
    many = (
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 20000) "
        "insert into t (id, name, qty) select i, 'row ' || i, i from n"
    )
    fleet.add("a")
    fleet.write("a", fill)
    fleet.add("damaged")
    fleet.write("damaged", many, "pragma wal_checkpoint(truncate)")
    damaged = Path(fleet.path("damaged"))
    content = bytearray(damaged.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 8192] = b"\xff" * 8192
    damaged.write_bytes(content)

    changes = reader.read(keep_going=True)
    assert changes.failures[str(damaged)].startswith("RT-1133: the database file")
    assert values(changes["t"]) == [("a", INSERTED, 1, "sound", 1)]
    spooled = reader.spark.read.option("recursiveFileLookup", "true").parquet(_escaped(changes.spool))
    assert spooled.where(f"device = '{damaged}' and operation = {INSERTED}").count() > 0


def _escaped(path: str) -> str:
    return "".join(f"\\{letter}" if letter in "{}*" else letter for letter in path)


def test_repeated_read_of_a_dataframe_is_equal_and_fits_anchors(fleet: Fleet, reader: Reader) -> None:
    fleet.add("a")
    fleet.write("a", f"{INSERT} (1, 'one', 1)")
    changes = reader.next()
    first = values(changes["t"])
    fleet.write("a", "update t set qty = 2", f"{INSERT} (2, 'two', 2)")

    assert values(changes["t"]) == first == [("a", INSERTED, 1, "one", 1)]
    assert values(reader.next()["t"]) == [("a", INSERTED, 2, "two", 2), ("a", UPDATED, 1, "one", 2)]


@pytest.mark.exhaustive
def test_a_call_with_the_same_anchors_gives_all_changes_again(fleet: Fleet, reader: Reader) -> None:
    fleet.add("a")
    reader.next()
    fleet.write("a", f"{INSERT} (1, 'one', 1)")
    crashed = reader.read()
    assert values(crashed["t"]) == [("a", INSERTED, 1, "one", 1)]
    crashed.discard()
    assert not Path(crashed.spool).exists()
    fleet.write("a", "update t set qty = 2", f"{INSERT} (2, 'two', 2)")

    assert values(reader.next()["t"]) == [("a", INSERTED, 1, "one", 2), ("a", INSERTED, 2, "two", 2)]
    assert values(reader.next()["t"]) == []


@pytest.mark.exhaustive
def test_own_changes_are_excluded_and_a_table_is_copied_whole(fleet: Fleet, reader: Reader) -> None:
    fleet.add("a")
    mine = uuid4()
    anchors = reader.next().anchors
    with closing(sqlite3.connect(fleet.path("a"), isolation_level=None)) as program:
        seen = Anchor.parse(anchors[fleet.path("a")])
        with ChangeTracking(program).transaction(mine, seen=seen):
            program.execute(f"{INSERT} (1, 'mine', 1)")
    fleet.write("a", f"{INSERT} (2, 'theirs', 2)")

    assert values(reader.read(exclude_context=mine)["t"]) == [("a", INSERTED, 2, "theirs", 2)]
    assert len(values(reader.next()["t"])) == 2
    assert values(reader.next()["t"]) == []
    assert len(values(reader.next(whole=["t"])["t"])) == 2


def test_tables_are_read_in_one_snapshot_with_one_anchor(fleet: Fleet, reader: Reader) -> None:
    parents = "create table parents (id integer primary key, children integer)"
    children = "create table children (id integer primary key, parent integer)"
    fleet.add("a", parents, children, tables=("parents", "children"))
    fleet.write("a", "insert into parents (id, children) values (1, 2)")
    fleet.write("a", "insert into children (id, parent) values (10, 1), (20, 1)")
    changes = reader.next("parents", "children")
    fleet.write("a", "delete from children", "delete from parents")

    assert values(changes["parents"]) == [("a", INSERTED, 1, 2)]
    assert values(changes["children"]) == [("a", INSERTED, 10, 1), ("a", INSERTED, 20, 1)]
    assert values(reader.next("parents", "children")["children"]) == [("a", DELETE, 10, None), ("a", DELETE, 20, None)]


@pytest.mark.exhaustive
def test_devices_with_other_columns_have_nulls_there(fleet: Fleet, reader: Reader) -> None:
    later = "create table t (id integer primary key, Name text, note text, qty integer)"
    for name in ("a", "b"):
        fleet.add(name)
        fleet.write(name, f"{INSERT} (1, 'one', 1)")
    fleet.add("later", later)
    fleet.write("later", "insert into t (id, name, note, qty) values (2, 'two', 'noted', 2)")
    changes = reader.next()

    assert changes["t"].columns == ["__$device", "__$operation", "id", "name", "qty", "note", "__$exact"]
    assert values(changes["t"]) == [
        ("a", INSERTED, 1, "one", 1, None),
        ("b", INSERTED, 1, "one", 1, None),
        ("later", INSERTED, 2, "two", 2, "noted"),
    ]
    fleet.write("a", "alter table t add column note text", "update t set note = 'mine too'")
    (changed,) = reader.next()["t"].select("name", "qty", "note").collect()
    assert tuple(changed) == ("one", 1, "mine too")


def test_column_has_the_most_declared_type_and_other_values_text(fleet: Fleet, reader: Reader) -> None:
    for name in ("a", "b"):
        fleet.add(name)
    fleet.write("a", f"{INSERT} (1, 'one', 1)")
    fleet.add("other", "create table t (id integer primary key, name text, qty text)")
    fleet.write("other", f"{INSERT} (2, 'two', 'twenty'), (3, 'three', null)")
    changes = reader.next()

    assert dict(changes["t"].dtypes)["qty"] == "bigint"
    assert rows(changes["t"]) == [
        ("a", INSERTED, 1, "one", 1, None),
        ("other", INSERTED, 2, "two", None, {"qty": "'twenty'"}),
        ("other", INSERTED, 3, "three", None, None),
    ]


HELD: list[tuple[str, str, str, str]] = [
    ("integer", "bigint", "-9223372036854775808", "-9223372036854775808"),
    ("int", "bigint", "'7'", "7"),
    ("real", "double", "0.1", "0.1"),
    ("real", "double", "9e999", "Infinity"),
    ("double", "double", "-1.7976931348623157e308", "-1.7976931348623157E308"),
    ("varchar(10)", "string", "'it''s \\ \"so\" ' || char(0, 10, 128578)", 'it\'s \\ "so" \0\n🙂'),
    ("text", "string", "''", ""),
    ("", "string", "'untyped'", "untyped"),
    ("json", "string", "'[1]'", "[1]"),
    ("blob", "binary", "X'00ff'", "00FF"),
    ("blob", "binary", "X''", ""),
    ("boolean", "boolean", "1", "true"),
    ("boolean", "boolean", "false", "false"),
    ("date", "date", "'2026-02-28'", "2026-02-28"),
    ("datetime", "timestamp_ntz", "'2026-02-28 23:59:59.123456'", "2026-02-28 23:59:59.123456"),
    ("timestamp", "timestamp_ntz", "'2026-02-28T23:59'", "2026-02-28 23:59:00"),
    ("decimal(10, 2)", "decimal(10,2)", "'12345678.90'", "12345678.90"),
    ("numeric(20)", "decimal(20,0)", "9223372036854775807", "9223372036854775807"),
    ("numeric", "double", "1.5", "1.5"),
]
MISFITS: list[tuple[str, str, str]] = [
    ("integer", "1.5", "1.5"),
    ("integer", "'seven'", "'seven'"),
    ("integer", "X'37'", "X'37'"),
    ("integer", "9e999", "9e999"),
    ("real", "'it''s'", "'it''s'"),
    ("text", "X'61'", "X'61'"),
    ("text", "cast(X'61ff' as text)", "cast(X'61ff' as text)"),
    ("", "1", "1"),
    ("json", "1.0", "1"),
    ("blob", "'a'", "'a'"),
    ("boolean", "2", "2"),
    ("boolean", "'true'", "'true'"),
    ("date", "'2026-02-30'", "'2026-02-30'"),
    ("date", "'2026-2-3'", "'2026-2-3'"),
    ("date", "20260228", "20260228"),
    ("datetime", "'2026-02-28 23:59:59+01:00'", "'2026-02-28 23:59:59+01:00'"),
    ("datetime", "'2026-02-28 23:59:59.1234567'", "'2026-02-28 23:59:59.1234567'"),
    ("datetime", "'2026-02-28'", "'2026-02-28'"),
    ("decimal(10, 2)", "0.125", "0.125"),
    ("decimal(10, 2)", "123456789", "123456789"),
    ("decimal(10, 2)", "'much'", "'much'"),
    ("numeric", "9007199254740993", "9007199254740993"),
]


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_value_is_exact_in_its_column_type_or_kept_as_literal(fleet: Fleet, reader: Reader, journal: str) -> None:
    written = [(type_text, value) for type_text, _, value, _ in HELD] + [(kind, value) for kind, value, _ in MISFITS]
    columns = ", ".join(f"c{place} {type_text}" for place, (type_text, _) in enumerate(written))
    fleet.add("a", f"create table t (id integer primary key, {columns})")
    fleet.write("a", f"pragma journal_mode = {journal}")
    names = ", ".join(f"c{place}" for place in range(len(written)))
    fleet.write("a", f"insert into t (id, {names}) values (1, {', '.join(value for _, value in written)})")
    frame = reader.next()["t"]
    as_text = ("hex(c{})" if type_name == "binary" else "cast(c{} as string)" for _, type_name, _, _ in HELD)
    (row,) = frame.selectExpr(
        *(f"{text.format(place)} as c{place}" for place, text in enumerate(as_text)),
        *(f"c{place}" for place in range(len(HELD), len(written))),
        "`__$exact` as exact",
    ).collect()

    types = dict(frame.dtypes)
    assert [types[f"c{place}"] for place in range(len(HELD))] == [held[1] for held in HELD]
    assert [row[f"c{place}"] for place in range(len(HELD))] == [held[3] for held in HELD]
    assert row.exact == {f"c{place}": text for place, (_, _, text) in enumerate(MISFITS, len(HELD))}
    assert {row[name] for name in row.exact} == {None}


def test_an_exact_text_is_the_literal_that_makes_the_value_again(fleet: Fleet, reader: Reader) -> None:
    fleet.add("a", "create table t (id integer primary key, v boolean)")
    chance = random.Random(7)
    kinds: list[Callable[[], object]] = [
        lambda: chance.randint(-(2**63), 2**63 - 1),
        lambda: chance.uniform(-1, 1) * 10.0 ** chance.randint(-300, 300),
        lambda: chance.choice([float("inf"), -float("inf")]),
        lambda: "".join(chance.choice("ab'\"\\\n🙂é") for _ in range(9)),
        lambda: chance.randbytes(9),
    ]
    given = {number: chance.choice(kinds)() for number in range(300)}
    with closing(sqlite3.connect(fleet.path("a"), isolation_level=None)) as program:
        program.executemany("insert into t (id, v) values (?, ?)", given.items())
        stored = dict(program.execute("select id, v from t").fetchall())
        found = {row["id"]: row["__$exact"]["v"] for row in reader.next()["t"].collect()}
        assert {number: program.execute(f"select {text}").fetchone()[0] for number, text in found.items()} == stored
    assert found.keys() == given.keys()


@pytest.mark.exhaustive
def test_replica_made_of_dataframes_equals_the_devices(fleet: Fleet, reader: Reader) -> None:
    chance = random.Random(20261122)
    replica: dict[tuple[str, int], tuple[Any, ...]] = {}
    for number in range(4):
        fleet.add(f"d{number}")
        for _ in range(2):
            for device in [path.stem for path in fleet.folder.glob("*.db")]:
                fleet.write(device, *(_random_statement(chance) for _ in range(chance.randint(0, 25))))
            changes = reader.read()
            _apply(replica, values(changes["t"]))
            if chance.random() < 0.7:  # else the applying process crashed before the anchors were stored
                reader.keep(changes)
    assert_equal(replica, fleet)


def assert_equal(replica: Mapping[tuple[str, int], tuple[Any, ...]], fleet: Fleet) -> None:
    for device in [path.stem for path in fleet.folder.glob("*.db")]:
        of_device = sorted(row for (name, _), row in replica.items() if name == device)
        assert of_device == sorted(fleet.rows(device))
    assert len(replica) > 20


def _random_statement(chance: random.Random) -> str:
    key, qty = chance.randint(1, 30), chance.randint(1, 1000)
    return chance.choice(
        [
            f"insert or replace into t (id, name, qty) values ({key}, 'name {qty}', {qty})",
            f"{INSERT} ({key}, 'name {qty}', {qty}) on conflict (id) do update set qty = excluded.qty",
            f"update t set qty = {qty} where id between {key} and {key + 3}",
            f"update or ignore t set id = {chance.randint(1, 30)} where id = {key}",
            f"delete from t where id = {key}",
        ]
    )


def _apply(replica: dict[tuple[str, int], tuple[Any, ...]], changes: Iterable[tuple[Any, ...]]) -> None:
    """Apply by key, again and again if need be: deletes of what is there, inserts and updates alike."""
    for device, operation, *row in changes:
        if operation == DELETE:
            replica.pop((device, row[0]), None)
        else:
            replica[device, row[0]] = tuple(row)


TASKS_MAY_FAIL = """
import json, sys
from pyspark.sql import SparkSession
from rowtide.tracking.spark import read_changes
with SparkSession.builder.master("local[2,3]").config("spark.ui.enabled", "false").getOrCreate() as spark:
    changes = read_changes(sys.argv[1], "t", spool=sys.argv[2], spark=spark)
    print(json.dumps([[list(row) for row in changes["t"].collect()], changes.anchors]))
"""


@pytest.mark.exhaustive
def test_rows_and_anchors_are_of_the_committed_task_attempt(fleet: Fleet, reader: Reader, tmp_path: Path) -> None:
    devices = [f"d{number}" for number in range(16)]
    for device in devices:
        fleet.add(device)
    mark, environment = tmp_path / "killed", {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment |= {"ROWTIDE_FAILPOINT": "sqlite_commit.after@2", "ROWTIDE_FAILPOINT_MARK": str(mark)}
    command = [sys.executable, "-c", TASKS_MAY_FAIL, fleet.pattern, str(reader.spool)]
    with writing_all_the_time(fleet, devices):
        ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found, anchors = json.loads(ended.stdout)
    assert mark.exists()

    replica: dict[tuple[str, int], tuple[Any, ...]] = {}
    _apply(replica, [(Path(device).stem, *row) for device, *row, _ in found])
    reader.kept = json.dumps(anchors)
    _apply(replica, values(reader.next()["t"]))
    assert_equal(replica, fleet)


@contextmanager
def writing_all_the_time(fleet: Fleet, devices: Sequence[str]) -> Iterator[None]:
    """Let a program write to the devices in turn for as long as the block runs."""
    chance, stop = random.Random(3), threading.Event()

    def write() -> None:
        while not stop.is_set():
            fleet.write(chance.choice(devices), *(_random_statement(chance) for _ in range(10)))

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        try:
            yield
        finally:
            stop.set()
        written.result()


@pytest.mark.exhaustive
def test_many_devices_are_few_tasks(fleet: Fleet, reader: Reader) -> None:
    fleet.add("d0")
    for number in range(1, 60):
        fleet.add(f"d{number}")
    fleet.write("d59", f"{INSERT} (1, 'last', 1)")
    changes = reader.next()

    assert values(changes["t"]) == [("d59", INSERTED, 1, "last", 1)]
    assert len(changes.anchors) == 60
    written = list(Path(changes.spool, "part=outcomes").glob("*.parquet"))
    assert len(written) <= 4 * reader.spark.sparkContext.defaultParallelism


def test_a_pattern_that_no_file_has_is_an_error(fleet: Fleet, reader: Reader) -> None:
    with pytest.raises(NoDatabaseFound, match=r'RT-6115: no database file matches ".*/\*.db"'):
        reader.read()
    with pytest.raises(NoDatabaseFound):
        read_changes([], "t", spool=str(reader.spool), spark=reader.spark)


def test_a_spool_that_cannot_be_written_is_an_error(fleet: Fleet, reader: Reader, tmp_path: Path) -> None:
    fleet.add("a")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EnumerationFailed, match="RT-6117: enumerating into .*file/.* failed in Spark"):
        reader.read(spool=str(tmp_path / "file"))


def test_a_file_is_one_device_by_whatever_name_it_is_given(
    fleet: Fleet, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fleet.add("a")
    fleet.write("a", f"{INSERT} (1, 'one', 1)")
    monkeypatch.chdir(fleet.folder)
    named = ["a.db", f"sqlite:///{path}", "sqlite:///a.db", fleet.pattern]
    changes = read_changes(named, "t", spool=str(reader.spool), spark=reader.spark)

    assert list(changes.anchors) == [path]
    assert values(changes["t"]) == [("a", INSERTED, 1, "one", 1)]
