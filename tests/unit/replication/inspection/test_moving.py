"""Published rows moved along the log from a snapshot to a position."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from builders.capture.capture_instances import source_table
from builders.log.log_stores import open_state
from builders.replication.articles import article, change, shape_of
from rowtide.copying.chunks import TransactionSnapshot
from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import ImageKind, LoggedTable
from rowtide.log.store.state import ManifestState
from rowtide.replication.articles.articles import Article
from rowtide.replication.inspection.differences import differing_keys, moved_rows
from rowtide.replication.inspection.moving import NotComparable, PositionMove, add_to_buckets, differing, total
from rowtide.replication.targets.compared_rows import Buckets, Hashed, HashedRow, Row, hash_row, key_of

BUCKETS = Hashed(4)


def state() -> ManifestState:
    return replace(open_state(), tables={1: LoggedTable(1, shape_of(source_table()))})


def move_of(known: Article, xmax: int, position: int) -> PositionMove:
    """Return a move from what transactions below `xmax` have committed."""
    snapshot = TransactionSnapshot(xmax, xmax, ())
    return PositionMove(
        known,
        forwards=False,
        snapshot=snapshot,
        position=Position(position),
        begin=Position(0),
        end=Position(999),
        unseen_since=None,
    )


def rows_of(table: dict[str, str]) -> list[Row]:
    return [(key.encode(), value.encode()) for key, value in table.items()]


def write(table: dict[str, str], choose: random.Random) -> dict[str, Any]:
    """Change a table as a statement does; return the change's record."""
    key, value = str(choose.randrange(6)), str(choose.randrange(3))
    if key not in table:
        table[key] = value
        return {"operation": Operation.INSERT, "after": (key, value)}
    before = (key, table.pop(key))
    if choose.random() < 0.4:
        return {"operation": Operation.DELETE, "before": before}
    moved = str(choose.randrange(6))
    key = key if moved in table else moved
    table[key] = value
    return {"operation": Operation.UPDATE, "before": before, "after": (key, value)}


@pytest.mark.parametrize("seed", range(30))
def test_rows_of_a_snapshot_become_those_of_any_position(seed: int) -> None:
    choose = random.Random(seed)
    table: dict[str, str] = {}
    contents: list[dict[str, str]] = [{}]
    records: list[pa.Table] = []
    for number in range(20):
        made = change(lsn=100 + number, **write(table, choose))
        records.append(made.set_column(RECORD.get_field_index("xid"), "xid", pa.array([700 + number])))
        contents.append(dict(table))
    seen, reached = choose.randrange(21), choose.randrange(21)
    known: Article = article(update="CALL")
    move = move_of(known, 700 + seen, 100 + reached)
    changes = list(move.list_changes(state(), pa.concat_tables(records), with_values=True))
    expected, base = rows_of(contents[reached]), rows_of(contents[seen])

    def buckets(rows: list[Row]) -> Buckets:
        return add_to_buckets(known, {}, ((row, 1) for row in rows), BUCKETS, with_checksum=True)

    def hashed(rows: list[Row]) -> list[HashedRow]:
        hashes = ((hash_row(known.key_columns, row[:1]), hash_row(known.columns, row), row[:1]) for row in rows)
        return sorted(HashedRow(*found) for found in hashes)

    moved = add_to_buckets(known, buckets(base), changes, BUCKETS, with_checksum=True)
    assert moved == buckets(expected)
    assert total(moved, with_checksum=True).rows == len(expected)

    by_key: dict[Row, list[tuple[Row, int]]] = {}
    for row, sign in changes:
        by_key.setdefault(key_of(known, row), []).append((row, sign))
    keys = [(str(number).encode(),) for number in range(6)]
    assert sorted(moved_rows(known, base, keys, by_key).values()) == sorted(expected)
    present = rows_of(contents[-1])
    differ = set(differing_keys(known, hashed(base), hashed(present), by_key))
    assert differ == {key_of(known, row) for row in {*expected} ^ {*present}}
    assert bool(differ) == bool(differing(moved, buckets(present)))


def test_old_rows_of_keys_alone_are_counted_and_not_hashed() -> None:
    deleted = change(Operation.DELETE, before=("1", None), image=ImageKind.KEY, lsn=500)
    move = move_of(article(), 900, 400)

    assert len(list(move.list_changes(state(), deleted, with_values=False))) == 1
    with pytest.raises(NotComparable, match="only the keys of its old rows"):
        list(move.list_changes(state(), deleted, with_values=True))
