from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from builders.log.log_stores import records
from rowtide.core.formats import FormatNewer, FormatUnnumbered
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import NO_TABLE
from rowtide.core.records import RECORD
from rowtide.log.errors import LogStoreReadFailed, SegmentCorrupt
from rowtide.log.store.location import LocalStore
from rowtide.log.store.segments import MAX_ROW_GROUP_ROWS, MIN_ROW_GROUP_ROWS, read_segment, write_segment


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def rows_of_tables(counts: Sequence[int]) -> pa.Table:
    return records([(table, 100 + row, 1) for table, count in enumerate(counts, 1) for row in range(count)])


def row_groups(store: LocalStore, path: str) -> list[tuple[int, int, int]]:
    """Return each row group's smallest and largest table_id by its statistics, and its rows."""
    metadata = pq.read_metadata(pa.BufferReader(store.get(path)))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found = []
    for group in groups:
        statistics = group.column(RECORD.get_field_index("table_id")).statistics
        assert statistics is not None
        assert isinstance(statistics.min, int)
        assert isinstance(statistics.max, int)
        found.append((statistics.min, statistics.max, group.num_rows))
    return found


def test_records_come_back_as_they_were(store: LocalStore) -> None:
    written = records([(1, 100, 1), (1, 100, 2), (2, 100, 3), (NO_TABLE, 150, 1)])
    segment = write_segment(store, written)
    read = read_segment(store, segment.path)

    assert read.schema == RECORD
    assert read.equals(written)


def test_a_segment_says_what_is_in_it(store: LocalStore) -> None:
    segment = write_segment(store, records([(2, 100, 1), (1, 300, 1), (NO_TABLE, 200, 1)]))

    assert (segment.first, segment.last, segment.rows) == (CommitLsn(100), CommitLsn(300), 3)
    assert segment.tables == (NO_TABLE, 1, 2)
    assert segment.bytes == len(store.get(segment.path))
    assert segment.path.startswith("segments/0000000000000064-000000000000012c-")


def test_parts_of_a_transaction_are_separate_segments(store: LocalStore) -> None:
    part = records([(1, 100, 1)])
    paths = {write_segment(store, part, pending=True).path for _ in range(2)}

    assert store.list("pending/") == sorted(paths)
    assert store.list("segments/") == []


def test_a_table_of_some_size_has_row_groups_of_its_own(store: LocalStore) -> None:
    large = MIN_ROW_GROUP_ROWS
    segment = write_segment(store, rows_of_tables([3, 4, large, 5, large, large]))

    assert row_groups(store, segment.path) == [
        (1, 2, 7),
        (3, 3, large),
        (4, 4, 5),
        (5, 5, large),
        (6, 6, large),
    ]


def test_small_tables_share_row_groups(store: LocalStore) -> None:
    segment = write_segment(store, rows_of_tables([MIN_ROW_GROUP_ROWS // 4] * 10))

    assert [(first, last) for first, last, _ in row_groups(store, segment.path)] == [(1, 4), (5, 8), (9, 10)]


@pytest.mark.exhaustive
def test_row_groups_are_bounded(store: LocalStore) -> None:
    segment = write_segment(store, pa.concat_tables([records([(1, 100, 1)])] * (MAX_ROW_GROUP_ROWS + 1)))

    assert [rows for *_, rows in row_groups(store, segment.path)] == [MAX_ROW_GROUP_ROWS, 1]


def test_a_damaged_segment_is_named(store: LocalStore) -> None:
    segment = write_segment(store, rows_of_tables([1000]))
    data = bytearray(store.get(segment.path))
    data[len(data) // 2] ^= 0xFF
    store.put_durable(segment.path, bytes(data))

    with pytest.raises(SegmentCorrupt, match="RT-2205"):
        read_segment(store, segment.path)


def test_no_damaged_byte_changes_a_record(store: LocalStore) -> None:
    written = rows_of_tables([20])
    segment = write_segment(store, written)
    data = store.get(segment.path)
    harmless = 0
    places = range(0, len(data), 5)
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 0x01
        store.put_durable(segment.path, bytes(damaged))
        try:
            assert read_segment(store, segment.path).equals(written), place
            harmless += 1
        except (SegmentCorrupt, FormatNewer, FormatUnnumbered):
            continue
    # Names and statistics in the footer, which no reader of a segment looks at.
    assert harmless < len(places) // 2


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all"])
def test_what_is_no_parquet_file_is_named(store: LocalStore, data: bytes) -> None:
    store.put_durable("segments/a", data)

    with pytest.raises(SegmentCorrupt, match='the segment "segments/a" is damaged'):
        read_segment(store, "segments/a")


def test_a_disk_that_cannot_be_read_damages_no_segment(store: LocalStore, tmp_path: Path) -> None:
    path = write_segment(store, rows_of_tables([1])).path
    segment = tmp_path / path
    segment.unlink()
    # It is opened, has a size, and each read of it is refused by the system.
    segment.symlink_to("/sys/class/net/lo/speed")
    with pytest.raises(
        LogStoreReadFailed, match=rf'RT-2204: .* could not read "{store.url(path)}": Invalid argument. Check'
    ):
        read_segment(store, path)

    segment.unlink()
    segment.mkdir()
    with pytest.raises(LogStoreReadFailed, match=f'could not read ".*{path}": .*{segment} is a directory'):
        read_segment(store, path)


def test_a_segment_that_is_gone_cannot_be_read(store: LocalStore) -> None:
    with pytest.raises(LogStoreReadFailed, match='could not read ".*/segments/a": No such file'):
        read_segment(store, "segments/a")
