"""Transactions: LSN, time, id and origin of each change, ordinals, what is dropped, and batches that cut them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from builders.log import pgoutput_messages as wire
from builders.log.pgoutput_streams import announce, decoder, disable, enable, member, rows, together
from rowtide.core.errors import DecodeError
from rowtide.core.lsn import CommitLsn, pack_lsn
from rowtide.log.log_source import Undecodable
from rowtide.log.membership import Heartbeat, Traced, encode_token
from rowtide.log.postgres.stream.xlog_data import commit_end, is_commit

OID, OTHER = 16384, 16385
TABLE = wire.relation(OID, ["a", "b"])
OTHER_TABLE = wire.relation(OTHER, ["a"], name="other")
ROW = wire.insert(OID, "1", "x")
OTHER_ROW = wire.insert(OTHER, "1")
EPOCH_2000_US = 946_684_800_000_000


def _transaction(lsn: int, *inside: bytes, xid: int = 700, time: int = 0) -> list[bytes]:
    return [wire.begin(lsn, xid=xid, time=time), *inside, wire.commit(lsn)]


def test_rows_carry_lsn_time_and_id_of_their_transaction() -> None:
    stream = _transaction(100, TABLE, ROW, xid=701, time=5) + _transaction(200, ROW, xid=702, time=-5)
    first, second = rows(decoder(epoch=3, members=[member()]).decode(stream).records)
    assert (first["commit_lsn"], first["commit_time"], first["xid"]) == (pack_lsn(3, 100), EPOCH_2000_US + 5, 701)
    assert (second["commit_lsn"], second["commit_time"], second["xid"]) == (pack_lsn(3, 200), EPOCH_2000_US - 5, 702)


def test_ordinals_begin_again_in_each_transaction() -> None:
    stream = _transaction(100, TABLE, ROW, ROW) + _transaction(200, ROW)
    decoded = rows(decoder(members=[member()]).decode(stream).records)
    assert [(row["commit_lsn"], row["seqval"]) for row in decoded] == [(100, 1), (100, 2), (200, 1)]


def test_rows_that_no_member_needs_take_ordinals_all_the_same() -> None:
    stream = _transaction(100, TABLE, OTHER_TABLE, OTHER_ROW, ROW, wire.truncate(OTHER, OID), ROW)
    decoded = rows(decoder(members=[member()]).decode(stream).records)
    assert [(row["seqval"], row["operation"]) for row in decoded] == [(2, 1), (4, 4), (5, 1)]


def test_announcements_have_ordinals_of_their_own() -> None:
    stream = _transaction(100, TABLE, ROW, disable("m2"), ROW)
    decoded = rows(decoder(members=[member()]).decode(stream).records)
    assert [(row["operation"], row["seqval"]) for row in decoded] == [(6, 2), (1, 1), (1, 3)]


def test_transaction_split_over_batches_decodes_as_when_whole() -> None:
    stream = _transaction(100, TABLE, wire.origin("o"), ROW, wire.truncate(OID), ROW, ROW, xid=9, time=7)
    cut = decoder(members=[member()], xid_reference=5)
    decoded, _, _, commits = together(cut.decode([message]) for message in stream)
    whole, _, _, _ = together([decoder(members=[member()], xid_reference=5).decode(stream)])
    assert decoded == whole
    assert [row["seqval"] for row in decoded] == [1, 2, 3, 4]
    assert commits == 1


def test_decoder_reports_whether_a_batch_ends_in_a_transaction() -> None:
    cut = decoder(members=[member()])
    assert not cut.in_transaction
    cut.decode([wire.begin(100), TABLE, ROW])
    assert cut.in_transaction
    cut.decode([ROW, wire.commit(100)])
    assert not cut.in_transaction


def test_xids_are_extended_across_wraparound_in_both_directions() -> None:
    stream = (
        _transaction(100, TABLE, ROW, xid=2**32 - 1) + _transaction(200, ROW, xid=3) + _transaction(300, ROW, xid=0)
    )
    decoded = rows(decoder(members=[member()], xid_reference=7 << 32).decode(stream).records)
    assert [row["xid"] for row in decoded] == [(7 << 32) - 1, (7 << 32) + 3, 7 << 32]


def test_xid_reference_advances_with_the_newest_xid() -> None:
    step = 2**31 - 1
    xids = [(step * n) % 2**32 for n in range(6)]
    stream = _transaction(100, TABLE, xid=0)
    for n, xid in enumerate(xids):
        stream += _transaction(200 + n, ROW, xid=xid)
    decoded = rows(decoder(members=[member()], xid_reference=0).decode(stream).records)
    assert [row["xid"] for row in decoded] == [step * n for n in range(6)]


def test_an_origin_holds_to_the_end_of_its_transaction() -> None:
    stream = [*_transaction(100, wire.origin("north"), TABLE, ROW, ROW), *_transaction(200, ROW)]
    decoded = rows(decoder(members=[member()]).decode(stream).records)
    assert [row["origin"] for row in decoded] == ["north", "north", None]


def test_a_transaction_may_have_several_origins() -> None:
    stream = _transaction(100, TABLE, ROW, wire.origin("north"), ROW, wire.origin("south"), ROW)
    decoded = rows(decoder(members=[member()]).decode(stream).records)
    assert [row["origin"] for row in decoded] == [None, "north", "south"]


def test_a_transaction_below_the_position_is_dropped_whole() -> None:
    inside = (TABLE, enable(member(OTHER, member_id="m2")), ROW, wire.truncate(OID), wire.logical_message("p", "x"))
    decoded = decoder(position=101, members=[member()]).decode(_transaction(100, *inside))
    assert (decoded.records.num_rows, decoded.events, decoded.new_tables, decoded.transactions) == (0, (), (), 0)


def test_a_transaction_at_the_position_is_kept() -> None:
    decoded = decoder(position=100, members=[member()]).decode(_transaction(100, TABLE, ROW))
    assert (decoded.records.num_rows, decoded.transactions) == (1, 1)


def test_relation_in_a_dropped_transaction_is_known_afterwards() -> None:
    stream = _transaction(100, TABLE, ROW) + _transaction(200, ROW)
    decoded = decoder(position=150, members=[member()]).decode(stream)
    assert [row["commit_lsn"] for row in rows(decoded.records)] == [200]
    assert decoded.transactions == 1


def test_messages_of_a_dropped_transaction_change_no_members() -> None:
    stream = _transaction(100, disable("m1"), enable(member(OTHER, member_id="m2")))
    dropping = decoder(position=150, members=[member()])
    dropping.decode(stream)
    assert dropping.members == (member(),)


def test_a_dropped_transaction_may_be_cut_too() -> None:
    dropping = decoder(position=150, members=[member()])
    parts = [[wire.begin(100), TABLE, ROW], [ROW, wire.commit(100), *_transaction(200, ROW)]]
    decoded, _, _, commits = together(map(dropping.decode, parts))
    assert [(row["commit_lsn"], row["seqval"]) for row in decoded] == [(200, 1)]
    assert commits == 1


def test_records_are_sorted_by_table_then_log_order() -> None:
    stream = _transaction(100, OTHER_TABLE, OTHER_ROW, TABLE, ROW, OTHER_ROW) + _transaction(200, ROW, OTHER_ROW)
    both = [member(OID), member(OTHER, ("a",), "m2")]
    decoded = rows(decoder(members=both).decode(stream).records)
    order = [(row["table_id"], row["commit_lsn"], row["seqval"]) for row in decoded]
    assert order == [(1, 100, 1), (1, 100, 3), (1, 200, 2), (2, 100, 2), (2, 200, 1)]


def test_a_heartbeat_is_an_event_and_no_record() -> None:
    decoded = decoder().decode(_transaction(100, announce("heartbeat", ""), time=7))
    assert decoded.events == (Heartbeat(CommitLsn(100), datetime(2000, 1, 1, microsecond=7, tzinfo=UTC)),)
    assert decoded.records.num_rows == 0


def test_a_tracer_token_is_an_event_of_its_commit_and_no_row() -> None:
    content = encode_token('it\'s "shop"', 7)
    decoded = decoder().decode(_transaction(100, announce("tracer", content), time=7))
    time = datetime(2000, 1, 1, microsecond=7, tzinfo=UTC)
    assert decoded.events == (Traced(CommitLsn(100), time, 'it\'s "shop"', 7),)
    assert decoded.records.num_rows == 0


@pytest.mark.parametrize("content", ["", "{}", '{"publication": "shop", "tracer_id": null}'])
def test_what_is_no_tracer_token_is_refused(content: str) -> None:
    with pytest.raises(Undecodable, match="kind tracer cannot be read, .* 0/64: its content is not as agreed"):
        decoder().decode(_transaction(100, announce("tracer", content)))


def test_a_batch_tells_the_time_of_its_last_commit() -> None:
    stream = [*_transaction(100, time=9), *_transaction(200, time=5), wire.begin(300, time=99)]
    assert decoder().decode(stream).as_of == datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=5)


def test_a_batch_without_a_commit_tells_no_time() -> None:
    assert decoder().decode([wire.begin(300, time=99)]).as_of is None


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1, 253_402_300_800_000_000 - EPOCH_2000_US])
def test_a_commit_time_beyond_the_calendar_is_a_decode_error(time: int) -> None:
    with pytest.raises(DecodeError, match="no date"):
        decoder().decode(_transaction(100, time=time))


def test_a_commit_tells_its_end_and_other_messages_are_no_commit() -> None:
    assert is_commit(wire.commit(100, end=180))
    assert not is_commit(wire.begin(100))
    assert not is_commit(b"w")
    assert commit_end(wire.commit(100, end=180)) == 180
    assert commit_end(wire.commit(100, end=2**40)) == 2**40


@pytest.mark.parametrize("message", [wire.begin(100), wire.commit(100)[:-10], b""])
def test_the_end_of_what_is_no_commit_is_a_decode_error(message: bytes) -> None:
    with pytest.raises(DecodeError, match="in a message of type C: no complete Commit"):
        commit_end(message)
