"""Decodes a batch of pgoutput messages to log records and events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import NO_TABLE, Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import ImageKind, LoggedTable
from rowtide.core.values import frozen
from rowtide.log.log_source import Decoded
from rowtide.log.membership import Event, Member, Reshaped
from rowtide.log.origin_marks import Secrets
from rowtide.log.postgres.pgoutput.control_messages import Control, LogOrder, PlacedEvent, read_control
from rowtide.log.postgres.pgoutput.images import TableImages, read_images
from rowtide.log.postgres.pgoutput.inferring import Present
from rowtide.log.postgres.pgoutput.messages import Frames, Ints, join
from rowtide.log.postgres.pgoutput.relations import (
    BatchTransactions,
    LayoutChange,
    Relations,
    Resolved,
    RowLayout,
    TableVersions,
    TransactionTracker,
)
from rowtide.log.postgres.stream.xlog_data import described_oid

NO_PAYLOAD = -1
_IS_ROW = np.zeros(256, np.int64)
_IS_ROW[list(b"IUD")] = 1
# An oid has 32 bits, and a batch fewer than 2**32 messages: combined into one 64-bit key, one binary search finds the
# layouts of all changes.
_OID_SHIFT = np.uint64(32)


@frozen
class DecodedChanges:
    """Row changes and truncated tables, in log order; `payload` counts truncated tables, `slot` names the layout."""

    message: Ints
    seqval: Ints
    payload: Ints
    slot: Ints

    def chosen(self, which: Ints) -> DecodedChanges:
        return DecodedChanges(self.message[which], self.seqval[which], self.payload[which], self.slot[which])


class LayoutTimeline:
    """Finds the layout that a table has at a message, by a search in (oid, first message)."""

    def __init__(self, changes: list[LayoutChange]) -> None:
        ordered = sorted(changes, key=lambda change: (change.oid, change.message))
        self.layouts: list[RowLayout] = [change.layout for change in ordered]
        self._is_needed = np.array([layout.shape is not None for layout in self.layouts], np.bool_)
        self._oids = np.array([change.oid for change in ordered], np.int64)
        self._starts = _search_keys(self._oids, np.array([change.message for change in ordered], np.int64))

    def find(self, frames: Frames, oids: Ints, messages: Ints) -> Ints:
        """Return the slot in `layouts` per change. Raises `DecodeError` for a table without a Relation message."""
        slots = np.searchsorted(self._starts, _search_keys(oids, messages), side="right") - 1
        if len(oids):
            known = slots >= 0
            if len(self._oids):
                known &= self._oids[slots] == oids
            frames.require(known, messages, "the table was not described before")
        return slots

    def needed(self, slots: Ints) -> npt.NDArray[np.bool_]:
        return self._is_needed[slots] if len(slots) else np.zeros(0, np.bool_)


def _search_keys(oids: Ints, messages: Ints) -> npt.NDArray[np.uint64]:
    """Combine oid and message number in one integer: a description applies to messages with its own number or a higher
    one.
    """
    keys: npt.NDArray[np.uint64] = oids.astype(np.uint64) << _OID_SHIFT
    return keys | messages.astype(np.uint64)


def row_counts(frames: Frames) -> Ints:
    """Return 1 for each message that is a row change, else 0."""
    return _IS_ROW[frames.kinds]


def keep_changes(
    frames: Frames, transactions: BatchTransactions, control: Control, first_ordinals: Ints, timeline: LayoutTimeline
) -> DecodedChanges:
    """Return the changes that a member needs and that no position covers. Raises `DecodeError`."""
    rows = np.flatnonzero(row_counts(frames))
    row_oids = frames.uint32_at(frames.starts[rows] + 1)
    parts = [
        (message, table, oid)
        for message, truncation in control.truncations
        for table, oid in enumerate(truncation.oids)
    ]
    truncated = np.array(parts, np.int64).reshape(-1, 3)
    message = np.concatenate((rows, truncated[:, 0]))
    oid = np.concatenate((row_oids, truncated[:, 2]))
    seqval = first_ordinals[message]
    # Each table of a TRUNCATE has an ordinal of its own, as `changes_per_message` counts them.
    seqval[len(rows) :] += truncated[:, 1]
    payload = np.full(len(message), NO_PAYLOAD, np.int64)
    payload[len(rows) :] = np.arange(len(parts))
    changes = DecodedChanges(message, seqval, payload, timeline.find(frames, oid, message))
    is_kept = timeline.needed(changes.slot) & ~transactions.is_dropped[transactions.number[message]]
    kept = np.flatnonzero(is_kept)
    # Without truncations the rows are in log order already, so most batches need no sort.
    in_log_order = np.argsort(message[kept], kind="stable") if parts else slice(None)
    return changes.chosen(kept[in_log_order])


def by_slot(changes: DecodedChanges) -> list[Ints]:
    """Return the indices of each slot's changes, in log order."""
    if not len(changes.slot):
        return []
    first = changes.slot[0]
    if (changes.slot == first).all():
        return [np.arange(len(changes.slot))]
    narrow = np.uint16 if changes.slot.max() < 1 << 16 else np.int64  # 16 bits are radix-sorted
    order = np.argsort(changes.slot.astype(narrow), kind="stable")
    borders = np.flatnonzero(np.diff(changes.slot[order])) + 1
    return np.split(order, borders)


@frozen
class TableChanges:
    """Changes of one layout, in log order, with their table version."""

    resolved: Resolved
    layout: RowLayout
    changes: DecodedChanges

    @property
    def table_id(self) -> int:
        return self.resolved.version.table_id

    @property
    def first_message(self) -> int:
        return int(self.changes.message[0])

    def record_order(self) -> tuple[int, int]:
        """Return the sort key of records: by table version; layouts that share a version are in log order."""
        return self.table_id, self.first_message


def assign_versions(changes: DecodedChanges, timeline: LayoutTimeline, versions: TableVersions) -> list[TableChanges]:
    """Group changes by layout and assign table versions, in the order of their first use in the log."""
    groups = [changes.chosen(indices) for indices in by_slot(changes)]
    groups.sort(key=lambda group: (int(group.message[0]), int(group.seqval[0])))
    return list(_resolve(groups, timeline, versions))


def _resolve(
    groups: Sequence[DecodedChanges], timeline: LayoutTimeline, versions: TableVersions
) -> Iterator[TableChanges]:
    for group in groups:
        layout = timeline.layouts[int(group.slot[0])]
        if layout.shape is not None:
            yield TableChanges(versions.resolve(layout.shape), layout, group)


def in_log_order(
    of_messages: Sequence[PlacedEvent], tables: Sequence[TableChanges], transactions: BatchTransactions
) -> tuple[Event, ...]:
    """Return the events of logical messages and of tables together."""
    placed = [*of_messages, *(_reshaping(table, transactions) for table in tables if table.resolved.is_reshaped)]
    return tuple(event for _, event in sorted(placed, key=lambda pair: pair[0]))


def _reshaping(table: TableChanges, transactions: BatchTransactions) -> PlacedEvent:
    """A table takes its new shape before its first change."""
    lsn = CommitLsn(transactions.lsn_of(table.first_message))
    return LogOrder(table.first_message, int(table.changes.seqval[0])), Reshaped(lsn, table.table_id)


_OPERATIONS = np.zeros(256, np.int8)
for _kind, _operation in {
    "I": Operation.INSERT,
    "U": Operation.UPDATE,
    "D": Operation.DELETE,
    "T": Operation.TRUNCATE,
}.items():
    _OPERATIONS[ord(_kind)] = _operation


@frozen
class TableRecords:
    """The changes of one table version, in log order, with their images."""

    table_id: int
    changes: DecodedChanges
    images: TableImages


def assemble(
    frames: Frames,
    transactions: BatchTransactions,
    control: Control,
    first_ordinals: Ints,
    tables: Sequence[TableRecords],
) -> pa.Table:
    """Return the records: announcements, then each table in the order given, without sorting.

    An announcement's `seqval` is the ordinal of the message: 1 + the changes of its transaction before it.
    """
    if not (control.records or tables):
        # A batch with only a mark or a heartbeat.
        return RECORD.empty_table()
    messages = np.array([message for message, _ in control.records], np.int64)
    entries = np.concatenate([messages, *(table.changes.message for table in tables)])
    number = transactions.number[entries]
    columns: dict[str, Any] = {
        "commit_lsn": transactions.lsn[number],
        "commit_time": transactions.time[number],
        "xid": transactions.xid[number],
        "origin": _origins(transactions, entries),
        "seqval": _beside(first_ordinals[messages], [table.changes.seqval for table in tables]),
        "operation": _beside(
            np.full(len(messages), Operation.MESSAGE, np.int8),
            [_OPERATIONS[frames.kinds[table.changes.message]] for table in tables],
        ),
        "table_id": np.repeat(
            np.array([NO_TABLE, *(table.table_id for table in tables)], np.int32),
            [len(messages), *(len(table.changes.message) for table in tables)],
        ),
        "image": _beside(np.full(len(messages), ImageKind.NONE, np.int8), [t.images.image for t in tables]),
        "before": _images("before", len(messages), [table.images.before for table in tables]),
        "after": _images("after", len(messages), [table.images.after for table in tables]),
        "absent": _images("absent", len(messages), [table.images.absent for table in tables]),
        "payload": _payloads(control, first_ordinals, tables),
    }
    return pa.table(columns, schema=RECORD)


def _beside(messages: Any, tables: Sequence[Any]) -> Any:
    return np.concatenate([messages, *tables])


def _images(name: str, messages: int, tables: Sequence[pa.Array[Any]]) -> pa.ChunkedArray[Any]:
    of_messages = [pa.nulls(messages, RECORD.field(name).type)] if messages else []
    return pa.chunked_array([*of_messages, *tables], RECORD.field(name).type)


def _origins(transactions: BatchTransactions, entries: Ints) -> pa.Array[Any]:
    if not any(transactions.origins) and not transactions.marks:
        return pa.nulls(len(entries), pa.string())
    # A verified mark overrides the origin that the server reports. It says that rowtide's delivery committed the
    # transaction, which works at subscribers without replication origins too.
    marked = sorted(transactions.marks)
    names = pa.array([*transactions.origins, *(transactions.marks[number] for number in marked)], pa.string())
    indexes = transactions.origin[entries]
    number = transactions.number[entries]
    is_marked = np.isin(number, marked)
    indexes = np.where(is_marked, len(transactions.origins) + np.searchsorted(marked, number), indexes)
    return names.take(pa.array(indexes, pa.int64()))


def _payloads(control: Control, first_ordinals: Ints, tables: Sequence[TableRecords]) -> pa.Array[Any]:
    texts = [announced.payload() for _, announced in control.records]
    count = len(texts)
    texts += _truncation_payloads(control, first_ordinals)
    indexes = np.concatenate(
        [np.arange(count), *(np.where(t.changes.payload == NO_PAYLOAD, -1, t.changes.payload + count) for t in tables)]
    )
    if not texts:
        return pa.nulls(len(indexes), pa.string())
    return pa.array(texts, pa.string()).take(pa.array(indexes, mask=indexes < 0))


def _truncation_payloads(control: Control, first_ordinals: Ints) -> list[str]:
    """Return one text per truncated table; the tables of one statement share its first ordinal as their group."""
    return [
        json.dumps(
            {
                "group": int(first_ordinals[message]),
                "cascade": truncation.cascade,
                "restart_identity": truncation.restart_identity,
            }
        )
        for message, truncation in control.truncations
        for _ in truncation.oids
    ]


_NO_SECRETS: Secrets = {}


class Decoder:
    """Decodes the messages of one connection, batch by batch; a batch may end inside a transaction.

    Transactions that `position` covers are dropped whole. `members` are those enabled at `position`, `tables` the
    versions given out before it; `xid_reference` is the server's full transaction id at connect. `announces_ddl`: event
    triggers announce alterations.
    After a `DecodeError` the decoder is not used again.
    """

    def __init__(
        self,
        *,
        epoch: int,
        position: Position,
        members: Iterable[Member],
        tables: Iterable[LoggedTable],
        xid_reference: int,
        announces_ddl: bool = True,
    ) -> None:
        versions = tuple(tables)
        self._tracker = TransactionTracker(epoch=epoch, position=position, xid_reference=xid_reference)
        self._relations = Relations(
            members,
            announces_ddl=announces_ddl,
            shapes=(version.shape for version in sorted(versions, key=lambda version: version.table_id)),
        )
        self._versions = TableVersions(versions)

    @property
    def members(self) -> tuple[Member, ...]:
        """The members after the last batch."""
        return self._relations.members

    @property
    def in_transaction(self) -> bool:
        """Whether the last batch ended inside a transaction."""
        return self._tracker.is_open

    def name_open_transaction(self) -> int:
        """Return the commit LSN of the transaction in which the last batch ended."""
        return self._tracker.open_lsn

    def find_suspects(self, messages: Sequence[bytes]) -> list[int]:
        """Return the members' tables that may have the change that did not arrive after the last batch, `messages`.

        The server sends a table's Relation message immediately before the table's first change on the connection.
        """
        tables = {member.source_id for member in self.members}
        described = described_oid(messages[-1]) if messages else None
        return [described] if described in tables else sorted(tables & self._relations.described_ids)

    def name_table(self, messages: Sequence[bytes]) -> str | None:
        """Return the table of the change that did not arrive after the last batch, `messages`.

        If the last message described a table, it is that one. Otherwise, on a connection that began with this
        transaction, it is one of the tables that were described. Otherwise None.
        """
        described = described_oid(messages[-1]) if messages else None
        if described is not None:
            return self._relations.name(described)
        return None if self._tracker.has_committed else self._relations.name_all()

    def decode(
        self, messages: Sequence[bytes], present: Present | None = None, secrets: Secrets = _NO_SECRETS
    ) -> Decoded:
        """Decode whole XLogData messages (from the byte 'w' on).

        With `present`, tables as the catalogue has them, what no event trigger recorded is inferred; the
        decoder requests each such table by `TableWanted`, and each subscription's secret by `SecretWanted`, after which
        its state is as before.

        Raises `DecodeError`; and `Undecodable`, after which the decoder's state is as before.
        """
        if not messages:
            return Decoded(RECORD.empty_table(), (), (), 0)
        frames = join(messages)
        # `read_control` may ask for a table or a secret, or stop before a transaction: the caller then decodes the same
        # messages again. So the state is replaced only after it has returned.
        tracker, relations = copy(self._tracker), self._relations.copy()
        transactions = tracker.follow(frames)
        control = read_control(frames, transactions, relations, present, secrets)
        self._tracker, self._relations = tracker, relations
        ordinals = self._tracker.count(transactions, control.changes_per_message(row_counts(frames)))
        timeline = LayoutTimeline(control.layouts)
        changes = keep_changes(frames, transactions, control, ordinals, timeline)
        tables = assign_versions(changes, timeline, self._versions)
        records = [
            TableRecords(table.table_id, table.changes, read_images(frames, table.changes.message, table.layout))
            # A segment's rows are ordered by `table_id`: sorting a few groups here replaces a sort of all rows.
            for table in sorted(tables, key=TableChanges.record_order)
        ]
        return Decoded(
            assemble(frames, transactions, control, ordinals, records),
            tuple(table.resolved.version for table in tables if table.resolved.is_new),
            in_log_order(control.numbered_events(ordinals), tables, transactions),
            transactions.commits,
            transactions.last_commit,
            control.last_row,
            tuple(control.unverified),
        )
