"""Bodies of the wire protocol, and bodies that are none."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from typing import Any

import pytest

from rowtide.gateway.errors import MessageMalformed, ProtocolUnknown
from rowtide.gateway.requests import DeviceRegistration
from rowtide.gateway.wire.envelopes import SHORTEST_PACKED, Envelope, Unfit, pack, read, unpack, write
from rowtide.merge.session.messages import Acknowledgement, RowBatch
from rowtide.merge.versions.changes import RowChange, TombstoneType
from rowtide.merge.versions.comparison import Lineage, NodeChange

ROWGUID = "018f3c1e-0000-7000-8000-00000000000{}"
LAST = NodeChange(7, 3)
LINEAGE = Lineage.EMPTY.with_change(LAST)
GOOD: dict[str, Any] = {"protocol": 1, "message": {"code": "x"}, "batches": [], "is_last": True}
BATCH = {"article": 1, "versions": [], "places": [], "rowguids": [""] * 36, "columns": []}


def change(number: int, *values: str | None, **fields: Any) -> RowChange:
    made = RowChange(ROWGUID.format(number), LINEAGE.encode(), LAST.encode(), None, values)
    return made._replace(**fields)


def test_values_come_back_exactly() -> None:
    values = (None, "", "\0", "-0.0", "9223372036854775807", "0044-03-15 BC", "1.10", "é😀", "\\x00ff", "\0x'00'", '"')
    batch = RowBatch(3, [change(1, *values)])
    found = read(write(Envelope(DeviceRegistration("c"), [batch])), DeviceRegistration)
    assert found.batches[0].changes[0].row == values
    assert found.batches[0] == batch


def test_what_rows_share_is_sent_once() -> None:
    changes = [change(number % 10, "x" * 10) for number in range(100)]
    document = json.loads(write(Envelope(DeviceRegistration("c"), [RowBatch(3, changes)])))
    assert len(document["batches"][0]["versions"]) == 1
    assert document["batches"][0]["places"] == [0] * 100


def test_tombstones_parents_and_bases_come_back() -> None:
    rows = [
        change(2, "1", parents=(ROWGUID.format(1), None)),
        change(3, "1", bases='[[1, "5"]]', priority=1.5, overrules=1 << 30, columns=b""),
    ]
    gone = [change(1, row=None, tombstone=TombstoneType.LEFT), change(4, row=None, tombstone=TombstoneType.USER)]
    given = [RowBatch(3, rows), RowBatch(3, gone)]
    found = read(write(Envelope(DeviceRegistration("c"), given)), DeviceRegistration).batches
    assert [(each.article, [*each.changes]) for each in found] == [(3, rows), (3, gone)]


@pytest.mark.parametrize("spoken", [(2,), (1, 2)])
def test_another_version_is_answered_with_what_is_spoken(spoken: tuple[int, ...]) -> None:
    body = json.dumps(GOOD | {"protocol": 3, "news": 1}).encode()
    with pytest.raises(ProtocolUnknown) as refused:
        read(body, DeviceRegistration, spoken)
    assert refused.value.spoken == ", ".join(map(str, spoken))


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({}, "protocol"),
        (GOOD | {"protocol": "1"}, "protocol"),
        (GOOD | {"protocol": True}, "protocol"),
        (GOOD | {"more": 1}, "/"),
        ({name: value for name, value in GOOD.items() if name != "is_last"}, "/"),
        (GOOD | {"message": None}, "message"),
        (GOOD | {"message": {"code": 5}}, "message.code"),
        (GOOD | {"message": {"code": "x", "host_name": "south"}}, "message"),
        (GOOD | {"batches": {}}, "batches"),
        (GOOD | {"is_last": 1}, "is_last"),
        (GOOD | {"batches": [{}]}, "batches[0]"),
        (GOOD | {"batches": [BATCH | {"article": 1 << 64}]}, "batches[0].article"),
        (GOOD | {"batches": [BATCH | {"versions": [{"lineage": "!", "last": ""}]}]}, "batches[0].versions[0].lineage"),
        (GOOD | {"batches": [BATCH | {"versions": [{"lineage": "AAAA", "last": ""}]}]}, "batches[0].versions[0]"),
        (GOOD | {"batches": [BATCH | {"rows": []}]}, "batches[0]"),
        (GOOD | {"batches": [BATCH | {"places": [0]}]}, "batches[0].places"),
        ([], "/"),
        ("text", "/"),
    ],
)
def test_malformed_bodies_name_their_place(document: object, place: str) -> None:
    with pytest.raises(MessageMalformed) as refused:
        read(json.dumps(document).encode(), DeviceRegistration)
    assert refused.value.place.startswith(place)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "it is no JSON"),
        (b"\xff{}", "byte 0 is not UTF-8"),
        (b"<html></html>", "it is no JSON"),
        (b'{"protocol": NaN}', "NaN is no number of JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b'{"a": 1, "a": 2}', "an object has a field twice"),
        (b"1" * 5000, "it is no JSON"),
    ],
    ids=["empty", "not UTF-8", "html", "NaN", "deep", "twice", "a long number"],
)
def test_bodies_that_are_no_json_are_malformed(body: bytes, reason: str) -> None:
    with pytest.raises(MessageMalformed, match=reason):
        read(body, DeviceRegistration)


def test_characters_that_json_escapes_in_halves_are_whole() -> None:
    body = b'{"protocol": 1, "message": {"code": "\\ud83d\\ude00"}, "batches": [], "is_last": true}'
    assert read(body, DeviceRegistration).message == DeviceRegistration("\U0001f600")


@pytest.mark.parametrize(
    ("made_up", "place"),
    [
        ({"rowguids": [*map(str, ROWGUID.format(1).upper())]}, "rowguids"),
        ({"rowguids": [*ROWGUID.format(1)][:35]}, "rowguids"),
        ({"rowguids": ["", *ROWGUID.format(1)][:36]}, "rowguids"),
        ({"rowguids": [1] * 36}, "rowguids"),
        ({"rowguids": ROWGUID.format(1)}, "rowguids"),
        ({"places": [1]}, "places"),
        ({"places": [-1]}, "places"),
        ({"places": [True]}, "places"),
        ({"places": []}, "rowguids"),
        ({"columns": None}, "columns"),
        ({"columns": [[1]]}, "columns[0]"),
        ({"columns": ["text"]}, "columns[0]"),
        ({"columns": [["x"], ["x", "y"]]}, "columns[1]"),
        ({"parents": ["no list"]}, "parents"),
        ({"parents": [[6]]}, "parents"),
        ({"parents": []}, "parents"),
        ({"bases": ["x"]}, "bases"),
        ({"bases": {}}, "bases"),
    ],
)
def test_a_made_up_row_is_malformed(made_up: dict[str, object], place: str) -> None:
    document = json.loads(write(Envelope(DeviceRegistration("c"), [RowBatch(3, [change(1, "x")])])))
    document["batches"][0] |= made_up
    with pytest.raises(MessageMalformed) as refused:
        read(json.dumps(document).encode(), DeviceRegistration)
    assert refused.value.place.startswith(f"batches[0].{place}")


def test_a_tombstone_with_values_is_malformed() -> None:
    gone = change(1, row=None, tombstone=TombstoneType.USER)
    document = json.loads(write(Envelope(DeviceRegistration("c"), [RowBatch(3, [gone])])))
    document["batches"][0]["columns"] = [["x"]]
    with pytest.raises(MessageMalformed):
        read(json.dumps(document).encode(), DeviceRegistration)


def test_rows_are_sent_in_little_more_than_what_is_random() -> None:
    chosen, rows = random.Random(5), 1000
    # A rowguid has 9 bytes by chance: version 7 begins with the time.
    digits = [chosen.randbytes(9).hex() for _ in range(rows)]
    changes = [
        change(1, str(at), f"{chosen.randbytes(16).hex()} {'the customer was not there; ' * 5}")._replace(
            rowguid=f"018f3c1e-0000-7{each[:3]}-8{each[3:6]}-{each[6:]}"
        )
        for at, each in enumerate(digits)
    ]
    body, _ = pack(write(Envelope(DeviceRegistration("c"), [RowBatch(3, changes)])))
    by_chance = rows * (16 + 9)
    assert by_chance < len(body) < 1.3 * by_chance


def test_integers_beyond_those_of_javascript_are_texts() -> None:
    message = Acknowledgement(session=1, mark="m", received=(1 << 63) - 1)
    document = json.loads(write(Envelope(message)))
    assert document["message"]["received"] == "9223372036854775807"
    assert read(write(Envelope(message)), Acknowledgement).message == message


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


def test_a_bomb_in_a_bomb_is_unpacked_once() -> None:
    inner = gzip.compress(bytes(50_000_000))
    assert unpack(gzip.compress(inner), len(inner)) == inner


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no gzip",
        gzip.compress(b"x" * 100)[:-4],
        gzip.compress(b"x") + b"y",
        gzip.compress(b"x") * 2,
        gzip.compress(b"x") * 10_000,
        zlib.compress(b"x"),
        zlib.compress(b"x")[2:-4],
        gzip.compress(b"x")[:-8] + bytes(8),
    ],
    ids=["empty", "other", "cut", "more", "two", "many", "zlib", "deflate", "sum"],
)
def test_what_is_no_gzip_is_unfit(body: bytes) -> None:
    found = unpack(body, 1000)
    assert isinstance(found, Unfit)
    assert not found.is_too_large
