"""Which changes a copy in chunks does not have, by the snapshots that its chunks were read under."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import article, change, shape_of
from rowtide.copying.chunks import (
    CopiedChunk,
    CopiedTable,
    TransactionSnapshot,
    cut,
    format_snapshot,
    is_torn,
    parse_snapshot,
)
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.encoding import encode
from rowtide.replication.snapshot.agent import ArticleCopy

ORDERS = source_table([("id", "integer"), ("quantity", "integer")], name="orders")
INSERT, UPDATE, DELETE, TRUNCATE = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE
SEES_700, SEES_NOT_700 = TransactionSnapshot(690, 710, (695,)), TransactionSnapshot(690, 710, (695, 700))


def locate_numbers(
    _table: CopiedTable, chunks: Sequence[CopiedChunk], keys: npt.NDArray[np.object_]
) -> npt.NDArray[np.int64]:
    """Keys are numbers here, as are the bounds."""
    bounds = [int(copied.chunk.high[0]) for copied in chunks if copied.chunk.high is not None]
    return np.searchsorted(bounds, [int(key) for (key,) in keys]).astype(np.int64)


def copy_of(*snapshots: TransactionSnapshot, made: Article | None = None) -> ArticleCopy:
    """Return a copy whose chunks end at the keys 100, 200 and so on."""
    bounds = [(str(number * 100),) for number in range(1, len(snapshots))]
    pairs = zip(cut("orders", bounds), snapshots, strict=True)
    chunks = tuple(CopiedChunk(chunk, snapshot, 1) for chunk, snapshot in pairs)
    return ArticleCopy(made or article(ORDERS), chunks, locate_numbers)


def delivered(record: pa.Table, copy: ArticleCopy) -> list[tuple[Operation, list[bytes | None]]]:
    calls = encode(copy.article, shape_of(ORDERS), record, copy)
    return [(found.operation, arguments) for found in calls for arguments in found.arguments.rows]


@pytest.mark.parametrize(
    ("text", "seen", "unseen"),
    [
        ("10:10:", [1, 9], [10, 11]),
        ("10:20:10,15", [9, 11, 14, 19], [10, 15, 20]),
        ("5000000000:5000000002:5000000000", [5_000_000_001, 700], [5_000_000_000]),
    ],
)
def test_a_snapshot_sees_what_had_ended_when_it_was_taken(text: str, seen: list[int], unseen: list[int]) -> None:
    snapshot = parse_snapshot(text)

    assert snapshot.sees(np.array(seen)).all()
    assert not snapshot.sees(np.array(unseen)).any()
    assert format_snapshot(snapshot) == text


def test_bounds_cut_a_table_to_chunks_without_gap_or_overlap() -> None:
    chunks = cut("orders", [("10",), ("20",)])

    assert [(chunk.low, chunk.high) for chunk in chunks] == [(None, ("10",)), (("10",), ("20",)), (("20",), None)]
    assert [(chunk.low, chunk.high) for chunk in cut("orders", [])] == [(None, None)]


def test_chunks_of_two_generations_of_a_table_are_torn() -> None:
    first, second = (CopiedChunk(chunk, SEES_700, 7) for chunk in cut("orders", [("10",)]))

    assert not is_torn([first, second])
    assert is_torn([first, CopiedChunk(second.chunk, SEES_700, 8)])


@pytest.mark.parametrize(
    ("record", "call"),
    [
        (change(INSERT, after=("50", "1")), None),
        (change(INSERT, after=("150", "1")), (INSERT, [b"150", b"1"])),
        (change(UPDATE, before=("50", "1"), after=("50", "2")), None),
        (change(UPDATE, before=("150", "1"), after=("150", "2")), (UPDATE, [None, b"2", b"150", b"\\x02"])),
        (change(DELETE, before=("50", "1")), None),
        (change(DELETE, before=("150", "1")), (DELETE, [b"150"])),
    ],
)
def test_a_change_is_left_out_where_its_keys_chunk_has_it(
    record: pa.Table, call: tuple[Operation, list[bytes | None]] | None
) -> None:
    found = delivered(record, copy_of(SEES_700, SEES_NOT_700))

    assert found == ([] if call is None else [call])


@pytest.mark.parametrize(
    ("before", "after", "call"),
    [
        # The chunk that it left was copied with the change, the one that it came to was not: it is in neither.
        ("50", "150", (INSERT, [b"150", b"7"])),
        # The other way: it is in both.
        ("150", "50", (DELETE, [b"150"])),
        ("150", "160", (UPDATE, [b"160", None, b"150", b"\\x01"])),
        ("50", "60", None),
    ],
)
def test_a_change_of_the_key_is_what_the_chunks_lack_of_it(
    before: str, after: str, call: tuple[Operation, list[bytes | None]] | None
) -> None:
    record = change(UPDATE, before=(before, "7"), after=(after, "7"))
    found = delivered(record, copy_of(SEES_700, SEES_NOT_700))

    assert found == ([] if call is None else [call])


def test_row_moved_into_filter_and_copied_chunk_is_left_out() -> None:
    made = article(ORDERS, where="quantity > 5")
    records = pa.concat_tables(
        [
            change(UPDATE, before=("50", "1"), after=("50", "9")),
            change(UPDATE, before=("150", "1"), after=("150", "9"), seqval=2),
            change(UPDATE, before=("151", "9"), after=("151", "1"), seqval=3),
            change(UPDATE, before=("51", "9"), after=("151", "9"), seqval=4),
        ]
    )
    found = delivered(records, copy_of(SEES_700, SEES_NOT_700, made=made))

    assert found == [(DELETE, [b"151"]), (INSERT, [b"150", b"9"]), (INSERT, [b"151", b"9"])]


def test_where_all_chunks_agree_nobody_is_asked_for_a_keys_place() -> None:
    def fail(*_asked: object) -> npt.NDArray[np.int64]:
        raise AssertionError("it was asked")

    for snapshot, lacking in ((SEES_700, False), (SEES_NOT_700, True)):
        copy = ArticleCopy(article(ORDERS), copy_of(snapshot, snapshot).chunks, fail)
        assert copy.lacks(np.array([700]), np.array([[b"1"]], dtype=object)).tolist() == [lacking]


def test_truncate_is_delivered_only_if_the_copy_precedes_it() -> None:
    assert delivered(change(TRUNCATE), copy_of(SEES_NOT_700, SEES_NOT_700)) == [(TRUNCATE, [])]
    assert delivered(change(TRUNCATE), copy_of(SEES_700, SEES_700)) == []
