"""Every malformed stream is a `DecodeError` that says where and what."""

from __future__ import annotations

import struct

import pytest

from builders.log import pgoutput_messages as wire
from builders.log.pgoutput_streams import decoder, member
from rowtide.core.errors import DecodeError

OID = 16384
BEGIN, COMMIT = wire.begin(100), wire.commit(100)
TABLE = wire.relation(OID, ["a", "b"])
ROW = wire.insert(OID, "1", "x")
HEAD = 25


def _payload(kind: bytes, body: bytes) -> bytes:
    return wire.framed(kind + body)


def _row(values: bytes, *, count: int = 2, kind: bytes = b"I", tag: bytes = b"N") -> bytes:
    return _payload(kind, struct.pack(">I", OID) + tag + struct.pack(">h", count) + values)


def _text(octets: bytes, length: int | None = None) -> bytes:
    return b"t" + struct.pack(">i", len(octets) if length is None else length) + octets


def _mark(content: str) -> bytes:
    return wire.logical_message("rowtide.origin", content)


BROKEN = {
    "no XLogData": ([b"k" + bytes(30)], "k", "no XLogData"),
    "an empty message": ([b""], "0x00", "no XLogData"),
    "a header alone": ([b"w" + bytes(24)], "w", "no XLogData"),
    "an unknown kind": ([_payload(b"S", bytes(40))], "S", "unknown message type"),
    "a short begin": ([BEGIN[:-1]], "B", "too short"),
    "a long begin": ([BEGIN + b"\0"], "B", "longer than its fields"),
    "a short commit": ([BEGIN, COMMIT[:-1]], "C", "too short"),
    "a long commit": ([BEGIN, COMMIT + b"\0"], "C", "longer than its fields"),
    "a begin in a transaction": ([BEGIN, wire.begin(200)], "B", "inside another"),
    "a commit without begin": ([COMMIT], "C", "outside a transaction"),
    "a second commit": ([BEGIN, COMMIT, COMMIT], "C", "outside a transaction"),
    "a row outside a transaction": ([BEGIN, TABLE, COMMIT, ROW], "I", "outside a transaction"),
    "a truncation outside a transaction": ([BEGIN, TABLE, COMMIT, wire.truncate(OID)], "T", "outside a transaction"),
    "an origin outside a transaction": ([wire.origin("o")], "O", "outside a transaction"),
    "a message outside its transaction": ([wire.logical_message("p", "x")], "M", "outside a transaction"),
    "a commit of another LSN": ([BEGIN, wire.commit(101)], "C", "differs"),
    "an LSN above 56 bits": ([wire.begin(1 << 56)], "B", "56 bits"),
    "an LSN that goes back": ([BEGIN, COMMIT, wire.begin(99)], "B", "not above"),
    "an LSN twice": ([BEGIN, COMMIT, BEGIN], "B", "not above"),
    "a row of an unknown table": ([BEGIN, ROW], "I", "not described"),
    "a row of another unknown table": ([BEGIN, TABLE, wire.insert(OID + 1, "1", "x")], "I", "not described"),
    "a truncation of an unknown table": ([BEGIN, wire.truncate(OID)], "T", "not described"),
    "too few columns": ([BEGIN, TABLE, wire.insert(OID, "1")], "I", "not the table's 2 columns"),
    "too many columns": ([BEGIN, TABLE, wire.insert(OID, "1", "2", "3")], "I", "not the table's 2 columns"),
    "a binary value": ([BEGIN, TABLE, _row(_text(b"1") + b"b\0\0\0\1x")], "I", "column 2 has a value of kind b"),
    "an unknown value": ([BEGIN, TABLE, _row(b"\x07n")], "I", "column 1 has a value of kind 0x07"),
    "a negative length": ([BEGIN, TABLE, _row(b"n" + _text(b"", -1))], "I", "column 2 has a length beyond"),
    "an overrunning length": ([BEGIN, TABLE, _row(b"n" + _text(b"x", 2))], "I", "column 2 has a length beyond"),
    "a length into the next message": ([BEGIN, TABLE, _row(b"n" + _text(b"x", 30)), COMMIT], "I", "a length beyond"),
    "a huge length": ([BEGIN, TABLE, _row(_text(b"x", 2**31 - 1) + b"n")], "I", "column 1 has a length beyond"),
    "a missing column": ([BEGIN, TABLE, _row(b"n")], "I", "ends before column 2"),
    "a cut length": ([BEGIN, TABLE, _row(b"nt\0\0")], "I", "column 2 has a length beyond"),
    "bytes behind a row": ([BEGIN, TABLE, _row(b"nnn")], "I", "shorter than its message"),
    "bytes behind a delete": ([BEGIN, TABLE, _row(b"nnn", kind=b"D", tag=b"K")], "D", "shorter than its message"),
    "an insert of an old tuple": ([BEGIN, TABLE, _row(b"nn", tag=b"O")], "I", "unknown kind of tuple"),
    "a delete of a new tuple": ([BEGIN, TABLE, _row(b"nn", kind=b"D")], "D", "unknown kind of tuple"),
    "an update without a new tuple": ([BEGIN, TABLE, _row(b"nn", kind=b"U", tag=b"O")], "U", "no new tuple"),
    "an update with two old tuples": (
        [BEGIN, TABLE, _row(b"nnK\0\2nn", kind=b"U", tag=b"K")],
        "U",
        "no new tuple",
    ),
    "an update cut at its new tuple": (
        [BEGIN, TABLE, _row(b"nnN", kind=b"U", tag=b"K")],
        "U",
        "no column count",
    ),
    "an unsent value in an old tuple": (
        [BEGIN, TABLE, _row(b"nu", kind=b"D", tag=b"O")],
        "D",
        "column 2 has a value of kind u",
    ),
    "a description with bytes behind": ([BEGIN, TABLE + b"\0"], "R", "longer than its fields"),
    "a description that is cut": ([BEGIN, TABLE[:-1]], "R", "longer than the message"),
    "a description without the end of a name": ([_payload(b"R", b"\0\0\0\1public123")], "R", "no end"),
    "an unknown identity": ([wire.relation(OID, ["a"], identity="x")], "R", "unknown replica identity"),
    "a negative column count": (
        [_payload(b"R", struct.pack(">I", OID) + b"s\0t\0d\xff\xff")],
        "R",
        "negative number of columns",
    ),
    "a negative table count": ([BEGIN, _payload(b"T", struct.pack(">iB", -1, 0))], "T", "negative number of tables"),
    "a truncation that is cut": ([BEGIN, TABLE, wire.truncate(OID)[:-1]], "T", "longer than the message"),
    "a truncation with bytes behind": ([BEGIN, TABLE, wire.truncate(OID) + b"\0"], "T", "longer than its fields"),
    "a mark that is cut": ([BEGIN, _mark("xyz")[:-1]], "M", "longer than the message"),
    "a mark with bytes behind": (
        [BEGIN, _mark("x") + b"\0"],
        "M",
        "longer than its fields",
    ),
    "an origin with bytes behind": ([BEGIN, wire.origin("o") + b"x"], "O", "longer than its fields"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_malformed_stream_is_refused(name: str) -> None:
    stream, message_type, problem = BROKEN[name]
    with pytest.raises(DecodeError, match=problem) as raised:
        decoder(members=[member()]).decode(stream)
    assert raised.value.message_type == message_type


def test_an_error_names_the_byte_in_the_batch() -> None:
    bad = _row(b"n" + b"b\0\0\0\1x")
    with pytest.raises(DecodeError) as raised:
        decoder(members=[member()]).decode([BEGIN, TABLE, ROW, bad, COMMIT])
    before = len(BEGIN) + len(TABLE) + len(ROW)
    assert raised.value.offset == before + bad.index(b"nb") + 1


def test_an_error_of_a_whole_message_names_its_kind_byte() -> None:
    with pytest.raises(DecodeError) as raised:
        decoder().decode([BEGIN, wire.commit(101)])
    assert raised.value.offset == len(BEGIN) + HEAD


def test_a_malformed_row_of_a_later_batch_is_refused_too() -> None:
    lasting = decoder(members=[member()])
    lasting.decode([BEGIN, TABLE, ROW])
    with pytest.raises(DecodeError, match="columns"):
        lasting.decode([wire.insert(OID, "1")])


def test_an_lsn_that_goes_back_between_batches_is_refused() -> None:
    lasting = decoder()
    lasting.decode([BEGIN, COMMIT])
    with pytest.raises(DecodeError, match="not above"):
        lasting.decode([wire.begin(100)])
