"""Random streams of pgoutput messages, and decoded tables as plain rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from builders.log import pgoutput_messages as wire
from rowtide.core.lsn import Position
from rowtide.core.records import RECORD
from rowtide.core.tables import LoggedTable
from rowtide.log.log_source import Decoded
from rowtide.log.membership import Announcement, Event, Member, encode_disable, encode_member
from rowtide.log.postgres.pgoutput import Decoder

TABLES = (16384, 16385, 3_000_000_000)
COLUMNS = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")


def member(source_id: int = 16384, columns: Sequence[str] = ("a", "b"), member_id: str = "m1") -> Member:
    return Member(member_id, "cdc", "t", source_id, "public", "t", tuple(columns), "{}")


def message(kind: Announcement, content: bytes | str) -> bytes:
    """Return a logical message that is named as an announcement: it announces nothing."""
    return wire.logical_message(f"rowtide.{kind}", content)


def enable(enabled: Member) -> bytes:
    return announce(Announcement.ENABLE, encode_member(enabled))


def disable(member_id: str) -> bytes:
    return announce(Announcement.DISABLE, encode_disable(member_id))


CONTROL_ID = 20_000
CONTROL = wire.relation(CONTROL_ID, ["id", "kind", "content", "xid"], schema="rowtide", name="control")


def announce(kind: str, content: bytes | str | None, *, xid: int = 700) -> bytes:
    """Return an announcement as a row, written by a transaction; `CONTROL` describes its table."""
    return wire.insert(CONTROL_ID, "1", kind, content, str(xid))


def decoder(
    *,
    epoch: int = 0,
    position: int = 0,
    members: Iterable[Member] = (),
    tables: Iterable[LoggedTable] = (),
    xid_reference: int = 700,
) -> Decoder:
    made = Decoder(
        epoch=epoch,
        position=Position.of(epoch, position),
        members=members,
        tables=tables,
        xid_reference=xid_reference,
    )
    # The server describes a table once per connection.
    made.decode([wire.begin(1), CONTROL, wire.commit(1)])
    return made


def rows(records: pa.Table) -> list[dict[str, Any]]:
    """Return records as dictionaries: commit time in microseconds, payload parsed. Checks the schema on the way."""
    assert records.schema.equals(RECORD)
    records.validate(full=True)
    times = records.column("commit_time").cast(pa.int64())
    plain = records.set_column(1, "commit_time", times).to_pylist()
    for row in plain:
        row["payload"] = None if row["payload"] is None else json.loads(row["payload"])
    return plain


def together(batches: Iterable[Decoded]) -> tuple[list[Any], list[LoggedTable], list[Event], int]:
    """Return rows in record order, new tables, events and commits of some batches as if of one."""
    parts = list(batches)
    records = [row for part in parts for row in rows(part.records)]
    records.sort(key=lambda row: (row["table_id"], row["commit_lsn"], row["seqval"]))
    return (
        records,
        [version for part in parts for version in part.new_tables],
        [event for part in parts for event in part.events],
        sum(part.transactions for part in parts),
    )


_SENT: tuple[wire.Cell, ...] = (None, "", "x", "text", "é€😀", b"\xff", b"ok\xc3", "n", "t" * 40)
_SENT_CELLS = st.sampled_from(_SENT)
_CELLS = st.sampled_from((*_SENT, wire.UNSENT))


@st.composite
def relations(draw: st.DrawFn) -> tuple[int, int, bytes]:
    """A table's oid, number of columns, and the Relation message that describes it."""
    oid = draw(st.sampled_from(TABLES))
    names = draw(st.lists(st.sampled_from(COLUMNS), unique=True, max_size=len(COLUMNS)))
    specs = [wire.ColumnSpec(name, 25, -1, draw(st.booleans())) for name in names]
    identity = draw(st.sampled_from("dfni"))
    return oid, len(specs), wire.relation(oid, specs, identity=identity)


@st.composite
def changes(draw: st.DrawFn, tables: dict[int, int]) -> bytes:
    """One row change or truncation of the tables described so far (oid → number of columns)."""
    oid = draw(st.sampled_from(sorted(tables)))
    count = tables[oid]
    after = draw(st.lists(_CELLS, min_size=count, max_size=count))
    before = draw(st.lists(_SENT_CELLS, min_size=count, max_size=count))
    match draw(st.integers(0, 6)):
        case 0 | 1:
            return wire.insert(oid, *after)
        case 2:
            return wire.update(oid, *after)
        case 3:
            return wire.update(oid, *after, key=before)
        case 4:
            return wire.update(oid, *after, old=before)
        case 5:
            is_full = draw(st.booleans())
            return wire.delete(oid, old=before) if is_full else wire.delete(oid, key=before)
        case _:
            oids = draw(st.lists(st.sampled_from(sorted(tables)), min_size=1, unique=True))
            return wire.truncate(*oids, cascade=draw(st.booleans()), restart_identity=draw(st.booleans()))


@st.composite
def members(draw: st.DrawFn) -> Member:
    columns = draw(st.lists(st.sampled_from(COLUMNS), unique=True))
    return member(draw(st.sampled_from(TABLES)), columns, draw(st.sampled_from(("m1", "m2", "m3"))))


@st.composite
def _inner_messages(draw: st.DrawFn, tables: dict[int, int]) -> bytes:
    choice = draw(st.integers(0, 15))
    if choice == 0:
        return enable(draw(members()))
    if choice == 1:
        return disable(draw(st.sampled_from(("m1", "m2", "m3"))))
    if choice == 2:
        transactional = draw(st.booleans())
        content = draw(st.binary(max_size=4))
        return wire.logical_message("other", content, transactional=transactional)
    if choice == 3:
        return draw(st.sampled_from((wire.type_message(), wire.origin("elsewhere"))))
    if choice in (4, 5) or not tables:
        oid, count, message = draw(relations())
        tables[oid] = count
        return message
    return draw(changes(tables))


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """A well-formed stream over a few tables, with everything that may happen in one."""
    tables: dict[int, int] = {}
    stream: list[bytes] = []
    lsn = 100
    for _ in range(draw(st.integers(1, 4))):
        lsn += draw(st.integers(1, 50))
        time = draw(st.integers(-(10**15), 10**15))
        stream.append(wire.begin(lsn, time=time, xid=draw(st.just(700) | st.integers(0, 2**32 - 1))))
        if draw(st.booleans()):
            stream.append(wire.origin("upstream"))
        stream += [draw(_inner_messages(tables)) for _ in range(draw(st.integers(0, 8)))]
        stream.append(wire.commit(lsn))
    return stream
