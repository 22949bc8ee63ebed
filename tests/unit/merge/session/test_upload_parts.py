"""Parts of an upload, and what of it is confirmed."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, strategies as st

from rowtide.merge.session.messages import RowBatch
from rowtide.merge.session.upload_parts import ConfirmedRows, PartSize, divide, select
from rowtide.merge.versions.changes import RowChange, TombstoneType


def change(number: int, *, is_delete: bool = False, size: int = 1, last: bytes = b"1") -> RowChange:
    row = None if is_delete else ("x" * size,)
    return RowChange(f"{number:032x}", b"lineage", last, None, row, TombstoneType.USER if is_delete else None)


def upserts(*numbers: int, size: int = 1, article: int = 1) -> RowBatch:
    return RowBatch(article, [change(number, size=size) for number in numbers])


def deletes(count: int) -> RowBatch:
    return RowBatch(1, [change(number, is_delete=True) for number in range(count)])


def sizes(parts: list[list[RowBatch]]) -> list[int]:
    return [sum(len(batch.changes) for batch in part) for part in parts]


def divided(batches: list[RowBatch], most: PartSize, count: int = 0) -> list[list[RowBatch]]:
    return [list(part) for part in divide(batches, most, count)]


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


def test_a_smaller_size_counts_from_the_next_part_on() -> None:
    most = PartSize(rows=8)
    parts = divide([upserts(number) for number in range(16)], most)
    first = next(parts)
    assert most.halve(first)
    assert sizes([list(first), *(list(part) for part in parts)])[0] == 8
    assert most.rows == 4
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


def test_some_rows_of_an_upload_are_selected() -> None:
    batches = [upserts(1, 2), upserts(2, article=2), upserts(3)]
    assert list(select(batches, {1: {change(2).rowguid}})) == [upserts(2)]
