"""Applies without Spark: what they leave is what the source has, whatever came before."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.formats import forget_format
from builders.lakes.delta_tables import write_commit
from builders.lakes.slice_models import found_slices, slices_of, states_by_change
from builders.values.random_rows import write_randomly
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.recorded_snapshots import read_snapshots
from rowtide.delta.formats import FORMAT
from rowtide.delta.replay import RemoveFile
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.delta.writing.alteration import set_properties
from rowtide.lake.stores import locate
from rowtide.targets import Targets

KEYS, COLUMNS = ("id",), ("id", "name", "amount", "document")


@pytest.fixture
def applied(copied: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> AppliedTargets:
    """Targets that may not ask for Spark."""

    def refuse(_targets: object, _spark: object = None) -> NoReturn:
        raise AssertionError("Spark is asked for")

    monkeypatch.setattr(Targets, "make_spark", refuse)
    return AppliedTargets(copied)


def follow(applied: AppliedTargets) -> None:
    applied.captured.capture()
    applied.targets.apply()
    assert set(applied.notes().values()) == {None}


def open_table(applied: AppliedTargets, target: str, instance: str) -> Snapshot:
    found = open_snapshot(locate(str(applied.folder / target / instance)))
    assert found is not None
    return found


def read(applied: AppliedTargets, target: str, instance: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = open_table(applied, target, instance).read(list(columns) or None).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def assert_parted(table: Snapshot, columns: tuple[str, ...]) -> None:
    """Every file has rows of one partition, which its entry in the log says, and none of its values."""
    table.require_readable()
    assert table.metadata.partition_columns == list(columns)
    for file in table.files.values():
        assert set(file.partition_values) == set(columns)
        assert not set(file.statistics["nullCount"]) & set(columns)
        for column, text in file.partition_values.items():
            rows = [value for batch in table.stream_file(file, [column]) for value in batch[column].to_pylist()]
            assert rows
            assert {str(value).lower() if value is not None else None for value in rows} == {text}


def test_a_table_waits_for_a_copy_that_is_whole_only_later(
    applied: AppliedTargets, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = applied.captured
    captured.execute("create table item (id int primary key, name text)", "insert into item values (1, 'a')")
    captured.enable("item", snapshot=True)
    captured.copy_tables()
    applied.add("now", "public_item", kind="history")
    published, recorded = PublishedLake(str(captured.lake)).get_published_instances()
    (snapshot,) = read_snapshots(str(captured.lake))[recorded["public_item"].instance.member_id]
    assert snapshot.covered is not None
    before = replace(published, lsn=snapshot.covered.decrement())
    with monkeypatch.context() as earlier:
        # An apply looks at what is published, and then at the copies, one of which has ended meanwhile.
        earlier.setattr(PublishedLake, "get_published_instances", lambda _lake: (before, recorded))
        applied.targets.apply()
        assert open_snapshot(locate(str(applied.folder / "now" / "public_item"))) is None
    follow(applied)
    assert read(applied, "now", "public_item", "id", "name") == [(1, "a")]


def test_a_table_of_another_format_is_left_as_it_is(applied: AppliedTargets) -> None:
    captured, numbers = applied.captured, {"newer": "RT-1134", "readable": "RT-1134", "unnumbered": "RT-1136"}
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    captured.execute("insert into item values (1, 'a')")
    for target in numbers:
        applied.add(target, "public_item")
    follow(applied)
    folders = {target: applied.folder / target / "public_item" for target in numbers}
    set_properties(locate(str(folders["newer"])), {FORMAT: "2/2/2"})
    set_properties(locate(str(folders["readable"])), {FORMAT: "2/1/2"})
    forget_format(folders["unnumbered"])
    before = {path: path.read_bytes() for path in applied.folder.rglob("*") if path.is_file()}

    captured.execute("insert into item values (2, 'b')")
    captured.capture()
    applied.targets.apply()

    assert {path: path.read_bytes() for path in applied.folder.rglob("*") if path.is_file()} == before
    assert {one.target: (one.note or "")[:7] for one in applied.targets.list_targets()} == numbers
    for target in numbers:
        applied.targets.drop(target)
    assert applied.targets.list_targets() == ()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 9))])
def test_a_current_table_has_the_rows_of_its_source(applied: AppliedTargets, seed: int) -> None:
    chance, captured = random.Random(seed), applied.captured
    captured.execute("create table item (id int primary key, name text, amount int, document text)")
    captured.enable("item")
    applied.add("now", "public_item")
    partitions = chance.choice((("name",), ("amount", "name"), ("id",)))
    applied.add("parted", "public_item", partition_by=partitions)
    for _ in range(3):
        for _ in range(chance.randint(1, 6)):
            write_randomly(captured, "item", chance)
        follow(applied)
        source = captured.execute(f"select {', '.join(COLUMNS)} from item")
        for target in ("now", "parted"):
            assert read(applied, target, "public_item", *COLUMNS) == sorted(source, key=repr)
    assert_parted(open_table(applied, "parted", "public_item"), partitions)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 9))])
def test_a_history_has_the_slices_of_its_source(applied: AppliedTargets, seed: int) -> None:
    chance, captured = random.Random(seed), applied.captured
    captured.execute("create table item (id int primary key, name text, amount int, document text)")
    captured.enable("item")
    applied.add("past", "public_item", kind="history")
    partitions = chance.choice((("is_current",), ("name", "is_current"), ("amount",), ("id",)))
    applied.add("parted", "public_item", kind="history", partition_by=partitions)
    for _ in range(3):
        for _ in range(chance.randint(1, 6)):
            write_randomly(captured, "item", chance, truncates=False)
        follow(applied)
        states = states_by_change(captured, "public_item", KEYS, COLUMNS)
        for target in ("past", "parted"):
            slices = open_table(applied, target, "public_item").read().to_pylist()
            assert found_slices(slices, KEYS, COLUMNS) == slices_of(states)
            assert len(slices) == len(slices_of(states))
    assert_parted(open_table(applied, "parted", "public_item"), partitions)


@pytest.mark.exhaustive
def test_columns_that_are_not_tracked_alter_a_slice(applied: AppliedTargets) -> None:
    captured = applied.captured
    captured.execute(
        "create table item (id int primary key, name text, amount int)",
        "insert into item values (1, 'a', 1), (2, 'b', 2)",
    )
    captured.cdc.enable_db(str(captured.lake))
    captured.cdc.enable_table("item", snapshot=True)
    captured.cdc.run(once=True)
    applied.add("past", "public_item", kind="history", track_history_except_column_list=("amount",))
    follow(applied)
    columns = ("id", "name", "amount", "is_current")
    captured.execute("update item set amount = 3 where id = 1", "update item set amount = 4")
    follow(applied)
    assert read(applied, "past", "public_item", *columns) == [(1, "a", 4, True), (2, "b", 4, True)]
    captured.execute(
        "update item set amount = 5", "update item set name = 'c' where id = 2", "delete from item where id = 1"
    )
    follow(applied)
    assert read(applied, "past", "public_item", *columns) == [(1, "a", 5, False), (2, "b", 5, False), (2, "c", 5, True)]
    times = open_table(applied, "past", "public_item").read(["valid_from_time", "valid_to_time"])
    assert [column.null_count for column in times.columns] == [0, 1]


@pytest.mark.exhaustive
def test_keys_of_several_types_and_renamed_columns(applied: AppliedTargets) -> None:
    captured = applied.captured
    captured.execute(
        "create table pair (a text, b numeric(6, 2), c timestamptz, d float8, e int, primary key (c, a, b, d))",
        "insert into pair select n % 3, n / 4.0, '2026-01-01'::timestamptz + n * interval '1 hour', -n / 2, n "
        "from generate_series(0, 99) n",
    )
    captured.cdc.enable_db(str(captured.lake))
    captured.cdc.enable_table("pair", snapshot=True)
    captured.cdc.run(once=True)
    applied.add("now", "public_pair", rename={"a": "A b", "e": "value"})
    for statement in (
        "update pair set e = e + 1 where e % 5 = 0",
        "delete from pair where b < 3",
        "update pair set a = 'x', d = '-infinity' where e % 7 = 0",
        "insert into pair values ('y', 1, now(), 'NaN', 1)",
        "truncate pair",
        "insert into pair values ('z', 1, now(), 0, 1)",
    ):
        captured.execute(statement)
        follow(applied)
        # Texts: no NaN equals another.
        source = captured.execute("select a, b, floor(extract(epoch from c))::bigint, d, e from pair")
        found = read(applied, "now", "public_pair", "A b", "b", "c", "d", "value")
        shown = [(a, b, int(c.timestamp()), d, e) for a, b, c, d, e in found]
        assert sorted(map(repr, shown)) == sorted(map(repr, map(tuple, source)))


def restore(applied: AppliedTargets, target: str, instance: str, version: int) -> None:
    """Restore a version of a table, as any client of Delta may."""
    location = locate(str(applied.folder / target / instance))
    now, then = open_table(applied, target, instance), open_snapshot(location, version)
    assert then is not None
    gone = [{"remove": RemoveFile.of(file).values(changes_data=True)} for file in now.files.values()]
    back = [{"add": file.values(changes_data=True)} for file in then.files.values()]
    said = {"commitInfo": {"operation": "RESTORE", "operationParameters": {"version": str(version)}}}
    write_commit(applied.folder / target / instance, now.version + 1, said, *gone, *back)


@pytest.mark.parametrize("kind", ["current", "history"])
def test_a_restored_table_gets_what_it_lost_again(applied: AppliedTargets, kind: str) -> None:
    """The transaction identifier stays, and says more than the table has."""
    captured = applied.captured
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    applied.add("kept", "public_item", kind=kind)
    for number in range(3):
        captured.execute(f"insert into item values ({number})", "update item set name = coalesce(name, '') || 'x'")
        follow(applied)
    restore(applied, "kept", "public_item", open_table(applied, "kept", "public_item").version - 2)
    captured.execute("delete from item where id = 1", "insert into item values (9)")
    follow(applied)
    open_rows = [(9, None)] if kind == "current" else [(9, None, True)]
    columns = ("id", "name") if kind == "current" else ("id", "name", "is_current")
    found = read(applied, "kept", "public_item", *columns)
    assert [row for row in found if row[-1] is not False] == sorted(
        [(0, "xxx", *open_rows[0][2:]), (2, "x", *open_rows[0][2:]), *open_rows], key=repr
    )
    if kind == "history":
        assert len(found) == 10


def test_rows_that_others_changed_stop_a_table_without_copy(applied: AppliedTargets) -> None:
    captured = applied.captured
    captured.execute("create table item (id int primary key)", "insert into item values (1)")
    captured.enable("item")
    applied.add("now", "public_item")
    captured.execute("insert into item values (2)")
    follow(applied)
    known = open_table(applied, "now", "public_item")
    gone = [{"remove": RemoveFile.of(file).values(changes_data=True)} for file in known.files.values()]
    write_commit(
        applied.folder / "now" / "public_item", known.version + 1, {"commitInfo": {"operation": "DELETE"}}, *gone
    )
    captured.execute("insert into item values (3)")
    captured.capture()
    applied.targets.apply()
    assert str(applied.notes()["public_item"]).startswith("RT-9012: another client changed rows of the table of")
    restore(applied, "now", "public_item", known.version)
    captured.execute("insert into item values (4)")
    follow(applied)
    assert read(applied, "now", "public_item") == [(2,), (3,), (4,)]


def test_a_key_that_its_type_cannot_hold_stops_a_table(applied: AppliedTargets) -> None:
    captured = applied.captured
    captured.execute("create table item (id timestamptz primary key)", "insert into item values ('infinity')")
    captured.enable("item", snapshot=True)
    captured.copy_tables()
    applied.add("now", "public_item")
    captured.capture()
    applied.targets.apply()
    note = applied.notes()["public_item"]
    assert str(note).startswith("RT-9007: the table of public_item in target now cannot identify rows")


@pytest.mark.exhaustive
def test_many_small_files_become_one(applied: AppliedTargets) -> None:
    captured = applied.captured
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    applied.add("now", "public_item")
    for number in range(18):
        captured.execute(f"insert into item values ({number})")
        follow(applied)
    table = open_table(applied, "now", "public_item")
    assert len(table.files) < 5
    assert table.read().num_rows == 18


@pytest.mark.exhaustive
def test_a_file_without_any_of_the_keys_stays(applied: AppliedTargets) -> None:
    captured = applied.captured
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    applied.add("now", "public_item")
    for first in (1, 101):
        captured.execute(f"insert into item select generate_series({first}, {first + 9})")
        follow(applied)
    before = set(open_table(applied, "now", "public_item").files)
    captured.execute("delete from item where id = 105")
    follow(applied)
    assert len(before & set(open_table(applied, "now", "public_item").files)) == 1
