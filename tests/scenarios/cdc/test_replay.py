"""Whatever transactions and DDL come in whatever order: the changes replayed are the tables at every published LSN."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.lakes.change_histories import read_transactions
from builders.random_histories import CapturedTable, RandomHistory
from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE

SOAK = [pytest.param(seed, 600, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]) for seed in range(10, 20)]


@pytest.mark.parametrize(("seed", "steps"), [(1, 250), *SOAK])
@pytest.mark.exhaustive
def test_replayed_changes_equal_tables_at_every_published_lsn(
    captured: CapturedDatabase, seed: int, steps: int
) -> None:
    pauses = random.Random(seed)
    with RandomHistory(captured.url, seed) as history:
        captured.enable(*history.make_tables(2))
        for _ in range(steps):
            history.step()
            if pauses.random() < 4 / steps:
                # Others are open meanwhile; a cycle ends wherever this is.
                captured.capture()
        history.commit_all()
        captured.capture()
        xids = read_transactions(captured)
        published = [(lsn, history.contents[xid]) for lsn, xid in sorted(xids.items()) if xid in history.contents]
        assert len(published) > steps // 10
        for table in history.tables:
            replay = Replay(captured, table)
            known = [(lsn, contents[table.instance]) for lsn, contents in published if table.instance in contents]
            assert len(known) > steps // 20
            for lsn, expected in known:
                assert replay.until(lsn, expected.places) == expected.rows, f"seed {seed}, {table.instance} at {lsn}"


class Replay:
    """A table made of an instance's change rows, up to one LSN after the other."""

    def __init__(self, captured: CapturedDatabase, table: CapturedTable) -> None:
        self._columns = tuple(table.columns.values())
        self._changes = iter(captured.changes(table.instance))
        self._next = next(self._changes, None)
        self._contents: dict[int, tuple[object, ...]] = {}

    def until(self, lsn: int, places: Sequence[int]) -> dict[int, tuple[object, ...]]:
        """Return the columns at some places of the table at an LSN, above the one before."""
        while self._next is not None and self._next["__$start_lsn"] <= lsn:
            values = tuple(self._next[name] for name in self._columns)
            match self._next["__$operation"]:
                case kind if kind in (DELETE, UPDATE_BEFORE):
                    del self._contents[values[0]]
                case kind if kind in (INSERT, UPDATE_AFTER):
                    assert values[0] not in self._contents
                    self._contents[values[0]] = values
                case kind:
                    assert kind == TRUNCATE
                    self._contents.clear()
            self._next = next(self._changes, None)
        return {key: tuple(row[place] for place in places) for key, row in self._contents.items()}
