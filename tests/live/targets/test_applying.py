"""Applying: exactly once whatever is interrupted, formats, options, and what stops one table alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.faults.failpoints import BRANCH_FAILPOINTS, TARGET_FAILPOINTS
from builders.lakes.delta_tables import own
from builders.lakes.slice_models import found_slices, slices_of, states_by_change
from builders.servers.rest_catalogues import running_rest_catalogue
from rowtide.cdc.errors.jobs import ConsumerOwned
from rowtide.delta.writing.widening_removal import is_marked
from rowtide.targets import CustomWindow, TargetFormat, Truncation
from rowtide.targets.definitions import TableState
from rowtide.targets.errors import TargetExists, TargetInvalid, TargetTableUnknown, TargetUnknown
from rowtide.targets.options import ApplyEngine

KEYS, COLUMNS = ("id",), ("id", "name")
WAYS = (
    (TargetFormat.DELTA, ApplyEngine.AUTO),
    (TargetFormat.DELTA, ApplyEngine.SPARK),
    (TargetFormat.ICEBERG, ApplyEngine.AUTO),
)


class Interrupted(BaseException):
    """Ends an apply where a kill would."""


def interrupt_at(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """Raise at a failpoint, in whichever module it is."""

    def failpoint(name: str) -> None:
        if name == wanted:
            raise Interrupted

    for module in ("formats.delta", "formats.iceberg", "direct.tables", "applying", "custom"):
        monkeypatch.setattr(f"rowtide.targets.{module}.failpoint", failpoint)


@pytest.fixture
def applied(captured: CapturedDatabase) -> AppliedTargets:
    """Tables item and other are captured, and have no rows."""
    for table in ("item", "other"):
        captured.execute(f"create table {table} (id int primary key, name text)")
    captured.enable("item", "other")
    return AppliedTargets(captured)


def verify_equal(applied: AppliedTargets) -> None:
    """Compare the tables of targets with the source."""
    for listed in applied.targets.list_targets():
        assert listed.state == TableState.MEMBER, listed.note
        if listed.kind == "current":
            source = applied.captured.execute(f"select id, name from {listed.instance.removeprefix('public_')}")
            assert applied.rows(listed.target, listed.instance, *COLUMNS) == sorted(source, key=repr)
        else:
            slices = slices_of(states_by_change(applied.captured, listed.instance, KEYS, COLUMNS))
            rows = applied.targets.read(listed.target, listed.instance, spark=applied.captured.spark).collect()
            assert found_slices((row.asDict() for row in rows), KEYS, COLUMNS) == slices
            assert len(rows) == len(slices)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("form", "engine", "failpoint"),
    [
        *((*way, failpoint) for way in WAYS for failpoint in TARGET_FAILPOINTS),
        *((TargetFormat.ICEBERG, ApplyEngine.AUTO, failpoint) for failpoint in BRANCH_FAILPOINTS),
    ],
)
def test_an_interrupted_apply_counts_once(
    applied: AppliedTargets,
    monkeypatch: pytest.MonkeyPatch,
    failpoint: str,
    form: TargetFormat,
    engine: ApplyEngine,
) -> None:
    applied.add("now", "public_item", "public_other", format=form, engine=engine)
    applied.add("past", "public_item", kind="history", format=form, engine=engine)
    for turn in range(2):
        for table in ("item", "other"):
            applied.captured.execute(
                f"insert into {table} select n, 'new' from generate_series({turn}0, {turn}5) n",
                f"update {table} set name = name || {turn} where id % 2 = {turn}",
                f"delete from {table} where id % 10 = 3",
            )
        with monkeypatch.context() as patched:
            interrupt_at(patched, failpoint)
            with pytest.raises(Interrupted):
                applied.follow()
        applied.captured.execute("update item set name = 'more' where id % 10 = 1")
        applied.follow()
    verify_equal(applied)


@pytest.fixture(params=["hadoop", "rest"])
def iceberg(request: pytest.FixtureRequest, applied: AppliedTargets) -> Iterator[Callable[[str], dict[str, Any]]]:
    """From a target's name to the options of an Iceberg catalogue."""
    if request.param == "hadoop":
        yield lambda _name: {"format": TargetFormat.ICEBERG}
        return
    with running_rest_catalogue(applied.folder) as catalogue:
        yield lambda name: {
            "format": TargetFormat.ICEBERG,
            "path": None,
            "catalog": f"shared.{name}",
            "catalog_options": catalogue.settings,
        }


@pytest.mark.exhaustive
def test_tables_in_iceberg_follow(
    applied: AppliedTargets, iceberg: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kind in (("now", "current"), ("past", "history")):
        applied.add(name, "public_item", "public_other", kind=kind, **iceberg(name))
    applied.captured.execute(
        "insert into item select n, 'x' from generate_series(1, 5) n", "update item set name = 'y' where id = 1"
    )
    applied.follow()
    applied.captured.execute(
        "update item set name = 'z' where id < 3", "delete from item where id = 4", "insert into other values (1, 'a')"
    )
    with monkeypatch.context() as patched:
        interrupt_at(patched, "target_commit.after")
        with pytest.raises(Interrupted):
            applied.follow()
    applied.captured.execute("truncate item", "insert into item values (9, 'last')")
    applied.follow()
    verify_equal(applied)


@pytest.mark.exhaustive
def test_columns_rows_and_truncates_are_what_options_say(applied: AppliedTargets) -> None:
    applied.captured.execute(
        "create table person (id int primary key, email text, phone text, state text, visits int)",
    )
    applied.captured.enable("person")
    options: dict[str, Any] = {
        "columns": {"email": "sha2(email, 256)", "domain": "substring_index(email, '@', -1)"},
        "rename": {"id": "person_id"},
        "except_column_list": ("phone",),
        "apply_as_deletes": "state = 'gone'",
    }
    applied.add("soft", "public_person", soft_delete="is_deleted", truncate=Truncation.KEEP, **options)
    applied.add("past", "public_person", kind="history", track_history_except_column_list=("visits",), **options)
    applied.captured.execute("insert into person values (1, 'a@x', '1', 'ok', 0), (2, 'b@y', '2', 'ok', 0)")
    applied.follow()
    applied.captured.execute(
        "update person set visits = 1 where id = 1",
        "update person set state = 'gone' where id = 2",
        "insert into person values (3, 'c@z', '3', 'ok', 0)",
    )
    applied.follow()
    found = applied.targets.read("soft", "public_person", spark=applied.captured.spark)
    assert set(found.columns) == {"person_id", "email", "state", "visits", "domain", "is_deleted"}
    assert applied.rows("soft", "public_person", "person_id", "domain", "visits", "is_deleted") == [
        (1, "x", 1, False),
        (2, "y", 0, True),
        (3, "z", 0, False),
    ]
    assert {len(row[0]) for row in applied.rows("soft", "public_person", "email")} == {64}
    # A change of a column that is not tracked alters the open slice.
    assert applied.rows("past", "public_person", "person_id", "visits", "is_current") == [
        (1, 1, True),
        (2, 0, False),
        (3, 0, True),
    ]
    applied.captured.execute("truncate person")
    applied.follow()
    assert [row for row in applied.rows("soft", "public_person", "person_id", "is_deleted") if not row[1]] == [
        (1, False),
        (3, False),
    ]
    assert {row[0] for row in applied.rows("past", "public_person", "is_current")} == {False}


class Totals:
    """A target that keeps a sum beside the LSN that it is of, in a SQLite file."""

    def __init__(self, target: str, options: Mapping[str, str]) -> None:
        self.database = sqlite3.connect(options["file"])
        self.database.execute("create table if not exists total (id text primary key, lsn int, names int)")

    def find_lsn(self, target_id: str) -> int | None:
        row = self.database.execute("select lsn from total where id = ?", [target_id]).fetchone()
        return row[0] if row else None

    def apply(self, window: CustomWindow) -> None:
        found = [
            row
            for instance in window.instances
            for row in window.stream_net_changes(instance, "all").to_arrow().read_all().to_pylist()
        ]
        if any(row["name"] == "bad" for row in found):
            raise ValueError("a bad name")
        added = sum((row["__$operation"] == 2) - (row["__$operation"] == 1) for row in found)
        with self.database:
            before = self.database.execute("select names from total where id = ?", [window.target_id]).fetchone()
            names = added + (before[0] if before else 0)
            self.database.execute("replace into total values (?, ?, ?)", [window.target_id, window.to.value, names])


def test_a_class_gets_each_window_once(applied: AppliedTargets, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(applied.captured.lake.parent / "totals.db")
    kind = f"python:{Totals.__module__}.{Totals.__qualname__}"
    applied.targets.add("totals", ["public_item", "public_other"], kind=kind, table_properties={"file": file})

    def count() -> int:
        with sqlite3.connect(file) as database:
            return int(database.execute("select names from total").fetchone()[0])

    applied.captured.execute("insert into item values (1, 'a'), (2, 'b')", "insert into other values (1, 'c')")
    with monkeypatch.context() as patched:
        interrupt_at(patched, "custom_apply.after")
        with pytest.raises(Interrupted):
            applied.follow()
    assert count() == 3
    applied.captured.execute("delete from item where id = 1")
    applied.follow()
    assert count() == 2
    applied.captured.execute("insert into item values (5, 'bad')")
    applied.follow()
    (listed, _) = applied.targets.list_targets()
    assert listed.state == TableState.STOPPED
    assert "RT-9011" in str(listed.note)
    assert count() == 2


@pytest.mark.exhaustive  # a class that stops is in the test before
def test_what_cannot_follow_stops_one_table_alone(applied: AppliedTargets) -> None:
    applied.add("shop", "public_item", "public_other", columns={"public_item.number": "cast(name as int)"})
    applied.captured.execute("insert into item values (1, '1')", "insert into other values (1, 'a')")
    applied.follow()
    assert applied.notes() == {"public_item": None, "public_other": None}
    applied.captured.execute("insert into item values (2, 'two')", "insert into other values (2, 'b')")
    applied.follow()
    notes = applied.notes()
    assert "RT-9008" in str(notes["public_item"])
    assert notes["public_other"] is None
    assert len(applied.rows("shop", "public_other")) == 2
    with pytest.raises(TargetTableUnknown):
        applied.rows("shop", "public_item")
    # It rejoins once it can be computed again.
    applied.captured.execute("delete from item where id = 2")
    applied.follow()
    assert applied.notes() == {"public_item": None, "public_other": None}
    assert applied.rows("shop", "public_item", "id", "number") == [(1, 1)]


@pytest.mark.exhaustive  # the statements are Delta's own
@pytest.mark.parametrize("options", [{}, {"cluster_by": ("id",)}])
def test_types_widen_with_the_source(applied: AppliedTargets, options: dict[str, Any]) -> None:
    applied.add("now", "public_item", **options)
    applied.captured.execute("insert into item values (1, 'a')")
    applied.follow()
    applied.captured.execute("alter table item alter id type bigint", "insert into item values (5000000000, 'b')")
    applied.follow()
    assert applied.notes() == {"public_item": None}
    assert applied.rows("now", "public_item") == [(1, "a"), (5000000000, "b")]
    # What our own commits cannot write stays marked.
    assert is_marked(own(applied.folder / "now" / "public_item")) is bool(options)
    applied.captured.execute("update item set name = 'c' where id = 1")
    applied.follow()
    assert applied.rows("now", "public_item") == [(1, "c"), (5000000000, "b")]


def test_definitions_are_checked(applied: AppliedTargets) -> None:
    applied.add("now", "public_item")
    with pytest.raises(TargetExists):
        applied.add("now", "public_other")
    with pytest.raises(TargetInvalid, match="neither a path"):
        applied.add("nowhere", "public_other", path=None)
    with pytest.raises(TargetInvalid, match="there is no kind past"):
        applied.add("odd", "public_other", kind="past")
    with pytest.raises(ConsumerOwned):
        applied.captured.cdc.drop_consumer("target:now")
    applied.targets.drop("now")
    with pytest.raises(TargetUnknown):
        applied.targets.drop("now")
    assert applied.targets.list_targets() == ()
    assert applied.captured.cdc.list_consumers() == ()
