from __future__ import annotations

import json
from datetime import timedelta, timezone

import pytest

from builders.log.log_stores import NOW, SOURCE, member, segment, table_version
from rowtide.core.formats import StoredFormat
from rowtide.core.json_records import JsonInvalid, load_json
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.membership import (
    Alteration,
    Altered,
    AlteredColumn,
    ControlRow,
    Disabled,
    Enabled,
    Heartbeat,
    Reshaped,
    Traced,
)
from rowtide.log.store.entries import (
    Entry,
    FilesDeleted,
    FormatRaised,
    LeaseTaken,
    Moved,
    Opened,
    PartStored,
    RangeAppended,
    ReaderAdvanced,
    ReaderLeft,
    SegmentsMerged,
    SegmentsTruncated,
    TableGiven,
    TimelineFollowed,
    TransactionOmitted,
    TransactionSkipped,
    decode_entry,
    encode_entry,
)
from rowtide.log.store.manifest import LOG_STORE

COLUMN = AlteredColumn(2, "größe", "d", 90001, -1, "text", is_nullable=True, is_generated=False, default="'x'::d")
ALTERATION = Alteration(16385, "public", "t1", "ALTER TABLE", "alter …", rewrites_values=True, columns=(COLUMN,))
EVENTS = (
    Enabled(CommitLsn(101), member()),
    Disabled(CommitLsn(102), "m1"),
    Reshaped(CommitLsn(103), 2),
    Altered(CommitLsn(104), ALTERATION, seqval=7),
    Heartbeat(CommitLsn(104), NOW),
    Traced(CommitLsn(104), NOW, "größe", 7),
    Traced(CommitLsn(104), NOW, "größe", 8, stored_at=NOW),
)
ROW = ControlRow((3 << 32) + 7, "2026-03-01 12:00:00.000001+00")
RANGE = RangeAppended(2, Position.of(3, 100), Position.of(3, 0x1_0000_0000), (segment(101, 103),), EVENTS, 4, NOW, ROW)
ENTRIES: list[Entry] = [
    Opened(0, Position(100), SOURCE, None, format=LOG_STORE.recorded),
    Opened(3, Position.of(3, 100), SOURCE, "restored", control_row=ROW),
    FormatRaised(StoredFormat(3, 2, 3)),
    TableGiven(2, table_version()),
    RANGE,
    PartStored(2, 1, segment(101)),
    LeaseTaken("log", "host 1, process 2", NOW),
    SegmentsMerged(2, ("segments/a", "segments/b"), segment(101), NOW),
    ReaderAdvanced("cdc", Position(5), cycle=3, as_of=NOW, lake_token=4),
    ReaderAdvanced("subscription", Position(5), idle_from=Position(4)),
    ReaderLeft("cdc"),
    TimelineFollowed(1, 2),
    TransactionSkipped(2, CommitLsn.of(3, 9), "a row is too large"),
    TransactionOmitted("cdc", "m1", CommitLsn.of(3, 9), "a row is too large", lake_token=4),
    SegmentsTruncated(2, Position(5), NOW),
    FilesDeleted(2, ("segments/a",)),
    Moved(2, "s3://bucket/shop", "s3://bucket/shop/log", NOW, is_recorded=False),
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.kind)
def test_an_entry_survives_its_json(entry: Entry) -> None:
    assert decode_entry(load_json(encode_entry(entry))) == entry


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.kind)
def test_unknown_fields_are_those_of_newer_formats(entry: Entry) -> None:
    printed = {**load_json(encode_entry(entry)), "later": 1}

    assert decode_entry(printed, is_newer=True) == entry
    with pytest.raises(JsonInvalid, match="later is not a field"):
        decode_entry(printed)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.kind)
def test_every_field_is_there(entry: Entry) -> None:
    printed = load_json(encode_entry(entry))
    for name in printed.keys() - {"kind"}:
        with pytest.raises(JsonInvalid, match=f"^{name} is not there$"):
            decode_entry({key: value for key, value in printed.items() if key != name})


def test_lsns_and_positions_are_printed_as_a_person_reads_them() -> None:
    printed = json.loads(encode_entry(RANGE))

    assert (printed["from_position"], printed["position"]) == ("3:0/64", "3:1/0")
    assert (printed["segments"][0]["first"], printed["segments"][0]["last"]) == ("0/65", "0/67")
    assert [(event["event"], event["commit_lsn"]) for event in printed["events"]] == [
        ("enabled", "0/65"),
        ("disabled", "0/66"),
        ("reshaped", "0/67"),
        ("altered", "0/68"),
        ("heartbeat", "0/68"),
        ("traced", "0/68"),
        ("traced", "0/68"),
    ]


def test_times_are_printed_in_utc() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    entry = decode_entry(load_json(encode_entry(LeaseTaken("log", "us", elsewhere))))

    assert isinstance(entry, LeaseTaken)
    assert entry.taken_at.isoformat() == "2026-03-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"", "not JSON"),
        (b"{}", "kind is not one of opened, "),
        (b'{"kind":"opened"}', "control_row is not there"),
        (b'{"kind":"later","reader":"cdc"}', "kind is not one of opened, "),
        (encode_entry(ReaderAdvanced("cdc", Position(100))).replace(b'"0/64"', b'"zz"'), "position is not an LSN"),
        (
            b'{"kind":"lease_taken","lease":"log","holder":"us","taken_at":"2026-03-01T12:00:00"}',
            "taken_at is not a time with its zone",
        ),
        (encode_entry(RANGE).replace(b'"reshaped"', b'"exploded"'), "events.2.event is not one of enabled, "),
        (
            encode_entry(RANGE).replace(b'"member_id":"m1"', b'"member":"m1"'),
            "events.0.member.member is not a field of Member",
        ),
        (encode_entry(RANGE)[:-5], "not JSON"),
    ],
)
def test_a_damaged_entry_is_refused(damaged: bytes, problem: str) -> None:
    with pytest.raises(JsonInvalid, match=f"^{problem}"):
        decode_entry(load_json(damaged))
