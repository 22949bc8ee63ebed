"""Whatever a device's file has for metadata, it is read, or is `Malformed`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from rowtide.merge.versions import checked_metadata
from rowtide.merge.versions.comparison import Lineage, Malformed, NodeChange, decode_columns, encode_columns

SCALARS = st.one_of(st.none(), st.integers(), st.floats(), st.text(), st.binary(), st.binary(min_size=9, max_size=25))
READERS: list[Callable[[object], object]] = [
    checked_metadata.read_rowguid,
    checked_metadata.read_version,
    checked_metadata.read_origin,
    checked_metadata.read_priority,
    checked_metadata.read_lineage,
    checked_metadata.read_last,
    checked_metadata.read_columns,
    checked_metadata.read_own_columns,
    checked_metadata.read_bases,
    checked_metadata.read_tombstone_type,
]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
@given(value=SCALARS)
def test_any_value_is_read_or_malformed(read: Callable[[object], object], value: object) -> None:
    with suppress(Malformed):
        read(value)


@given(encoded=st.binary(max_size=200))
def test_bytes_of_lineages_are_read_as_they_are(encoded: bytes) -> None:
    try:
        assert len(Lineage.decode(encoded).changes) * 10 == len(encoded)
    except Malformed:
        assert len(encoded) % 10


@given(encoded=st.binary(max_size=200))
def test_bytes_of_columns_are_read_as_they_are(encoded: bytes) -> None:
    try:
        found = decode_columns(encoded)
    except Malformed:
        assert len(encoded) % 12
    else:
        assert decode_columns(encode_columns(found)) == found


@given(encoded=st.binary(max_size=30))
def test_bytes_of_a_change_are_ten(encoded: bytes) -> None:
    try:
        assert NodeChange.decode(encoded).encode() == encoded
    except Malformed:
        assert len(encoded) != 10


@given(text=st.text(alphabet='[]{},"0123456789nul -.e', max_size=60))
def test_bases_are_a_list_of_pairs_or_malformed(text: str) -> None:
    with suppress(Malformed):
        assert checked_metadata.read_bases(text) == text


@pytest.mark.parametrize(
    "text", [None, "", "0000000000000001", "00000000ffffffff0000000000000000"], ids=["none", "empty", "one", "two"]
)
def test_stamps_of_columns_are_read(text: str | None) -> None:
    assert all(0 < stamp < 1 << 32 for stamp in checked_metadata.read_own_columns(text).values())


def test_a_long_lineage_is_refused_at_once() -> None:
    with pytest.raises(Malformed, match="50,000,000 bytes"):
        checked_metadata.read_lineage(bytes(50_000_000))
