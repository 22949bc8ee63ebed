"""The decoder's state between batches: tables as last described, members, and the transaction in which a batch
ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from rowtide.core.lsn import EPOCH_SHIFT, Position, pack_lsn
from rowtide.core.tables import ColumnShape, LoggedTable, TableShape
from rowtide.core.values import frozen
from rowtide.log.membership import Alteration, Member, follow_alteration, needed_columns
from rowtide.log.postgres.pgoutput.announcements import is_control
from rowtide.log.postgres.pgoutput.inferring import Types, Unclear
from rowtide.log.postgres.pgoutput.messages import Bools, Frames, Ints, Relation, parse_origin


@frozen
class RowLayout:
    """The columns of a table's rows in the log, and those that are kept.

    `kept` are the indexes, among the log's columns, of the shape's columns; a layout without a shape is of a table that
    no member needs.
    """

    column_count: int
    kept: tuple[int, ...]
    shape: TableShape | None


@frozen
class LayoutChange:
    """Rows of a table have this layout from a message of the batch on."""

    oid: int
    message: int
    layout: RowLayout


class Relations:
    """The tables as last described, each with the layout that follows from the present members.

    `announces_ddl`: event triggers announce alterations. `shapes` are those of rows before this connection.
    """

    def __init__(
        self,
        members: Iterable[Member],
        *,
        announces_ddl: bool,
        shapes: Iterable[TableShape] = (),
    ) -> None:
        self.announces_ddl = announces_ddl
        self._members = {member.member_id: member for member in members}
        self._relations: dict[int, Relation] = {}
        self._layouts: dict[int, RowLayout] = {}
        self._types = {shape.source_id: _types(shape.columns) for shape in shapes}
        self.unclear: dict[int, Unclear] = {}

    def copy(self) -> Relations:
        """Return an independent copy."""
        other = Relations(self.members, announces_ddl=self.announces_ddl)
        other._relations, other._layouts = self._relations.copy(), self._layouts.copy()
        other._types = self._types.copy()
        other.unclear = self.unclear.copy()
        return other

    @property
    def control_ids(self) -> frozenset[int]:
        """The oids of the table of announcements; it may have been created again."""
        return frozenset(oid for oid, relation in self._relations.items() if is_control(relation))

    def find_control(self, oid: int) -> Relation | None:
        """Return the table of announcements, if a table is it now."""
        relation = self._relations.get(oid)
        return relation if relation is not None and is_control(relation) else None

    @property
    def members(self) -> tuple[Member, ...]:
        return tuple(self._members.values())

    @property
    def described_ids(self) -> frozenset[int]:
        """The oids of the tables that were described."""
        return frozenset(self._relations)

    def is_as_described(self, relation: Relation) -> bool:
        """Whether a table was described identically before, and its members read it in that form."""
        return self._relations.get(relation.oid) == relation and relation.oid not in self.unclear

    def types_of(self, oid: int) -> Types:
        """Return the types of a table's columns before its next description; empty if they are unknown, or if an
        announced statement has altered them.
        """
        return self._types.get(oid, {})

    def name(self, oid: int) -> str:
        """Return a table's name for messages; of one that was never described its oid."""
        relation = self._relations.get(oid)
        return f"the table with oid {oid}" if relation is None else f"{relation.schema}.{relation.name}"

    def name_all(self) -> str:
        """Return the names of the tables that were described, as alternatives."""
        return " or ".join(sorted(self.name(oid) for oid in self._relations)) or "a table that was not described"

    def carried_layouts(self) -> list[LayoutChange]:
        """Return the layouts that apply at the start of a batch."""
        return [LayoutChange(oid, 0, layout) for oid, layout in self._layouts.items()]

    def describe(self, relation: Relation, message: int) -> list[LayoutChange]:
        """Process a Relation message; servers repeat it often, mostly unchanged."""
        if self._relations.get(relation.oid) == relation:
            return []
        self._relations[relation.oid] = relation
        self._types[relation.oid] = _types(relation.columns)
        return self._lay_out(relation.oid, message)

    def enable(self, member: Member, message: int) -> list[LayoutChange]:
        replaced = self.disable(member.member_id, message)  # an id twice in the log: the later one counts
        self._members[member.member_id] = member
        return replaced + self._lay_out(member.source_id, message)

    def disable(self, member_id: str, message: int) -> list[LayoutChange]:
        member = self._members.pop(member_id, None)
        return [] if member is None else self._lay_out(member.source_id, message)

    def alter(self, alteration: Alteration, message: int) -> list[LayoutChange]:
        """Apply an alteration to the members; the server describes the table again before its next row."""
        self._members = {key: follow_alteration(member, alteration) for key, member in self._members.items()}
        self._types.pop(alteration.source_id, None)
        return self._lay_out(alteration.source_id, message)

    def _lay_out(self, oid: int, message: int) -> list[LayoutChange]:
        relation = self._relations.get(oid)
        if relation is None:
            return []
        layout = lay_out(relation, self.members)
        if self._layouts.get(oid) == layout:
            return []
        self._layouts[oid] = layout
        return [LayoutChange(oid, message, layout)]


def _types(columns: Iterable[ColumnShape]) -> Types:
    return {column.name: (column.type_code, column.type_modifier) for column in columns}


def lay_out(relation: Relation, members: Iterable[Member]) -> RowLayout:
    """Keep the columns that a member needs; a needed column that the table lacks is omitted."""
    interested = [member for member in members if member.source_id == relation.oid]
    if not interested:
        return RowLayout(len(relation.columns), (), None)
    needed = needed_columns(interested, relation.oid)
    kept = tuple(index for index, column in enumerate(relation.columns) if column.name in needed)
    others = tuple(column for column in relation.columns if column.name not in needed)
    columns = tuple(_number(relation.columns[index], interested) for index in kept)
    shape = TableShape(relation.oid, relation.schema, relation.name, relation.identity, columns, others)
    return RowLayout(len(relation.columns), kept, shape)


def _number(column: ColumnShape, members: Iterable[Member]) -> ColumnShape:
    """The log has no column numbers; the members know that of the column of this name."""
    for member in members:
        if column.name in member.columns and member.column_numbers:
            return replace(column, number=member.column_numbers[member.columns.index(column.name)])
    return column


@frozen
class Resolved:
    """The version that rows of a shape have.

    `is_new` if it was assigned now; `is_reshaped` if the table's rows did not have it before on this connection.
    """

    version: LoggedTable
    is_new: bool
    is_reshaped: bool


class TableVersions:
    """Assigns table ids, each once: 1, 2, … over the whole log."""

    def __init__(self, versions: Iterable[LoggedTable]) -> None:
        known = sorted(versions, key=lambda version: version.table_id)
        self._latest = {version.shape.source_id: version for version in known}
        self._next_id = known[-1].table_id + 1 if known else 1
        # Empty at connect: a log reader that died may have assigned a version without storing the event of its use.
        self._last_used: dict[int, int] = {}

    def resolve(self, shape: TableShape) -> Resolved:
        """Return the table's latest version if it has this shape, else assign the next."""
        version = self._latest.get(shape.source_id)
        is_new = version is None or version.shape != shape
        if version is None or is_new:
            version = LoggedTable(self._next_id, shape)
            self._next_id += 1
            self._latest[shape.source_id] = version
        is_reshaped = self._last_used.get(shape.source_id) != version.table_id
        self._last_used[shape.source_id] = version.table_id
        return Resolved(version, is_new=is_new, is_reshaped=is_reshaped)


# PostgreSQL counts microseconds from 2000-01-01, Arrow from 1970-01-01.
_EPOCH_2000_US = 946_684_800_000_000
_EPOCH_1970 = datetime.fromtimestamp(0, UTC)
_YEARS_US = (-62_135_596_800_000_000 - _EPOCH_2000_US, 253_402_300_800_000_000 - _EPOCH_2000_US)
"""From the year 1 to the year 10000, exclusive, in the log's time scale."""
_NEEDS_TRANSACTION = np.zeros(256, np.bool_)
_NEEDS_TRANSACTION[list(b"COIUDT")] = True
# Transaction ids in use at a server are never further apart than this, so a signed difference orders them.
_HALF_RANGE = 1 << 31
_XID_MASK = (1 << 32) - 1


@frozen
class BatchTransactions:
    """The transactions of a batch: entry 0 is the one open before it (or the last one seen), then one per Begin.

    `number` and `origin` have an entry per message: the transaction, and an index into `origins`. `marks` are the
    origins of marked transactions, by entry; `read_control` adds those of the batch.
    """

    number: Ints
    lsn: Ints
    time: Ints
    xid: Ints
    is_dropped: Bools
    origin: Ints
    origins: tuple[str | None, ...]
    commits: int
    last_commit: datetime | None
    marks: dict[int, str] = field(default_factory=dict)

    def lsn_of(self, message: int) -> int:
        return int(self.lsn[self.number[message]])

    def time_of(self, message: int) -> datetime:
        return _as_datetime(int(self.time[self.number[message]]))

    def xid_of(self, message: int) -> int:
        return int(self.xid[self.number[message]])

    def drops(self, message: int) -> bool:
        return bool(self.is_dropped[self.number[message]])

    def is_marked(self, message: int) -> bool:
        return int(self.number[message]) in self.marks


@frozen
class _LastTransaction:
    """The transaction that the next batch may continue."""

    lsn: int = -1
    time: int = 0
    xid: int = 0
    is_dropped: bool = False
    origin: str | None = None
    mark: str | None = None
    ordinal: int = 0


class TransactionTracker:
    """Follows Begin, Origin and Commit through the batches of one connection."""

    def __init__(self, *, epoch: int, position: Position, xid_reference: int) -> None:
        self._epoch_bits = pack_lsn(epoch, 0)
        self._position = position
        self._xid_reference = xid_reference
        self._last = _LastTransaction()
        self.is_open = False
        self.has_committed = False

    @property
    def open_lsn(self) -> int:
        """The commit LSN of the latest transaction."""
        return self._last.lsn

    def follow(self, frames: Frames) -> BatchTransactions:
        """Assign each message to its transaction. Raises `DecodeError` if Begin and Commit do not match."""
        begins, commits = frames.of_kind("B"), frames.of_kind("C")
        is_open_after = self._check_nesting(frames, begins, commits)
        begin_lsn = self._commit_lsns(frames, begins)
        number = np.cumsum(frames.kinds == ord("B"))
        lsn = np.concatenate(([self._last.lsn], begin_lsn))
        self._check_lsns(frames, begins, commits, lsn, number)
        # The server writes a slot's confirmed position to disk only at checkpoints: after a crash it sends transactions
        # again that the position covers.
        is_dropped = np.concatenate(([self._last.is_dropped], begin_lsn < self._position.value))
        origin, origins = self._origins(frames, begins)
        time = np.concatenate(([self._last.time], self._times(frames, begins)))
        followed = BatchTransactions(
            number=number,
            lsn=lsn,
            time=time,
            xid=np.concatenate(([self._last.xid], self._xids(frames, begins))),
            is_dropped=is_dropped,
            origin=origin,
            origins=origins,
            commits=int(np.count_nonzero(~is_dropped[number[commits]])),
            last_commit=_as_datetime(int(time[number[commits[-1]]])) if len(commits) else None,
            marks={} if self._last.mark is None else {0: self._last.mark},
        )
        self.is_open = is_open_after
        self.has_committed = self.has_committed or bool(len(commits))
        return followed

    def count(self, transactions: BatchTransactions, changes: Ints) -> Ints:
        """Return the ordinal of each message's first change; `changes` is the number of changes per message.

        Ends the batch: the open or latest transaction is kept for the next one.
        """
        total = np.cumsum(changes)
        number = transactions.number
        before = np.zeros(len(transactions.lsn), np.int64)
        # Ordinals continue where the last batch cut the transaction: consumers sort by them over segments.
        before[0] = -self._last.ordinal
        is_first = np.diff(number, prepend=0) > 0
        before[1:] = total[is_first]
        self._remember(transactions, int(total[-1] - before[-1]))
        return total - changes + 1 - before[number]

    def _remember(self, transactions: BatchTransactions, ordinal: int) -> None:
        self._last = _LastTransaction(
            lsn=int(transactions.lsn[-1]),
            time=int(transactions.time[-1]),
            xid=int(transactions.xid[-1]),
            is_dropped=bool(transactions.is_dropped[-1]),
            origin=transactions.origins[transactions.origin[-1]],
            mark=transactions.marks.get(int(transactions.number[-1])),
            ordinal=ordinal,
        )

    def _check_nesting(self, frames: Frames, begins: Ints, commits: Ints) -> bool:
        step = np.zeros(len(frames), np.int64)
        step[begins], step[commits] = 1, -1
        after = int(self.is_open) + np.cumsum(step)
        before = after - step
        frames.require(before[begins] == 0, begins, "a transaction begins inside another")
        inside = np.flatnonzero(_find_transactional(frames))
        frames.require(before[inside] == 1, inside, "the message is outside a transaction")
        return bool(after[-1])

    def _commit_lsns(self, frames: Frames, begins: Ints) -> Ints:
        log = frames.int64_at(frames.starts[begins] + 1)
        # rowtide's LSNs have the epoch in the bits above. 56 bits are 64 PiB of WAL.
        frames.require(log >> EPOCH_SHIFT == 0, begins, "the commit LSN exceeds 56 bits")
        return log | self._epoch_bits

    def _check_lsns(self, frames: Frames, begins: Ints, commits: Ints, lsn: Ints, number: Ints) -> None:
        """Check that commit order is LSN order: positions and the sort order rely on it."""
        frames.require(np.diff(lsn) > 0, begins, "the commit LSN is not above the one before")
        # The kind byte of a Commit is followed by a byte of flags, which no version uses.
        committed = frames.int64_at(frames.starts[commits] + 2) | self._epoch_bits
        same = committed == lsn[number[commits]]
        frames.require(same, commits, "the commit LSN differs from that of Begin")

    def _times(self, frames: Frames, begins: Ints) -> Ints:
        times = frames.int64_at(frames.starts[begins] + 9)
        is_date = (times >= _YEARS_US[0]) & (times < _YEARS_US[1])
        frames.require(is_date, begins, "the commit time is no date")
        return times + _EPOCH_2000_US

    def _xids(self, frames: Frames, begins: Ints) -> Ints:
        xids = extend_xids(frames.uint32_at(frames.starts[begins] + 17), self._xid_reference)
        self._xid_reference = int(xids.max(initial=self._xid_reference))
        return xids

    def _origins(self, frames: Frames, begins: Ints) -> tuple[Ints, tuple[str | None, ...]]:
        """An origin applies from its message to the end of its transaction, or to the next origin."""
        named = frames.of_kind("O")
        names = tuple(parse_origin(frames, int(message)) for message in named)
        mark = np.zeros(len(frames), np.int64)
        mark[begins] = begins + 1
        mark[named] = named + 1
        # Of each message, one more than the latest Begin or Origin up to it; 0: the origin of the batch before.
        latest = np.maximum.accumulate(mark)
        # From there to an index into the returned names: 0 is the origin of the batch before, 1 none (after a Begin).
        origin_at = np.ones(len(frames) + 1, np.int64)
        origin_at[0] = 0
        origin_at[named + 1] = np.arange(2, 2 + len(named))
        return origin_at[latest], (self._last.origin, None, *names)


def _as_datetime(microseconds: int) -> datetime:
    return _EPOCH_1970 + timedelta(microseconds=microseconds)


def _find_transactional(frames: Frames) -> npt.NDArray[np.bool_]:
    is_transactional = (frames.kinds == ord("M")) & (frames.octets[frames.starts + 1] & 1 == 1)
    needs: npt.NDArray[np.bool_] = _NEEDS_TRANSACTION[frames.kinds] | is_transactional
    return needs


def extend_xids(xids: Ints, reference: int) -> Ints:
    """Extend 32-bit transaction ids to 64 bits by signed difference to the newest id before each.

    The newest is itself a result, so the pass is repeated until it is stable, usually after the second one. Each pass
    settles at least one more id, since an id depends only on those before it. Ids within a batch differ by less than
    half of the range, as all ids that are in use at a server do.
    """
    newest = np.full(len(xids), reference, np.int64)
    while True:
        extended = newest + ((xids - newest + _HALF_RANGE) & _XID_MASK) - _HALF_RANGE
        found = np.maximum.accumulate(np.concatenate(([reference], extended)))[:-1]
        if np.array_equal(found, newest):
            return extended
        newest = found
