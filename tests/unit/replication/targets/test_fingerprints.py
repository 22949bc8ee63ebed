"""What of rows is added up when copies are compared."""

from __future__ import annotations

from rowtide.replication.targets.fingerprints import hash_texts


def test_rows_differing_in_value_boundaries_hash_differently() -> None:
    rows: list[list[bytes | None]] = [[b"ab", b"c"], [b"a", b"bc"], [b"abc", None], [None, b"abc"], [b"", b"abc"]]

    assert len({hash_texts(row) for row in rows}) == len(rows)
    assert -(1 << 63) <= hash_texts([b"1"]) < 1 << 63
