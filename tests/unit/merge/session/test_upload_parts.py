"""Parts of an upload, and what of it is confirmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rowtide.core.errors import FileNotWritable
from rowtide.merge.session.messages import RowBatch
from rowtide.merge.session.upload_parts import ConfirmedRows, PartSize, divide, join_parts, select
from rowtide.merge.versions.changes import RowChange, TombstoneType


def change(number: int, *, is_delete: bool = False, size: int = 1, last: bytes = b"1") -> RowChange:
    row = None if is_delete else ("x" * size,)
    return RowChange(f"{number:032x}", b"lineage", last, None, row, TombstoneType.USER if is_delete else None)


def upserts(*numbers: int, size: int = 1, article: int = 1) -> RowBatch:
    return RowBatch(article, [change(number, size=size) for number in numbers])


def deletes(count: int, *, article: int = 1) -> RowBatch:
    return RowBatch(article, [change(number, is_delete=True) for number in range(count)])


def sizes(parts: list[list[RowBatch]]) -> list[int]:
    return [sum(len(batch.changes) for batch in part) for part in parts]


def divided(batches: list[RowBatch], most: PartSize, count: int = 0) -> list[list[RowBatch]]:
    return [list(part) for part, _ in divide(batches, most, lambda: count)]


def test_an_upload_without_rows_is_one_part() -> None:
    assert divided([], PartSize()) == [[]]


def test_what_fits_is_one_part() -> None:
    assert sizes(divided([upserts(*range(20)), deletes(20)], PartSize(rows=25), 20)) == [40]


def test_deletes_are_together_if_they_fit() -> None:
    parts = divided([upserts(*range(22)), deletes(20), deletes(20)], PartSize(rows=25), 40)
    assert sizes(parts) == [22, 40]


def test_a_large_row_is_a_part_of_its_own() -> None:
    batches = [upserts(1), upserts(2, size=5000), upserts(3)]
    assert sizes(divided(batches, PartSize(rows=10, size=1000))) == [1, 1, 1]


def test_a_part_takes_rows_and_sizes_up_to_its_limits() -> None:
    batches = [upserts(1, 2), upserts(3, size=50)]
    assert PartSize(rows=3, size=352).takes(batches)
    assert not PartSize(rows=2, size=352).takes(batches)
    assert not PartSize(rows=3, size=351).takes(batches)
    assert PartSize(rows=2, size=800).takes([deletes(8)])
    assert not PartSize(rows=2, size=800).takes([deletes(9)])


def test_a_part_is_full_at_its_limit_not_before() -> None:
    batches = [upserts(number) for number in range(4)]
    assert sizes(divided(batches, PartSize(rows=2, size=1000))) == [2, 2]
    assert sizes(divided([upserts(*range(8)), upserts(8)], PartSize(rows=8, size=808))) == [8, 1]
    assert sizes(divided([upserts(*range(9))], PartSize(rows=99, size=808))) == [4, 5]
    assert sizes(divided(batches, PartSize(rows=10, size=303))) == [3, 1]


def test_a_smaller_size_counts_from_the_next_part_on() -> None:
    most = PartSize(rows=8)
    parts = divide([upserts(number) for number in range(16)], most)
    first, _ = next(parts)
    assert most.halve(first)
    assert sizes([list(first), *(list(part) for part, _ in parts)])[0] == 8
    assert most.rows == 4
    assert PartSize().halve([upserts(1, 2)])
    assert not PartSize().halve([upserts(1)])


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30), st.integers(1, 50))), st.integers(1, 20))
def test_parts_have_all_rows_in_their_order(given_batches: list[tuple[bool, int, int]], rows: int) -> None:
    ordered = sorted(given_batches, key=lambda each: each[0])
    batches = [
        RowBatch(1, [change(number, is_delete=is_delete, size=size) for number in range(count)])
        for is_delete, count, size in ordered
    ]
    count = sum(len(batch.changes) for batch in batches if batch.changes[0].row is None)
    parts = divided(batches, PartSize(rows=rows, size=3000), count)
    flat = [each for part in parts for batch in part for each in batch.changes]
    assert flat == [each for batch in batches for each in batch.changes]
    assert all(part for part in parts) or not flat
    limit = PartSize(rows=rows, size=3000)
    assert [part for part in parts if sum(len(batch.changes) for batch in part) > 1 and not limit.takes(part)] == []


def test_confirmed_versions_are_not_sent_again(tmp_path: Path) -> None:
    path = tmp_path / "sending"
    confirmed = ConfirmedRows.read(path, "one", 2)
    assert not path.exists()
    confirmed.add([upserts(1, 2, 3)], {1: {change(2).rowguid}})
    confirmed.add([upserts(4)], {})
    again = ConfirmedRows.read(path, "one", 2)
    changed = RowBatch(1, [change(1, last=b"2")])
    left = list(again.without([upserts(1, 2, 3, 4), changed, deletes(2)], {1: [change(3).rowguid]}))
    assert left == [upserts(2, 3), changed, deletes(2)]
    again.forget()
    assert not path.exists()


def test_what_another_session_has_confirmed_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sending"
    ConfirmedRows.read(path, "one").add([upserts(1)], {})
    other = ConfirmedRows.read(path, "two")
    assert list(other.without([upserts(1)], {})) == [upserts(1)]
    other.add([upserts(2)], {})
    assert list(ConfirmedRows.read(path, "two").without([upserts(1, 2)], {})) == [upserts(1)]


def test_a_file_that_was_cut_off_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sending"
    ConfirmedRows.read(path, "one").add([upserts(1, 2)], {})
    path.write_bytes(path.read_bytes()[:-3])
    assert list(ConfirmedRows.read(path, "one").without([upserts(1, 2)], {})) == [upserts(2)]


def test_parts_that_the_hub_keeps_have_their_name(tmp_path: Path) -> None:
    """The name is the last entry of the file, as long as the digests before it."""
    path = tmp_path / "sending"
    name = bytes(range(16)).hex()
    confirmed = ConfirmedRows.read(path, "one")
    confirmed.add([], {}, name)
    assert confirmed.kept == ConfirmedRows.read(path, "one").kept == name
    ConfirmedRows.read(path, "one").add([upserts(1)], {}, name)
    again = ConfirmedRows.read(path, "one")
    assert again.kept == name
    assert list(again.without([upserts(1, 2)], {})) == [upserts(2)]
    assert ConfirmedRows.read(path, "two").kept == ""


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Forgetting meets a folder where the file would be."""
    missing = tmp_path / "missing" / "sending"
    with pytest.raises(FileNotWritable, match=f"{missing} cannot be written: No such file or directory"):
        ConfirmedRows.read(missing, "one").add([upserts(1)], {})
    with pytest.raises(FileNotWritable, match="irectory") as raised:
        ConfirmedRows(tmp_path, "one").forget()
    assert "Errno" not in str(raised.value)
    with pytest.raises(FileNotWritable, match="Is a directory"):
        ConfirmedRows.read(tmp_path, "one")


def test_some_rows_of_an_upload_are_selected() -> None:
    batches = [upserts(1, 2), upserts(2, article=2), upserts(3)]
    assert list(select(batches, {1: {change(2).rowguid}})) == [upserts(2)]


def test_joined_parts_have_the_last_of_each_row() -> None:
    changed, deleted = RowBatch(1, [change(1, last=b"2")]), RowBatch(1, [change(2, is_delete=True)])
    parts = [upserts(1, 2), upserts(1, article=2), changed, deleted]
    assert list(join_parts(parts, {1: 0, 2: 1})) == [changed, upserts(1, article=2), deleted]


def test_joined_parts_have_parents_first_and_delete_them_last() -> None:
    parts = [deletes(1), deletes(1, article=2), upserts(7, article=2), upserts(7)]
    order = {1: 1, 2: 2}
    assert list(join_parts(parts, order)) == [upserts(7), upserts(7, article=2), deletes(1, article=2), deletes(1)]
    assert [batch.article for batch in join_parts(parts, {1: 2, 2: 1})] == [2, 1, 1, 2]


def test_joined_parts_are_batches_of_at_most_2000_rows() -> None:
    joined = list(join_parts([upserts(*range(1500)), upserts(*range(1500, 4001))], {1: 0}))
    assert [len(batch.changes) for batch in joined] == [2000, 2000, 1]
    assert [each for batch in joined for each in batch.changes] == list(upserts(*range(4001)).changes)


def test_a_part_takes_no_more_batches_than_it_needs() -> None:
    taken: list[int] = []

    def taking() -> Iterator[RowBatch]:
        for number in range(6):
            taken.append(number)
            yield upserts(*range(10))

    parts = divide(taking(), PartSize(rows=20), has_more=True)
    assert next(parts)[1]
    assert taken == [0, 1, 2]
    assert [has_more for _, has_more in parts] == [True, True]
