"""Marks of delivery: a transaction with a verified one has an origin in all its records."""

from __future__ import annotations

import json

import pytest

from builders.log import pgoutput_messages as wire
from builders.log.pgoutput_streams import decoder, rows
from rowtide.core.lsn import CommitLsn
from rowtide.log.membership import Member
from rowtide.log.origin_marks import SecretWanted

GUID, SECRET = "8ea9", "s3cret"
TABLE = 16_400
MEMBER = Member("m1", "test", "t", TABLE, "public", "t", ("a",), "{}")
SECRETS: dict[str, str | None] = {GUID: SECRET}


def mark(secret: str = SECRET, *, transactional: bool = True) -> bytes:
    content = json.dumps({"subscription": GUID, "originator": "1/2", "secret": secret})
    return wire.logical_message("rowtide.origin", content, transactional=transactional)


def transaction(lsn: int, *messages: bytes) -> list[bytes]:
    return [wire.begin(lsn), *messages, wire.commit(lsn)]


STREAM = [
    wire.begin(200),
    mark(),
    wire.relation(TABLE, ["a"]),
    wire.insert(TABLE, "1"),
    wire.insert(TABLE, "2"),
    wire.commit(200),
    *transaction(300, wire.insert(TABLE, "3")),
    *transaction(400, wire.origin("native"), wire.insert(TABLE, "4")),
    *transaction(500, wire.origin("native"), mark(), wire.insert(TABLE, "5")),
]


@pytest.mark.parametrize("cut", range(len(STREAM)))
def test_marked_transactions_have_an_origin_however_they_are_cut(cut: int) -> None:
    reader = decoder(members=[MEMBER])
    parts = [reader.decode(part, secrets=SECRETS) for part in (STREAM[:cut], STREAM[cut:])]
    found = [(row["after"][0], row["origin"]) for part in parts for row in rows(part.records)]

    marked = f"rowtide.origin/{GUID}"
    assert found == [("1", marked), ("2", marked), ("3", None), ("4", "native"), ("5", marked)]


def test_unknown_subscriptions_secret_is_asked_for_once() -> None:
    reader = decoder(members=[MEMBER])
    with pytest.raises(SecretWanted) as wanted:
        reader.decode(STREAM)

    assert wanted.value.subscription == GUID
    assert len(reader.decode(STREAM, secrets=SECRETS).records) == 5


@pytest.mark.parametrize("forged", [mark("guessed"), wire.logical_message("rowtide.origin", "no JSON")])
def test_a_mark_that_is_not_verified_is_reported(forged: bytes) -> None:
    relation = wire.relation(TABLE, ["a"])
    stream = transaction(200, forged, relation, wire.insert(TABLE, "1"))
    decoded = decoder(members=[MEMBER]).decode(stream, secrets=SECRETS)

    assert [row["origin"] for row in rows(decoded.records)] == [None]
    assert decoded.unverified == (CommitLsn(200),)


def test_a_mark_outside_a_transaction_marks_nothing() -> None:
    relation = wire.relation(TABLE, ["a"])
    stream = transaction(200, relation, mark(transactional=False), wire.insert(TABLE, "1"))
    decoded = decoder(members=[MEMBER]).decode(stream, secrets=SECRETS)

    assert [row["origin"] for row in rows(decoded.records)] == [None]
    assert decoded.unverified == ()
