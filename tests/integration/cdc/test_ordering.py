"""Streams of change rows are in order, whatever they were made of, and keep nothing in memory but batches."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from rowtide.cdc.lake_readers import ordering
from rowtide.cdc.lake_readers.ordering import OrderedRows, are_ordered, gather, merge, sort

Row = tuple[int, int, int, str]
LSN, SEQVAL, OPERATION = ordering.ORDER
_TYPES: dict[str, pa.DataType] = {LSN: pa.int64(), SEQVAL: pa.int64(), OPERATION: pa.int32(), "value": pa.string()}
SCHEMA = pa.schema(_TYPES)


def rows_of(*rows: Row) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def read(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def random_rows(chosen: random.Random, count: int, low: int = 1, high: int = 40) -> list[Row]:
    keys = {(chosen.randint(low, high), chosen.randint(1, 30), chosen.choice((1, 2, 3, 4))) for _ in range(count)}
    return [(*key, "x" * chosen.randint(0, 200)) for key in keys]


def in_batches(chosen: random.Random, rows: list[Row]) -> Iterator[pa.RecordBatch]:
    at = 0
    while at < len(rows):
        size = chosen.randint(0, 20)
        yield rows_of(*rows[at : at + size])
        at += size


@pytest.mark.parametrize("seed", range(5))
def test_merged_sources_are_in_order(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    chosen = random.Random(seed)
    monkeypatch.setattr(ordering, "MOST_OPEN", chosen.choice((2, 3, 16)))
    parts = [sorted(random_rows(chosen, 60, low, low + chosen.randint(0, 9))) for low in range(1, 40, 2)]
    taken: set[tuple[int, int, int]] = set()
    for part in parts:
        part[:] = [row for row in part if row[:3] not in taken]
        taken |= {row[:3] for row in part}
    sources = [OrderedRows(part[0][0], part[-1][0], partial(in_batches, chosen, part)) for part in parts if part]
    chosen.shuffle(sources)

    assert read(merge(sources)) == sorted(row for part in parts for row in part)


def test_sources_that_follow_one_another_are_opened_one_by_one() -> None:
    opened: list[int] = []

    def source(lsn: int) -> OrderedRows:
        def begin() -> Iterator[pa.RecordBatch]:
            opened.append(lsn)
            yield rows_of((lsn, 1, 2, "x" * ordering.BATCH_BYTES))

        return OrderedRows(lsn, lsn, begin)

    merged = merge(source(lsn) for lsn in range(1, 100))
    assert [next(merged).num_rows, next(merged).num_rows] == [1, 1]
    assert opened == [1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_sorted_rows_leave_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    monkeypatch.setattr(ordering, "RUN_BYTES", chosen.choice((500, 5_000, 10**9)))
    monkeypatch.setattr(ordering, "BATCH_BYTES", 300)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = random_rows(chosen, 400)

    assert read(sort(in_batches(chosen, rows))) == sorted(rows)
    assert list(tmp_path.iterdir()) == []


def test_abandoned_sort_leaves_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ordering, "RUN_BYTES", 500)
    monkeypatch.setattr(ordering, "BATCH_BYTES", 300)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chosen = random.Random(0)
    rows = sort(in_batches(chosen, random_rows(chosen, 400)))
    next(rows)
    assert list(tmp_path.iterdir()) != []
    rows.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


def test_order_is_seen_across_batches() -> None:
    first, second = rows_of((1, 1, 3, ""), (1, 1, 4, "")), rows_of((1, 2, 2, ""))
    assert are_ordered([first, rows_of(), second])
    assert not are_ordered([second, first])
    assert not are_ordered([rows_of((1, 2, 4, ""), (1, 2, 3, ""))])


def test_gathered_batches_have_about_the_wanted_size() -> None:
    batches = [rows_of((lsn, 1, 2, "x" * 100)) for lsn in range(100)]
    gathered = list(gather(batches, wanted_bytes=1_000))
    assert [batch.num_rows for batch in gathered[:-1]] == [gathered[0].num_rows] * (len(gathered) - 1)
    assert 1 < len(gathered) < 100
    assert [batch.num_rows for batch in gather(batches, most_rows=30)] == [30, 30, 30, 10]
