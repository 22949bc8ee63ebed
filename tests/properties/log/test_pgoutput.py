"""The vectorised decoder against a decoder that takes one message at a time."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from builders.log.pgoutput_oracle import Oracle
from builders.log.pgoutput_streams import decoder, members, rows, streams, together
from rowtide.core.errors import DecodeError
from rowtide.core.lsn import Position
from rowtide.log.log_source import Decoded, Undecodable
from rowtide.log.membership import Member

_MEMBERS = st.lists(members(), max_size=3, unique_by=lambda member: member.member_id)
_POSITIONS = st.integers(100, 250)


def _decode(
    stream: list[bytes], cuts: list[int], position: int, enabled: list[Member]
) -> tuple[list[Decoded], tuple[Member, ...]]:
    fast = decoder(epoch=3, position=position, members=enabled, xid_reference=2**33)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    decoded = [fast.decode(stream[start:end]) for start, end in pairwise(places)]
    return decoded, fast.members


@settings(max_examples=300, deadline=None)
@given(streams(), st.lists(st.integers(0, 100), max_size=6), _POSITIONS, _MEMBERS)
def test_stream_in_any_pieces_decodes_as_the_oracle_does(
    stream: list[bytes], cuts: list[int], position: int, enabled: list[Member]
) -> None:
    oracle = Oracle(3, Position.of(3, position), 2**33, {m.member_id: m for m in enabled})
    oracle.decode(stream)
    decoded, members_after = _decode(stream, cuts, position, enabled)
    records, new_tables, events, transactions = together(decoded)
    assert records == oracle.sorted_records()
    assert new_tables == oracle.new_tables
    assert events == oracle.events
    assert transactions == oracle.transactions
    assert members_after == tuple(oracle.members.values())


@settings(max_examples=100, deadline=None)
@given(streams(), st.lists(st.integers(0, 100), max_size=3), _POSITIONS, _MEMBERS)
def test_batch_records_are_sorted_by_table_lsn_and_ordinal(
    stream: list[bytes], cuts: list[int], position: int, enabled: list[Member]
) -> None:
    for batch in _decode(stream, cuts, position, enabled)[0]:
        order = [(row["table_id"], row["commit_lsn"], row["seqval"]) for row in rows(batch.records)]
        assert order == sorted(order)


@st.composite
def _damaged_streams(draw: st.DrawFn) -> list[bytes]:
    stream = draw(streams())
    for _ in range(draw(st.integers(1, 3))):
        which = draw(st.integers(0, len(stream) - 1))
        message = bytearray(stream[which])
        place = draw(st.integers(0, max(len(message) - 1, 0)))
        if draw(st.booleans()):
            message[place : place + 1] = bytes([draw(st.integers(0, 255))])
        else:
            del message[place:]
        stream[which] = bytes(message)
    return stream


@settings(max_examples=300, deadline=None)
@given(_damaged_streams(), st.lists(st.integers(0, 100), max_size=2), _MEMBERS)
def test_damaged_stream_gives_records_or_a_decode_error(
    stream: list[bytes], cuts: list[int], enabled: list[Member]
) -> None:
    assert _outcome(stream, cuts, enabled) == _outcome(stream, [], enabled)


def _outcome(stream: list[bytes], cuts: list[int], enabled: list[Member]) -> object:
    """Return what a stream decodes to, and whether a part of it is refused."""
    try:
        return together(_decode(stream, cuts, 100, enabled)[0])
    except (DecodeError, Undecodable) as error:
        return type(error)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4))
def test_arbitrary_bytes_are_a_decode_error(messages: list[bytes]) -> None:
    framed = [b"w" + bytes(24) + message for message in messages]
    with pytest.raises(DecodeError):
        decoder().decode([*framed, b"w"])
