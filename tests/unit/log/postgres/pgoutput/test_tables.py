"""Table versions, members, truncations and logical messages."""

from __future__ import annotations

import json
from collections.abc import Sequence

from builders.log import pgoutput_messages as wire
from builders.log.pgoutput_messages import ColumnSpec
from builders.log.pgoutput_streams import CONTROL, announce, decoder, disable, enable, member, rows, together
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import NO_TABLE, Operation
from rowtide.core.tables import ColumnShape, ImageKind, LoggedTable, TableShape
from rowtide.log.membership import (
    Alteration,
    Altered,
    AlteredColumn,
    Disabled,
    Enabled,
    Member,
    Reshaped,
    encode_alteration,
)

OID, OTHER = 16384, 16385
TABLE = wire.relation(OID, ["a", "b", "c"])
ROW = wire.insert(OID, "1", "2", "3")


def _shape(
    *names: str, others: Sequence[str] = ("c",), identity: ImageKind = ImageKind.KEY, name: str = "t"
) -> TableShape:
    """A table whose columns are all of the same type; of `TABLE` somebody needs all but `others`."""
    return TableShape(OID, "public", name, identity, _columns(names), _columns(others))


def _columns(names: Sequence[str]) -> tuple[ColumnShape, ...]:
    return tuple(ColumnShape(column, 25, -1, is_key=False) for column in names)


def _transaction(lsn: int, *inside: bytes) -> list[bytes]:
    return [wire.begin(lsn), *inside, wire.commit(lsn)]


def test_shape_has_needed_columns_as_logged_in_table_order() -> None:
    specs = [ColumnSpec("k", 23, is_key=True), ColumnSpec("x", 16), ColumnSpec("v", 1043, typmod=24)]
    stream = _transaction(
        100, wire.relation(OID, specs, schema="sales", name="orders", identity="f"), wire.insert(OID, "1", "t", "v")
    )
    decoded = decoder(members=[member(OID, ("v", "k", "gone"))]).decode(stream)
    columns = (ColumnShape("k", 23, -1, is_key=True), ColumnShape("v", 1043, 24, is_key=False))
    others = (ColumnShape("x", 16, -1, is_key=False),)
    shape = TableShape(OID, "sales", "orders", ImageKind.FULL, columns, others)
    assert decoded.new_tables == (LoggedTable(1, shape),)
    assert rows(decoded.records)[0]["after"] == ["1", "v"]


def test_each_replica_identity_is_named_by_what_it_logs() -> None:
    kinds = {"d": ImageKind.KEY, "i": ImageKind.KEY, "f": ImageKind.FULL, "n": ImageKind.NONE}
    for letter, kind in kinds.items():
        stream = _transaction(100, wire.relation(OID, ["a"], identity=letter), wire.insert(OID, "1"))
        (version,) = decoder(members=[member()]).decode(stream).new_tables
        assert version.shape.identity == kind


def test_the_needs_of_all_members_of_a_table_are_united() -> None:
    both = [member(OID, ("c",), "m1"), member(OID, ("a",), "m2"), member(OTHER, ("b",), "m3")]
    (version,) = decoder(members=both).decode(_transaction(100, TABLE, ROW)).new_tables
    assert version.shape == _shape("a", "c", others=("b",))


def test_a_table_that_no_member_needs_has_no_version_and_no_rows() -> None:
    decoded = decoder(members=[member(OTHER)]).decode(_transaction(100, TABLE, ROW, wire.truncate(OID)))
    assert (decoded.records.num_rows, decoded.new_tables, decoded.events) == (0, (), ())
    assert decoded.transactions == 1


def test_a_description_without_a_change_gives_no_version() -> None:
    assert decoder(members=[member()]).decode(_transaction(100, TABLE)).new_tables == ()


def test_the_same_description_again_keeps_the_version() -> None:
    stream = _transaction(100, TABLE, ROW, TABLE, ROW)
    decoded = decoder(members=[member()]).decode(stream)
    assert [row["table_id"] for row in rows(decoded.records)] == [1, 1]
    assert decoded.events == (Reshaped(CommitLsn(100), 1),)


def test_known_table_version_of_equal_shape_is_reused() -> None:
    known = [LoggedTable(4, _shape("a", "b")), LoggedTable(6, TableShape(OTHER, "public", "o", ImageKind.KEY, ()))]
    decoded = decoder(members=[member()], tables=known).decode(_transaction(100, TABLE, ROW))
    assert [row["table_id"] for row in rows(decoded.records)] == [4]
    assert decoded.new_tables == ()


def test_only_the_latest_version_of_a_table_is_reused() -> None:
    known = [LoggedTable(5, _shape("a")), LoggedTable(4, _shape("a", "b"))]
    decoded = decoder(members=[member()], tables=known).decode(_transaction(100, TABLE, ROW))
    assert decoded.new_tables == (LoggedTable(6, _shape("a", "b")),)
    assert decoded.events == (Reshaped(CommitLsn(100), 6),)


def test_altered_table_gets_a_version_and_event_at_its_first_row() -> None:
    altered = wire.relation(OID, ["b", "a"], name="renamed")
    stream = _transaction(100, TABLE, ROW) + _transaction(200, altered) + _transaction(300, wire.insert(OID, "2", "1"))
    decoded = decoder(members=[member()]).decode(stream)
    assert decoded.new_tables == (
        LoggedTable(1, _shape("a", "b")),
        LoggedTable(2, _shape("b", "a", others=(), name="renamed")),
    )
    assert decoded.events == (Reshaped(CommitLsn(100), 1), Reshaped(CommitLsn(300), 2))
    assert [(row["table_id"], row["after"]) for row in rows(decoded.records)] == [(1, ["1", "2"]), (2, ["2", "1"])]


def test_table_altered_after_enable_is_reshaped_at_its_first_row() -> None:
    new = member(OID, ("a", "b"))
    altered = wire.relation(OID, ["a"])
    stream = _transaction(100, enable(new)) + _transaction(200, altered, wire.insert(OID, "1"))
    decoded = decoder().decode(stream)
    assert decoded.events == (Enabled(CommitLsn(100), new), Reshaped(CommitLsn(200), 1))
    assert decoded.new_tables == (LoggedTable(1, _shape("a", others=())),)


def test_version_of_a_dead_reader_is_announced_by_the_next() -> None:
    stream = _transaction(100, TABLE, ROW)
    died = decoder(members=[member()]).decode(stream)
    resent = decoder(members=[member()], tables=died.new_tables).decode(stream)
    assert resent.new_tables == ()
    assert resent.events == died.events == (Reshaped(CommitLsn(100), 1),)


def test_the_version_in_use_is_announced_once_on_each_connection() -> None:
    known = [LoggedTable(1, _shape("a", "b"))]
    stream = _transaction(100, TABLE, ROW) + _transaction(200, ROW) + _transaction(300, TABLE, ROW)
    for _ in range(2):
        connected = decoder(members=[member()], tables=known)
        _, _, events, _ = together(connected.decode([message]) for message in stream)
        assert events == [Reshaped(CommitLsn(100), 1)]


def test_rows_of_a_dropped_transaction_use_no_version() -> None:
    stream = _transaction(100, TABLE, ROW) + _transaction(200, ROW)
    decoded = decoder(position=150, members=[member()]).decode(stream)
    assert decoded.events == (Reshaped(CommitLsn(200), 1),)


def test_change_of_unneeded_columns_is_a_version_of_same_images() -> None:
    altered = wire.relation(OID, ["a", "new", "b"])
    stream = _transaction(100, TABLE, ROW, altered, wire.insert(OID, "4", "5", "6"), TABLE, ROW)
    decoded = decoder(members=[member()]).decode(stream)
    records = rows(decoded.records)
    assert [(row["table_id"], row["seqval"]) for row in records] == [(1, 1), (2, 2), (3, 3)]
    assert [row["after"] for row in records] == [["1", "2"], ["4", "6"], ["1", "2"]]
    assert decoded.new_tables[1].shape == _shape("a", "b", others=("new",))


def test_versions_are_numbered_by_first_use_across_tables() -> None:
    other = wire.relation(OTHER, ["a"], name="other")
    stream = _transaction(100, TABLE, other, wire.insert(OTHER, "1"), ROW)
    decoded = decoder(members=[member(), member(OTHER, member_id="m2")]).decode(stream)
    assert [(version.table_id, version.shape.source_id) for version in decoded.new_tables] == [(1, OTHER), (2, OID)]


def test_an_oid_above_two_to_the_31_is_an_oid() -> None:
    oid = 4_000_000_000
    stream = _transaction(100, wire.relation(oid, ["a"]), wire.insert(oid, "1"))
    (version,) = decoder(members=[member(oid)]).decode(stream).new_tables
    assert version.shape.source_id == oid


def test_member_enabled_in_a_transaction_sees_only_later_rows() -> None:
    new = member(OID, ("a",))
    enabling = decoder()
    decoded = enabling.decode(_transaction(100, TABLE, ROW, enable(new), ROW))
    assert [(row["table_id"], row["seqval"]) for row in rows(decoded.records)] == [(NO_TABLE, 2), (1, 3)]
    assert decoded.events == (Enabled(CommitLsn(100), new), Reshaped(CommitLsn(100), 1))
    assert enabling.members == (new,)


def test_a_second_member_reshapes_the_table() -> None:
    new = member(OID, ("c",), "m2")
    decoded = decoder(members=[member()]).decode(_transaction(100, TABLE, ROW, enable(new), ROW))
    images = [row["after"] for row in rows(decoded.records)]
    assert images == [None, ["1", "2"], ["1", "2", "3"]]
    first, second = Reshaped(CommitLsn(100), 1), Reshaped(CommitLsn(100), 2)
    assert decoded.events == (first, Enabled(CommitLsn(100), new), second)


def test_a_disabled_member_sees_no_rows_from_there_on() -> None:
    disabling = decoder(members=[member()])
    decoded = disabling.decode(_transaction(100, TABLE, ROW, disable("m1"), ROW))
    assert [row["seqval"] for row in rows(decoded.records)] == [2, 1]
    assert decoded.events == (Reshaped(CommitLsn(100), 1), Disabled(CommitLsn(100), "m1"))
    assert disabling.members == ()


def test_disabling_a_stranger_changes_no_member() -> None:
    disabling = decoder(members=[member()])
    assert disabling.decode(_transaction(100, disable("m9"))).events == (Disabled(CommitLsn(100), "m9"),)
    assert disabling.members == (member(),)


def test_member_enabled_for_another_table_leaves_the_first() -> None:
    stream = _transaction(100, TABLE, ROW, enable(member(OTHER)), ROW)
    decoded = decoder(members=[member(OID)]).decode(stream)
    assert [row["seqval"] for row in rows(decoded.records)] == [2, 1]


def test_truncate_is_one_record_per_member_table_in_one_group() -> None:
    tables = [TABLE, wire.relation(OTHER, ["a"]), wire.relation(16390, ["a"])]
    statement = wire.truncate(OTHER, 16390, OID, cascade=True, restart_identity=True)
    both = [member(), member(OTHER, member_id="m2")]
    decoded = decoder(members=both).decode(_transaction(100, *tables, ROW, statement))
    truncated = [row for row in rows(decoded.records) if row["operation"] == Operation.TRUNCATE]
    payload = {"group": 2, "cascade": True, "restart_identity": True}
    assert [(row["table_id"], row["seqval"], row["payload"]) for row in truncated] == [(1, 4, payload), (2, 2, payload)]
    assert all(row["before"] is row["after"] is row["absent"] is None for row in truncated)


def test_a_truncation_alone_gives_out_the_version() -> None:
    decoded = decoder(members=[member()]).decode(_transaction(100, TABLE, wire.truncate(OID)))
    assert decoded.new_tables == (LoggedTable(1, _shape("a", "b")),)
    assert rows(decoded.records)[0]["payload"] == {"group": 1, "cascade": False, "restart_identity": False}


def test_a_table_is_reshaped_by_a_truncation_too() -> None:
    known = [LoggedTable(1, _shape("a"))]
    decoded = decoder(members=[member()], tables=known).decode(_transaction(100, TABLE, wire.truncate(OID)))
    assert decoded.events == (Reshaped(CommitLsn(100), 2),)


def test_an_announcement_is_a_record_of_no_table() -> None:
    stream = _transaction(100, enable(member()), disable("m1"))
    enabled, disabled = rows(decoder().decode(stream).records)
    assert (enabled["table_id"], enabled["operation"], enabled["seqval"]) == (NO_TABLE, Operation.MESSAGE, 1)
    assert enabled["before"] is enabled["after"] is None
    assert enabled["payload"]["kind"] == "enable"
    assert json.loads(disabled["payload"]["content"]) == {"member_id": "m1"}


def test_messages_of_an_application_are_not_kept() -> None:
    stream = _transaction(100, wire.logical_message("app", "grüße"), wire.logical_message("rowtide.app", b"\xff\x00"))
    decoded = decoder().decode(stream)
    assert (decoded.records.num_rows, decoded.events, decoded.transactions) == (0, (), 1)


def test_a_message_outside_any_transaction_is_ignored() -> None:
    outside = wire.logical_message("rowtide.disable", "no json", transactional=False)
    stream = [outside, wire.begin(100), outside, wire.commit(100), outside]
    decoded = decoder(members=[member()]).decode(stream)
    assert (decoded.records.num_rows, decoded.events, decoded.transactions) == (0, (), 1)


def test_what_is_known_survives_from_batch_to_batch() -> None:
    lasting = decoder(members=[member()])
    batches = [_transaction(100, TABLE), _transaction(200, ROW), _transaction(300, ROW)]
    decoded, new_tables, events, _ = together(map(lasting.decode, batches))
    assert [(row["table_id"], row["commit_lsn"]) for row in decoded] == [(1, 200), (1, 300)]
    assert (len(new_tables), events) == (1, [Reshaped(CommitLsn(200), 1)])


NUMBERED = Member("m1", "cdc", "t", OID, "public", "t", ("a", "b"), "{}", column_numbers=(1, 2))


def _altered(*columns: tuple[int, str], table: str = "t") -> Alteration:
    """The table has these columns after a statement, by number and name."""
    described = tuple(
        AlteredColumn(number, name, "text", 25, -1, None, is_nullable=True, is_generated=False, default=None)
        for number, name in columns
    )
    return Alteration(OID, "public", table, "ALTER TABLE", "alter …", rewrites_values=False, columns=described)


def _alter(alteration: Alteration) -> bytes:
    return announce("ddl", encode_alteration(alteration))


def test_renamed_column_is_read_on_and_keeps_its_number() -> None:
    altered = _altered((1, "a"), (2, "z"), (3, "c"), table="u")
    renamed = wire.relation(OID, ["a", "z", "c"], name="u")
    reader = decoder(members=[NUMBERED])
    decoded = reader.decode(_transaction(100, TABLE, ROW, _alter(altered), renamed, ROW))
    assert [row["after"] for row in rows(decoded.records) if row["table_id"] != NO_TABLE] == [["1", "2"], ["1", "2"]]
    first, second = decoded.new_tables
    assert [(column.name, column.number) for column in first.shape.columns] == [("a", 1), ("b", 2)]
    assert [(column.name, column.number) for column in second.shape.columns] == [("a", 1), ("z", 2)]
    lsn = CommitLsn(100)
    assert decoded.events == (Reshaped(lsn, 1), Altered(lsn, altered, seqval=2), Reshaped(lsn, 2))
    (member_after,) = reader.members
    assert (member_after.table, member_after.columns, member_after.column_numbers) == ("u", ("a", "z"), (1, 2))


def test_an_alteration_has_its_place_in_any_batch() -> None:
    control = [CONTROL, announce("ddl", encode_alteration(_altered((1, "a"))))]
    stream = _transaction(100, TABLE, ROW, *control, ROW, _alter(_altered((1, "z"))), wire.relation(OID, ["z"]))
    reader = decoder(members=[NUMBERED])
    _, _, events, _ = together(reader.decode([message]) for message in stream)
    # A row of the table of announcements is counted as any.
    assert [event.seqval for event in events if isinstance(event, Altered)] == [2, 4]


def test_column_dropped_and_added_again_is_another_column() -> None:
    reader = decoder(members=[NUMBERED])
    again = wire.relation(OID, ["a", "c", "b"])
    decoded = reader.decode(_transaction(100, TABLE, ROW, _alter(_altered((1, "a"), (3, "c"), (4, "b"))), again, ROW))
    assert [row["after"] for row in rows(decoded.records) if row["table_id"] != NO_TABLE] == [["1", "2"], ["1"]]


def test_alteration_in_a_dropped_transaction_changes_no_member() -> None:
    reader = decoder(position=150, members=[NUMBERED])
    assert reader.decode(_transaction(100, _alter(_altered((1, "z"))))).events == ()
    assert reader.members == (NUMBERED,)
