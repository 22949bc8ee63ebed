"""Whatever transactions of whatever tables segments have: merged, they have the same records, each once."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa
from hypothesis import given, settings, strategies as st

from builders.log.log_stores import append_records, open_manifest
from rowtide.log.store.location import LocalStore
from rowtide.log.store.maintenance import merge_segments
from rowtide.log.store.segments import read_segment

TABLES = 5
IN_ORDER: list[tuple[str, Literal["ascending", "descending"]]] = [
    (name, "ascending") for name in ("table_id", "commit_lsn", "seqval")
]
TRANSACTIONS = st.lists(st.lists(st.integers(1, TABLES), min_size=1, max_size=6), min_size=1, max_size=4)
"""By transaction, the tables that its changes are of."""


@settings(max_examples=25, deadline=None)
@given(st.lists(TRANSACTIONS, min_size=1, max_size=5))
def test_merged_segments_have_their_records_once_in_order(segments: list[list[list[int]]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        store = LocalStore(root)
        manifest, token = open_manifest(store, TABLES)
        for transactions in segments:
            append_records(store, manifest, changes_of(transactions, manifest.state.position.value))
        run = manifest.state.segments
        written = pa.concat_tables([read_segment(store, segment.path) for segment in run])

        [merged] = merge_segments(store, manifest, token, run, datetime.now(UTC)).segments
        assert read_segment(store, merged.path).equals(written.sort_by(IN_ORDER))
        assert (merged.first, merged.last, merged.rows) == (run[0].first, run[-1].last, written.num_rows)


def changes_of(transactions: Sequence[Sequence[int]], begin: int) -> list[tuple[int, int, int]]:
    return [
        (table, begin + commit, seqval)
        for commit, tables in enumerate(transactions)
        for seqval, table in enumerate(tables, 1)
    ]
