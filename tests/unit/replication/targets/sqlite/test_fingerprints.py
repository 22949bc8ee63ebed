"""What of rows is added up when copies are compared."""

from __future__ import annotations

from rowtide.replication.targets.sqlite.fingerprints import row_hash


def test_rows_differing_in_value_boundaries_hash_differently() -> None:
    rows: list[list[bytes | None]] = [[b"ab", b"c"], [b"a", b"bc"], [b"abc", None], [None, b"abc"], [b"", b"abc"]]

    assert len({row_hash(row) for row in rows}) == len(rows)
    assert -(1 << 63) <= row_hash([b"1"]) < 1 << 63
