"""What a sender's changes are read like: ahead of who takes them, or when these are wanted."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.spooling import Parts, Spool
from rowtide.merge.versions.changes import RowChange

ARTICLE = Article("item", "public", "item", 7, (ArticleColumn("id", "bigint", is_nullable=False, key_ordinal=1),))


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
