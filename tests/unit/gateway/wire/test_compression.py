"""Compressed bodies."""

from __future__ import annotations

import gzip

import pytest

from rowtide.gateway.wire.compression import SHORTEST_PACKED, Unfit, pack, unpack


def test_a_body_comes_back_and_is_smaller() -> None:
    packed, is_packed = pack(b"x" * 10_000)
    assert is_packed
    assert len(packed) < 100
    assert unpack(packed, 10_000) == b"x" * 10_000


def test_a_short_body_stays_as_it_is() -> None:
    assert pack(b"x" * (SHORTEST_PACKED - 1)) == (b"x" * (SHORTEST_PACKED - 1), False)


def test_a_repeated_request_has_the_same_bytes() -> None:
    assert pack(b"ab" * 1000) == pack(b"ab" * 1000)


def test_no_more_is_unpacked_of_a_bomb_than_the_limit() -> None:
    bomb = gzip.compress(bytes(200_000_000))
    found = unpack(bomb, 1000)
    assert isinstance(found, Unfit)
    assert found.is_too_large


@pytest.mark.parametrize(
    "body",
    [b"", b"no gzip", gzip.compress(b"x" * 100)[:-4], gzip.compress(b"x") + b"y", gzip.compress(b"x") * 2],
    ids=["empty", "other", "cut", "more", "two"],
)
def test_what_is_no_gzip_is_unfit(body: bytes) -> None:
    found = unpack(body, 1000)
    assert isinstance(found, Unfit)
    assert not found.is_too_large
