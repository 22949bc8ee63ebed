"""Rows that cannot be copied whole do not stop a copy: it has them without the values that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.lakes.base_tables import base_rows, snapshots_of
from builders.servers.unsendable_changes import TABLES, open_western, unsendable
from fixtures.captured import open_copied
from rowtide.cdc.recorded_snapshots import SnapshotState
from rowtide.cdc.snapshots.chunk_copies import CopyLimits
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.embedded import EmbeddedServer

MIB = 1 << 20
LIMITED = CopyLimits(chunk_bytes=64 * 1024, workers=1, row_bytes=MIB)
BEYOND_THE_SERVER = "convert_to(repeat('x', 540000000), 'UTF8')"
"""Its text form has two digits for each byte: more than a gigabyte, which is all that the server can hold."""
THREE, FOUR, BOTH = b"\x04", b"\x08", b"\x0c"
"""Masks of the third column, of the fourth, of both."""


def outcomes(copied: CapturedDatabase) -> list[tuple[str, str | None]]:
    return [(listed.state, listed.outcome) for listed in copied.cdc.list_snapshots()]


def says(rows: int) -> str:
    return f"{rows} rows lack values that could not be copied, marked in __$absent_mask"


def test_rows_that_are_too_large_are_copied_in_part(copied: CapturedDatabase) -> None:
    copied.execute(
        "create table item (id int, part text, one text, two text, primary key (id, part))",
        r"insert into item select i, e'it''s \\ ' || i, 'one', 'two' from generate_series(1, 200) i",
        f"update item set one = repeat('x', {2 * MIB}) where id = 7",
        f"update item set one = repeat('x', {2 * MIB}), two = repeat('y', {2 * MIB}) where id = 100",
        f"update item set one = repeat('x', {MIB // 2}), two = repeat('y', {MIB // 2 + 9}) where id = 200",
    )
    copied.enable("item", snapshot=True)
    copied.copy_tables(LIMITED)

    (snapshot,) = snapshots_of(copied, "public_item")
    assert (snapshot.state, snapshot.definition.of_chunks > 1) == (SnapshotState.COVERED, True)
    rows = {row[0]: row[1:] for row in base_rows(copied, "public_item", "id", "part", "one", "two", "__$absent_mask")}
    assert len(rows) == 200
    assert rows.pop(7) == (r"it's \ 7", None, "two", THREE)
    assert rows.pop(100) == (r"it's \ 100", None, None, BOTH)
    assert rows.pop(200) == (r"it's \ 200", "x" * (MIB // 2), None, FOUR)
    assert {row[1:] for row in rows.values()} == {("one", "two", None)}
    assert outcomes(copied) == [("finished", says(3))]
    found = copied.cdc.stream_table_as_of("public_item").to_arrow().read_all().to_pylist()
    assert sorted(row["id"] for row in found if row["__$absent_mask"] is not None) == [7, 100, 200]


def test_a_row_that_is_too_large_fails_a_copy_without_key(copied: CapturedDatabase) -> None:
    copied.execute("create table bag (value text)", f"insert into bag values (repeat('x', {2 * MIB}))")
    copied.enable("bag", snapshot=True)
    copied.copy_tables(LIMITED)
    ((state, outcome),) = outcomes(copied)
    assert state == "failed"
    assert "RT-4200: table public.bag could not be copied: a row takes about 2,097,153 bytes" in str(outcome)


@pytest.mark.exhaustive
def test_rows_that_the_server_cannot_send_are_copied_in_part(copied: CapturedDatabase) -> None:
    copied.execute(
        "create table item (id int primary key, name text, value bytea)",
        "insert into item select i, 'name' from generate_series(1, 30) i",
        f"update item set value = {BEYOND_THE_SERVER} where id = 13",
    )
    # The log could not carry the old value either.
    copied.enable()
    copied.cdc.enable_table("item", before_images=BeforeImages.KEY)
    copied.copy_tables(CopyLimits(workers=1))
    assert base_rows(copied, "public_item", "id", "name", "__$absent_mask") == sorted(
        ((number, "name", THREE if number == 13 else None) for number in range(1, 31)), key=repr
    )
    assert outcomes(copied) == [("finished", says(1))]
    copied.execute("update item set value = null where id = 13")
    copied.capture()
    found = copied.cdc.stream_table_as_of("public_item").to_arrow().read_all().to_pylist()
    assert {row["__$absent_mask"] for row in found} == {None}


@pytest.mark.exhaustive
def test_rows_with_unsendable_letters_are_copied_in_part(server: EmbeddedServer, tmp_path: Path) -> None:
    with open_western(server, tmp_path / "lake") as western, open_copied(western.url, western.lake) as copied:
        copied.execute(*TABLES, "create table bag (id int, name text)", "create table keyed (id int, name text)")
        copied.execute("alter table keyed add primary key (name)", "insert into third values (1, 'plain')")
        copied.enable("item", "bag", "keyed", "third", snapshot=True)
        for table in ("item", "bag", "keyed"):
            copied.execute(f"insert into {table} values (1, 'plain')", unsendable(table, 2))
        copied.copy_tables(CopyLimits(workers=1))
        listed = {one.capture_instance: (one.state, one.outcome or "") for one in copied.cdc.list_snapshots()}

    assert listed["public_item"] == ("finished", says(1))
    assert listed["public_third"] == ("finished", "")
    for table in ("bag", "keyed"):
        state, outcome = listed[f"public_{table}"]
        assert state == "failed"
        assert "has no equivalent in encoding" in outcome
