"""Snapshots of captured tables: rows that were there before are copied while changes are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.cdc.lake_tables import base_table_path
from rowtide.cdc.recorded_snapshots import RecordedSnapshot, SnapshotState, read_snapshots
from rowtide.cdc.snapshots.runner import CopyLimits
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate

if TYPE_CHECKING:
    from builders.captured_databases import CapturedDatabase

SMALL = CopyLimits(chunk_bytes=16 * 1024)


def base_rows(copied: CapturedDatabase, instance: str, *columns: str) -> list[tuple[object, ...]]:
    """Return columns of an instance's base rows, sorted."""
    snapshot = open_snapshot(locate(base_table_path(str(copied.lake), instance)))
    assert snapshot is not None
    rows = snapshot.read(list(columns)).to_pylist()
    return sorted(tuple(row[column] for column in columns) for row in rows)


def is_published(copied: CapturedDatabase, snapshot: RecordedSnapshot) -> bool:
    published = copied.cdc.get_max_lsn()
    return published is not None and snapshot.is_covered_at(published)


def test_rows_that_were_there_are_in_the_base_table(copied: CapturedDatabase) -> None:
    copied.execute(
        "create table orders (id int primary key, customer text, total numeric(10, 2))",
        "insert into orders select i, 'customer ' || i, i / 4.0 from generate_series(1, 2000) i",
    )
    copied.enable("orders", snapshot=True)

    copied.copy_tables(SMALL)

    found = base_rows(copied, "public_orders", "id", "customer", "total")
    assert found == copied.execute("select id, customer, total from orders order by id")
    (snapshot,) = next(iter(read_snapshots(str(copied.lake)).values()))
    assert snapshot.state is SnapshotState.COVERED
    assert snapshot.definition.of_chunks > 2
    assert {row[0] for row in base_rows(copied, "public_orders", "__$start_lsn")} == {snapshot.begin.value}
    assert set(base_rows(copied, "public_orders", "__$operation", "__$seqval")) == {(2, 0)}
    assert is_published(copied, snapshot)


def test_cdc_run_once_copies_and_ends(copied: CapturedDatabase) -> None:
    copied.execute("create table orders (id int primary key)", "insert into orders select generate_series(1, 100)")
    copied.enable("orders", snapshot=True)

    copied.cdc.run(once=True)

    assert base_rows(copied, "public_orders", "id") == [(number,) for number in range(1, 101)]
    (snapshot,) = next(iter(read_snapshots(str(copied.lake)).values()))
    assert is_published(copied, snapshot)
