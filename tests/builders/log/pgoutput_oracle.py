"""A slow decoder of pgoutput, one message and one value at a time, to compare the fast one with."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import ColumnShape, ImageKind, LoggedTable, TableShape
from rowtide.log.membership import Disabled, Enabled, Event, Member, Reshaped

Record = dict[str, Any]
_KINDS = {
    "B": "begin",
    "C": "commit",
    "O": "origin",
    "Y": "type",
    "R": "relation",
    "M": "message",
    "T": "truncate",
    "I": "insert",
    "U": "update",
    "D": "delete",
}


@dataclass
class Oracle:
    """Decodes a whole stream; `records` are in log order."""

    epoch: int
    position: Position
    xid_reference: int
    members: dict[str, Member] = field(default_factory=dict)
    versions: list[LoggedTable] = field(default_factory=list)
    last_used: dict[int, int] = field(default_factory=dict)
    relations: dict[int, tuple[str, str, ImageKind, list[ColumnShape]]] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    new_tables: list[LoggedTable] = field(default_factory=list)
    transactions: int = 0
    begin: Record = field(default_factory=dict)
    ordinal: int = 0
    is_dropped: bool = False

    def decode(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            handler = getattr(self, f"_on_{_KINDS[chr(message[25])]}")
            handler(_Cursor(message[26:]))

    def sorted_records(self) -> list[Record]:
        return sorted(self.records, key=lambda r: (r["table_id"], r["commit_lsn"], r["seqval"]))

    def _on_begin(self, cursor: _Cursor) -> None:
        log, time, xid = cursor.take(">QqI")
        lsn = self.epoch << 56 | log
        difference = (xid - self.xid_reference) % 2**32
        full = self.xid_reference + difference - (2**32 if difference >= 2**31 else 0)
        self.xid_reference = max(self.xid_reference, full)
        self.begin = {"commit_lsn": lsn, "time": time, "xid": full, "origin": None}
        self.is_dropped = lsn < self.position.value
        self.ordinal = 0

    def _on_commit(self, cursor: _Cursor) -> None:
        self.transactions += not self.is_dropped

    def _on_origin(self, cursor: _Cursor) -> None:
        cursor.take(">Q")
        self.begin["origin"] = cursor.name()

    def _on_type(self, cursor: _Cursor) -> None:
        pass

    def _on_relation(self, cursor: _Cursor) -> None:
        (oid,) = cursor.take(">I")
        schema, name = cursor.name(), cursor.name()
        identity, count = cursor.take(">ch")
        kind = {b"f": ImageKind.FULL, b"n": ImageKind.NONE}.get(identity, ImageKind.KEY)
        columns = []
        for _ in range(count):
            (flags,) = cursor.take(">B")
            column = cursor.name()
            oid_of_type, typmod = cursor.take(">Ii")
            columns.append(ColumnShape(column, oid_of_type, typmod, bool(flags & 1)))
        self.relations[oid] = (schema, name, kind, columns)

    def _on_message(self, cursor: _Cursor) -> None:
        flags, _ = cursor.take(">BQ")
        prefix = cursor.name()
        content = cursor.octets(*cursor.take(">i"))
        if not flags & 1 or self.is_dropped:
            return
        lsn = CommitLsn(self.begin["commit_lsn"])
        if prefix == "rowtide.enable":
            fields = json.loads(content)
            lists = {name: tuple(fields[name]) for name in ("columns", "column_numbers", "computed_numbers")}
            member = Member(**{**fields, **lists})
            self.members.pop(member.member_id, None)
            self.members[member.member_id] = member
            self.events.append(Enabled(lsn, member))
        if prefix == "rowtide.disable":
            member_id = json.loads(content)["member_id"]
            self.members.pop(member_id, None)
            self.events.append(Disabled(lsn, member_id))
        if prefix in ("rowtide.enable", "rowtide.disable"):
            payload = {"kind": prefix.removeprefix("rowtide."), "content": content.decode()}
            self._record(6, -1, 0, seqval=self.ordinal + 1, payload=payload)

    def _on_truncate(self, cursor: _Cursor) -> None:
        count, options = cursor.take(">iB")
        group = self.ordinal + 1
        for _ in range(count):
            (oid,) = cursor.take(">I")
            self.ordinal += 1
            if self.is_dropped or not self._is_needed(oid):
                continue
            version, _ = self._version(oid)
            flags = {"cascade": bool(options & 1), "restart_identity": bool(options & 2)}
            self._record(4, version.table_id, 0, payload={"group": group, **flags})

    def _on_insert(self, cursor: _Cursor) -> None:
        self._on_row(1, cursor)

    def _on_update(self, cursor: _Cursor) -> None:
        self._on_row(2, cursor)

    def _on_delete(self, cursor: _Cursor) -> None:
        self._on_row(3, cursor)

    def _on_row(self, operation: int, cursor: _Cursor) -> None:
        (oid,) = cursor.take(">I")
        self.ordinal += 1
        if self.is_dropped or not self._is_needed(oid):
            return
        version, kept = self._version(oid)
        image, before, after, absent = 0, None, None, None
        while not cursor.is_done:
            (tag,) = cursor.take(">c")
            cells = cursor.cells()
            chosen = [cells[place] for place in kept]
            values = [_text(cell) for cell in chosen]
            if tag == b"N":
                after, absent = values, _bitmap(chosen)
            else:
                before, image = values, {b"K": 1, b"O": 2}[tag]
        self._record(operation, version.table_id, image, before=before, after=after, absent=absent)

    def _is_needed(self, oid: int) -> bool:
        return any(member.source_id == oid for member in self.members.values())

    def _version(self, oid: int) -> tuple[LoggedTable, list[int]]:
        schema, name, identity, columns = self.relations[oid]
        needed = {column for member in self.members.values() if member.source_id == oid for column in member.columns}
        kept = [place for place, column in enumerate(columns) if column.name in needed]
        others = tuple(column for column in columns if column.name not in needed)
        shape = TableShape(oid, schema, name, identity, tuple(columns[place] for place in kept), others)
        earlier = [version for version in self.versions if version.shape.source_id == oid]
        if earlier and earlier[-1].shape == shape:
            version = earlier[-1]
        else:
            table_id = max((version.table_id for version in self.versions), default=0) + 1
            version = LoggedTable(table_id, shape)
            self.versions.append(version)
            self.new_tables.append(version)
        if self.last_used.get(oid) != version.table_id:
            self.events.append(Reshaped(CommitLsn(self.begin["commit_lsn"]), version.table_id))
        self.last_used[oid] = version.table_id
        return version, kept

    def _record(
        self,
        operation: int,
        table_id: int,
        image: int,
        *,
        seqval: int | None = None,
        before: list[str | None] | None = None,
        after: list[str | None] | None = None,
        absent: bytes | None = None,
        payload: Mapping[str, object] | None = None,
    ) -> None:
        self.records.append(
            {
                "commit_lsn": self.begin["commit_lsn"],
                "commit_time": self.begin["time"] + 946_684_800_000_000,
                "xid": self.begin["xid"],
                "origin": self.begin["origin"],
                "seqval": self.ordinal if seqval is None else seqval,
                "operation": operation,
                "table_id": table_id,
                "image": image,
                "before": before,
                "after": after,
                "absent": absent,
                "payload": payload,
            }
        )


class _Cursor:
    def __init__(self, octets: bytes) -> None:
        self._rest = octets

    @property
    def is_done(self) -> bool:
        return not self._rest

    def octets(self, count: int) -> bytes:
        taken, self._rest = self._rest[:count], self._rest[count:]
        return taken

    def take(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack(layout, self.octets(struct.calcsize(layout)))

    def name(self) -> str:
        name, _, self._rest = self._rest.partition(b"\0")
        return name.decode()

    def cells(self) -> list[tuple[bytes, bytes]]:
        (count,) = self.take(">h")
        return [self._cell() for _ in range(count)]

    def _cell(self) -> tuple[bytes, bytes]:
        (kind,) = self.take(">c")
        return (kind, self.octets(*self.take(">i"))) if kind == b"t" else (kind, b"")


def _text(cell: tuple[bytes, bytes]) -> str | None:
    kind, octets = cell
    if kind != b"t":
        return None
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return "\0x" + octets.hex()


def _bitmap(cells: list[tuple[bytes, bytes]]) -> bytes | None:
    bits = sum(1 << place for place, (kind, _) in enumerate(cells) if kind == b"u")
    return bits.to_bytes((len(cells) + 7) // 8, "little") if bits else None
