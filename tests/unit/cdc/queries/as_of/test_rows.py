"""Positions and sets of keys as numbers; what Spark makes of them is tested where it runs."""

from __future__ import annotations

from builders.capture.capture_instances import instance, source_table
from rowtide.cdc.queries.as_of.rows import KeyWords, packed_position


def test_position_is_one_number_if_it_fits() -> None:
    expected = "((`__$start_lsn` - 100L) * 40L + (`__$seqval` - -1L) * 8L + `__$operation`)"
    assert packed_position((100, 200), (-1, 3)) == expected
    assert packed_position((0, (1 << 58) - 1), (0, 3)) is not None
    assert packed_position((0, 1 << 58), (0, 3)) is None


def test_only_whole_numbers_are_bits_of_words() -> None:
    whole = {
        name: KeyWords.of(instance(table=source_table([("id", name), ("name", "text")]))) is not None
        for name in ("smallint", "integer", "bigint", "text", "numeric(10,0)", "uuid", "date")
    }
    assert [name for name, is_whole in whole.items() if is_whole] == ["smallint", "integer", "bigint"]
