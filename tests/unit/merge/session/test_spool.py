"""What a sender's changes are read like: ahead of who takes them, or when these are wanted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.spool import Parts, Spool, map_article
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.comparison import NodeChange, decode_columns, encode_columns

ARTICLE = Article("item", "public", "item", 7, (ArticleColumn("id", "bigint", is_nullable=False, key_ordinal=1),))

COLUMNS = {name: ArticleColumn(name, "text", is_nullable=True, key_ordinal=None) for name in ("id", "gone", "name")}
MADE, CHANGED = NodeChange(1, 1), NodeChange(2, 3)


class Torn(Exception):
    """The sender cannot read on."""


def change(number: int) -> RowChange:
    return RowChange(str(number), b"", b"", None, (str(number),))


def parts(*numbers: int, is_torn: bool = False) -> Parts:
    for number in numbers:
        yield ARTICLE, [change(number)]
    if is_torn:
        raise Torn


def rowguids(spool: Spool) -> list[str]:
    return [each.rowguid for _, changes in spool.batches() for each in changes]


def test_changes_are_read_when_they_are_wanted() -> None:
    with Spool(parts(1, 2, 3)) as spool:
        batches = spool.batches()
        assert next(batches) == (7, [change(1)])
        assert spool.changes == 1
        assert [changes for _, changes in batches] == [[change(2)], [change(3)]]


def test_what_was_read_ahead_comes_in_order() -> None:
    with Spool(parts(1, 2, 3, 4)) as spool:
        batches = spool.batches()
        next(batches)
        assert [spool.read_ahead(), spool.read_ahead()] == [True, True]
        assert [each.rowguid for _, changes in batches for each in changes] == ["2", "3", "4"]
        assert not spool.read_ahead()


def test_large_rows_are_sent_in_small_batches() -> None:
    large = [RowChange(str(number), b"", b"", None, ("x" * 3_000_000,)) for number in range(5)]
    with Spool(iter([(ARTICLE, large)])) as spool:
        spool.complete()
        assert [[each.rowguid for each in changes] for _, changes in spool.batches()] == [
            ["0"],
            ["1"],
            ["2"],
            ["3"],
            ["4"],
        ]
        assert (spool.count, spool.changes, spool.counts[7]) == (5, 5, Counts(updates=5))


def test_all_can_be_read_before_and_twice() -> None:
    with Spool(parts(1, 2)) as spool:
        spool.complete()
        assert (spool.changes, spool.nicknames) == (2, {7})
        assert [rowguids(spool), rowguids(spool)] == [["1", "2"], ["1", "2"]]


def test_written_and_deleted_rows_are_counted_apart() -> None:
    deleted = RowChange("3", b"", b"", None, None)
    with Spool(iter([(ARTICLE, [change(1), change(2)]), (ARTICLE, [deleted])])) as spool:
        spool.complete()
        assert spool.counts == {7: Counts(updates=2, deletes=1)}


def test_deletes_are_counted_before_they_are_sent() -> None:
    deleted = RowChange("3", b"", b"", None, None)
    with Spool(iter([(ARTICLE, [change(1)]), (ARTICLE, [deleted, deleted])])) as spool:
        assert spool.count_deletes() == 2
        assert rowguids(spool) == ["1", "3", "3"]


@pytest.mark.parametrize(
    ("columns", "tracked", "carried"),
    [
        pytest.param(None, (True, True), None, id="a row that no column of was changed"),
        pytest.param({0: CHANGED, 2: MADE}, (True, True), {1: CHANGED, 0: MADE}, id="columns at other places"),
        pytest.param(None, (False, True), {0: CHANGED, 1: CHANGED}, id="a sender that follows no columns"),
        pytest.param({0: CHANGED}, (True, False), None, id="a receiver that follows none"),
    ],
)
def test_changes_are_carried_to_the_receivers_columns(
    columns: dict[int, NodeChange] | None, tracked: tuple[bool, bool], carried: dict[int, NodeChange] | None
) -> None:
    sender, receiver = (
        replace(ARTICLE, columns=tuple(COLUMNS[name] for name in names), column_tracking=is_tracked)
        for names, is_tracked in zip((("id", "gone", "name"), ("name", "id")), tracked, strict=True)
    )
    sent = RowChange("1", b"", CHANGED.encode(), None if columns is None else encode_columns(columns), ("1", "x", "n"))
    [found] = map_article(sender, receiver).carry([sent])
    assert found.row == ("n", "1")
    assert (None if found.columns is None else decode_columns(found.columns)) == carried


def test_an_empty_part_is_no_batch() -> None:
    with Spool(iter([(ARTICLE, []), (ARTICLE, [change(1)]), (ARTICLE, [])])) as spool:
        assert spool.read_ahead()
        assert rowguids(spool) == ["1"]


def test_what_fails_ahead_is_raised_in_its_place() -> None:
    with Spool(parts(1, is_torn=True)) as spool:
        while spool.read_ahead():
            pass
        batches = spool.batches()
        assert next(batches) == (7, [change(1)])
        with pytest.raises(Torn):
            next(batches)


def test_what_has_failed_once_is_never_complete() -> None:
    """A generator that has raised is at its end: read again, the changes so far would pass for all."""
    for begin in (Spool.read_ahead, Spool.complete, rowguids):
        with Spool(parts(is_torn=True)) as spool:
            with suppress(Torn):
                begin(spool)
            assert not spool.read_ahead()
            for again in (spool.complete, spool.count_deletes, lambda: rowguids(spool)):
                with pytest.raises(Torn):
                    again()
