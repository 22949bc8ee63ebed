"""Announcements: rows of `rowtide.control` in the transaction that wrote them."""

from __future__ import annotations

import pytest

from builders.log import pgoutput_messages as wire
from builders.log.pgoutput_streams import CONTROL, CONTROL_ID, announce, decoder, member, message, rows
from rowtide.core.errors import DecodeError
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import NO_TABLE, Operation
from rowtide.core.records import RECORD
from rowtide.log.log_source import Undecodable
from rowtide.log.membership import (
    Altered,
    Announcement,
    ControlRow,
    Disabled,
    Enabled,
    Event,
    Heartbeat,
    Reshaped,
    Traced,
    encode_disable,
    encode_member,
    encode_token,
)

OID = 16384
TABLE = wire.relation(OID, ["a", "b"])
ROW = wire.insert(OID, "1", "x")
ENABLE = announce("enable", encode_member(member()))
DISABLE = announce("disable", encode_disable("m1"))
FORGED = {
    "enable": message(Announcement.ENABLE, encode_member(member())),
    "disable": message(Announcement.DISABLE, encode_disable("m1")),
    "ddl": message(Announcement.DDL, b"\xff"),
    "heartbeat": message(Announcement.HEARTBEAT, ""),
    "tracer": message(Announcement.TRACER, encode_token("p", 1)),
}


def _transaction(lsn: int, *inside: bytes, xid: int = 700) -> list[bytes]:
    return [wire.begin(lsn, xid=xid), *inside, wire.commit(lsn)]


def _events(*stream: bytes) -> tuple[Event, ...]:
    return decoder(members=[member()]).decode(stream).events


def test_rows_announce_in_their_place_among_changes() -> None:
    stream = _transaction(100, CONTROL, TABLE, ROW, ENABLE, ROW, ROW, DISABLE, ROW)
    decoded = decoder().decode(stream)
    assert [type(event) for event in decoded.events] == [Enabled, Reshaped, Disabled]
    records = [(row["table_id"], row["operation"], row["seqval"]) for row in rows(decoded.records)]
    of_table = [(1, Operation.INSERT, ordinal) for ordinal in (3, 4)]
    assert records == [(NO_TABLE, Operation.MESSAGE, 2), (NO_TABLE, Operation.MESSAGE, 5), *of_table]
    kept = decoder()
    kept.decode(_transaction(100, CONTROL, ENABLE))
    after = rows(kept.decode(_transaction(200, TABLE, ROW)).records)
    assert [row["after"] for row in after] == [["1", "x"]]


def test_points_are_events_without_a_record() -> None:
    stream = _transaction(
        100, CONTROL, announce("heartbeat", ""), announce("tracer", encode_token("p", 1)), announce("mark", "")
    )
    decoded = decoder().decode(stream)
    assert [type(event) for event in decoded.events] == [Heartbeat, Traced]
    assert decoded.records.equals(RECORD.empty_table())


def test_a_row_of_another_transaction_announces_nothing() -> None:
    replayed = announce("disable", encode_disable("m1"), xid=699)
    assert _events(*_transaction(100, CONTROL, replayed, announce("nonsense", None, xid=699))) == ()


def test_the_last_row_is_that_of_the_latest_transaction() -> None:
    columns = ["id", "kind", "content", "xid", "written_at"]
    described = wire.relation(CONTROL_ID, columns, schema="rowtide", name="control")
    earlier, later, copied, late = (
        wire.insert(CONTROL_ID, "1", "mark", "", str(xid), written_at)
        for xid, written_at in ((701, "earlier"), (701, "later"), (702, "copied"), (700, "late"))
    )
    stream = [*_transaction(100, described, earlier, later, xid=701), *_transaction(200, copied, late)]
    assert decoder().decode(stream).control_row == ControlRow(701, "later")


def test_the_id_of_a_transaction_is_compared_in_full() -> None:
    xid = (3 << 32) + 7
    reader = decoder(members=[member()], xid_reference=xid)
    stream = _transaction(100, CONTROL, announce("disable", encode_disable("m1"), xid=7), DISABLE, xid=7)
    assert reader.decode(stream).events == ()
    row = announce("disable", encode_disable("m1"), xid=xid)
    assert reader.decode(_transaction(200, row, xid=7)).events == (Disabled(CommitLsn(200), "m1"),)


def test_bytes_that_are_not_utf_8_are_escaped_as_in_names() -> None:
    """A SQL_ASCII database has any bytes, and cuts a long statement within a character."""
    column = (
        '{"number" : %d, "name" : "%s", "type_text" : "text", "type_code" : 25, "type_modifier" : -1, '
        '"base_type_text" : null, "is_nullable" : true, "is_generated" : false, "default" : null, "missing_value" : %s}'
    )
    columns = [column % (1, "stra\udcdfe", "null"), column % (2, "b", '"\\"\udcfc"'), column % (3, "c", '"straße"')]
    content = (
        '{"source_id" : 1, "schema" : "s", "table" : "t", "command" : "ALTER TABLE", "rewrites_values" : false, '
        '"statement" : "add \\"missing_value\\" : \\"\udcc3", '
        f'"columns" : [{", ".join(columns)}]}}'
    ).encode(errors="surrogateescape")
    (altered,) = _events(*_transaction(100, CONTROL, announce("ddl", content)))
    assert isinstance(altered, Altered)
    assert altered.alteration.statement == r'add "missing_value" : "\xc3'
    names = [(each.name, each.missing_value) for each in altered.alteration.columns]
    assert names == [(r"stra\xdfe", None), ("b", None), ("c", "straße")]


@pytest.mark.parametrize(("schema", "name"), [("public", "control"), ("rowtide", "controls"), ("Rowtide", "control")])
def test_a_table_of_another_name_announces_nothing(schema: str, name: str) -> None:
    alike = wire.relation(CONTROL_ID, ["id", "kind", "content", "xid"], schema=schema, name=name)
    assert _events(*_transaction(100, alike, DISABLE)) == ()


def test_only_inserts_announce() -> None:
    old = ("1", "disable", encode_disable("m1"), "700")
    changes = (wire.update(CONTROL_ID, *old), wire.delete(CONTROL_ID, old=old), wire.truncate(CONTROL_ID))
    assert _events(*_transaction(100, CONTROL, *changes)) == ()


def test_announcements_that_are_durable_are_not_repeated() -> None:
    reader = decoder(position=101, members=[member()])
    stream = [*_transaction(100, CONTROL, DISABLE, announce("enable", "broken")), *_transaction(200, TABLE, ROW)]
    assert [row["after"] for row in rows(reader.decode(stream).records)] == [["1", "x"]]


@pytest.mark.parametrize("kind", FORGED)
def test_messages_announce_nothing(kind: str) -> None:
    assert _events(*_transaction(100, FORGED[kind])) == ()


BROKEN: dict[str, tuple[str, str | bytes | None, str, str]] = {
    "no JSON": ("enable", "m1", "kind enable", "its content is not as agreed"),
    "no member": ("enable", "{}", "kind enable", "its content is not as agreed"),
    "no alteration": ("ddl", '{"source_id": 1}', "kind ddl", "its content is not as agreed"),
    "no text": ("disable", b"\xff", "kind disable", "its content is not as agreed"),
    "no content": ("disable", None, "kind unknown", "it has no kind or no content"),
    "a kind of later": ("merge", "{}", "kind merge", "this version of rowtide does not know that kind"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_row_names_its_transaction(name: str) -> None:
    kind, content, named, reason = BROKEN[name]
    reader = decoder(members=[member()])
    before = _transaction(100, CONTROL, TABLE, ROW)
    stream = [*before, *_transaction(200, ROW, announce(kind, content)), *_transaction(300, ROW)]
    with pytest.raises(Undecodable) as raised:
        reader.decode(stream)
    assert f"RT-2150: an announcement of {named} cannot be read" in str(raised.value.error)
    assert f"0/C8: {reason}" in str(raised.value.error)
    assert "skip-transaction 0/C8" in str(raised.value.error)
    assert raised.value.whole == len(before)
    assert [row["after"] for row in rows(reader.decode(before).records)] == [["1", "x"]]


def test_broken_row_in_the_first_transaction_leaves_none_whole() -> None:
    reader = decoder()
    reader.decode([wire.begin(100), CONTROL])
    with pytest.raises(Undecodable) as raised:
        reader.decode([announce("merge", ""), wire.commit(100)])
    assert raised.value.whole == 0


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (b"O\0\4nnnn", "the row has not the table's 4 columns"),
        (b"N\0\3nnn", "the row has not the table's 4 columns"),
        (b"N\0\4nnnu", "a value of kind u"),
        (b"N\0\4nnnnn", "the message is longer than its fields"),
    ],
)
def test_a_malformed_row_is_refused(row: bytes, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        decoder().decode(_transaction(100, CONTROL, wire.framed(b"I" + CONTROL_ID.to_bytes(4) + row)))
