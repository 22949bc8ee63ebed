"""Values that a row lacks after a change of its key: they are in the row of its old key.

With key images the log has of such an update the old key and the new row without unchanged TOASTed values: in the
change table a delete and an insert with one seqval. The row of the old key may have got its own values in any earlier
transaction, or by another change of the key; so they are searched for in the whole base and change table. A value is
not found if no layer of the base is older than the change of the key: a chunk of a copy that was incomplete at that
time may have been read before or after it, and may have another row of that key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers import last_rows
from rowtide.cdc.lake_readers.as_of.keyed_tables import upper_parts
from rowtide.cdc.lake_readers.as_of.latest_rows import LowestLayer
from rowtide.cdc.lake_readers.bits import EXACT, Bits
from rowtide.cdc.lake_readers.change_tables import ChangeTable, ChangeTablePart
from rowtide.cdc.lake_readers.completions import Completions
from rowtide.cdc.lake_readers.grouping import GroupingDatabase, open_engine
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.published import base_table_path, read_history, read_instances, read_publication
from rowtide.cdc.queries.as_of.opening import AsOf, find_widened, read_layers
from rowtide.cdc.queries.windows import InstanceWindow
from rowtide.cdc.recorded_snapshots import (
    SEQVAL as COPIED,
    RecordedSnapshot,
    excluded_begins,
    find_base,
    read_snapshots,
)
from rowtide.cdc.rows.conversion import ExactValues, as_binary, empty_masks, set_bits
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.formats import IDENTITY
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate

_NOWHERE = -1
_SLICE_BYTES = 64 * 1024 * 1024
"""The size in memory of the rows from which values are taken."""

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@frozen
class MovedRows:
    """Finds what moved rows of a version of an instance's change table lack, in a lake up to an LSN."""

    lake: str
    instance: Instance
    changes: ChangeTable
    at: CommitLsn

    def complete(self, low: CommitLsn, high: CommitLsn) -> Iterator[pa.RecordBatch]:
        """Yield the moved rows in [low, high] in order. Raises as `ChangeTable.stream`, and `QueryFailed`."""
        history = self._open()
        rows, moves = last_rows.StandingRows(history.parts, None), _Moves(self.instance, history.copied)
        with open_engine() as engine:
            if not engine.register("upper_rows", moves.columns, moves.number(rows)) or not moves.find_sources(engine):
                return
            if history.lowest is not None:
                moves.find_below(engine, history.lowest)
        yield from _Completing(moves, rows, history.lowest, history.barriers).read(low, high)

    def read_whole(self, low: CommitLsn, high: CommitLsn) -> Iterator[pa.RecordBatch]:
        """Yield the rows in [low, high] that moved and lacked values, with all columns. Raises as `complete`."""
        part, completions = ChangeTablePart(low, high, (INSERT,)), Completions(self, low, high)
        found = self.changes.stream(part, [*ORDER, last_rows.ABSENT])
        if any(completions.find_lacking(batch).any() for batch in found):
            rows = self.changes.stream(part)
            yield from completions.apply(batch.filter(pa.array(completions.find_lacking(batch))) for batch in rows)

    def _open(self) -> _History:
        member_id = self.instance.member_id
        snapshots = read_snapshots(self.lake).get(member_id, ())
        published = read_publication(self.lake)
        cycle = published.cycle if published is not None else 0
        recorded = read_instances(self.lake, cycle)[self.instance.capture_instance]
        base = self._open_base()
        barriers = [change.ddl_lsn for change in read_history(self.lake, member_id, cycle) if change.rewrites_values]
        barriers += [missing.lsn for missing in recorded.missing]
        layers = None if base is None else read_layers(base.snapshot, member_id)
        rolled_to = None if layers is None else layers.rolled_to
        whole = [one for one in snapshots if recorded.whole_from is None or one.begin >= recorded.whole_from]
        chosen = _choose(whole, rolled_to, self.at)
        marks = sorted(lsn.value for lsn in barriers)
        copied = {one.begin.value: one.covered.value for one in snapshots if one.covered is not None}
        if base is None or layers is None or chosen is None:
            first = max(recorded.lsn, rolled_to or recorded.lsn)
            return _History((last_rows.TablePart(self.changes, first, self.at),), None, copied, marks)
        excluded = excluded_begins(snapshots, self.at)
        as_of = AsOf(self.instance, self.at, chosen, base, self.changes, layers, excluded)
        return _History(upper_parts(as_of), LowestLayer(base, as_of.lowest), copied, marks)

    def _open_base(self) -> ChangeTable | None:
        found = open_snapshot(locate(base_table_path(self.lake, self.instance.capture_instance)))
        if found is None or found.properties.get(IDENTITY) != self.instance.member_id:
            return None
        base, changes = ChangeTable(replace(found, renamed=self.changes.snapshot.renamed)), self.changes.snapshot
        return base.widen(find_widened(self.instance.capture_instance, found, changes))


def find_moved(lake: str, window: InstanceWindow[ChangeTable]) -> MovedRows | None:
    """Return what finds the values that moved rows of a window lack; None if the log has all values."""
    instance = window.instance
    if not (instance.may_lack_values and instance.index_columns):
        return None
    return MovedRows(lake, instance, window.table, window.high)


@frozen
class _History:
    """What an instance's rows are known from.

    `copied` has the LSN from which a snapshot is whole, by that of its rows. No value outlives a barrier: a statement
    that rewrote values, or changes that are missing.
    """

    parts: tuple[last_rows.TablePart, ...]
    lowest: LowestLayer | None
    copied: Mapping[int, int]
    barriers: Sequence[int]


def _choose(
    snapshots: Sequence[RecordedSnapshot], rolled_to: CommitLsn | None, at: CommitLsn
) -> RecordedSnapshot | None:
    """Return the oldest snapshot whose rows are still in the base: cleanup removes those below the newest one."""
    usable = [one for one in snapshots if one.is_whole and one.is_covered_at(at)]
    kept = find_base(snapshots, rolled_to) if rolled_to is not None else None
    return kept if kept in usable else next(iter(usable), None)


@dataclass(slots=True)
class _Moves:
    """The moved rows that lack values, in order; for each and each column that may lack, where its value is.

    `source`: the number of the row that has it, `_NOWHERE` if none has; `hop`: the move whose old key that row has.
    `below`: of each move the number of the row of its old key in the lowest layer.
    """

    instance: Instance
    copied: Mapping[int, int]
    numbers: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    lsns: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    absent: Flags = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    source: Numbers = field(default_factory=lambda: np.empty((0, 0), np.int64))
    hop: Numbers = field(default_factory=lambda: np.empty((0, 0), np.int64))
    below: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def ordinals(self) -> list[int]:
        """The columns that may lack values."""
        return last_rows.fillable_ordinals(self.instance)

    @property
    def columns(self) -> list[str]:
        """The columns that `number` yields."""
        return ["number", "lsn", "known_from", "is_moved", *last_rows.key_names(self.instance), *self._ends]

    @property
    def _ends(self) -> list[str]:
        return [f"ends_{ordinal}" for ordinal in self.ordinals]

    def number(self, rows: last_rows.StandingRows) -> Iterator[list[Any]]:
        """Yield rows with their numbers, and which columns' values of earlier rows of the key they end."""
        begin, before = 0, (0, 0, 0)
        found: list[tuple[Numbers, Numbers, Flags]] = []
        for batch in rows.stream([*ORDER, *last_rows.key_columns(self.instance), last_rows.ABSENT]):
            if not batch.num_rows:
                continue
            numbers = np.arange(begin, begin + batch.num_rows)
            begin += batch.num_rows
            lsns, seqvals, operations = (batch.column(name).to_numpy() for name in ORDER)
            # An update of the key is a delete and an insert with one LSN and `seqval`: an insert that lacks values and
            # follows such a delete has them in the row of the old key.
            is_moved = operations == INSERT
            is_moved &= batch.column(last_rows.ABSENT).is_valid().to_numpy(zero_copy_only=False)
            is_moved &= (_shifted(lsns, before[0]) == lsns) & (_shifted(seqvals, before[1]) == seqvals)
            is_moved &= _shifted(operations, before[2]) == DELETE
            before = lsns[-1], seqvals[-1], operations[-1]
            bits = Bits(batch.column(last_rows.ABSENT), len(self.instance.columns))
            absent = np.stack([bits.of(ordinal) for ordinal in self.ordinals], axis=1)
            found.append((numbers[is_moved], lsns[is_moved], absent[is_moved]))
            ends = (operations == INSERT)[:, None] | ~absent
            yield [
                *map(pa.array, (numbers, lsns, self._known_from(lsns, seqvals), is_moved)),
                *last_rows.key_values(self.instance, batch),
                *(pa.array(np.ascontiguousarray(one)) for one in ends.T),
            ]
        if found:
            self.numbers, self.lsns, self.absent = (np.concatenate(each) for each in zip(*found, strict=True))

    def _known_from(self, lsns: Numbers, seqvals: Numbers) -> Numbers:
        """Return from which LSN on rows are what their keys had: a copy's when all of it was read."""
        known = np.zeros(len(lsns), np.int64)
        for lsn in np.unique(lsns[seqvals == COPIED]):
            known[(lsns == lsn) & (seqvals == COPIED)] = self.copied.get(int(lsn), np.iinfo(np.int64).max)
        return known

    def find_sources(self, engine: GroupingDatabase) -> bool:
        """Find the rows that values are taken from; return False if no row moved."""
        keys = last_rows.key_names(self.instance)
        engine.execute("create table placed as select * from upper_rows")
        if not len(self.numbers):
            return False
        named = ", ".join(f"old.{key}" for key in keys)
        engine.execute(
            f"create table moves as select moved.number, moved.lsn, {named} from placed as old join "
            "(select * from placed where is_moved) as moved on old.number = moved.number - 1"
        )
        last = ", ".join(
            f"coalesce(max(placed.number) filter (where placed.{name}), {_NOWHERE}) as {name}" for name in self._ends
        )
        is_same = " and ".join(f"placed.{key} is not distinct from moves.{key}" for key in keys)
        found = engine.read(
            # The row right before is the delete of the move itself, which has no values.
            f"select moves.number, {last} from placed join moves on {is_same} and placed.number < moves.number - 1 "
            "and placed.known_from < moves.lsn group by moves.number"
        )
        self.source = np.full(self.absent.shape, _NOWHERE)
        for batch in found:
            at, *sources = (np.asarray(column.to_numpy()) for column in batch.columns)
            self.source[np.searchsorted(self.numbers, at)] = np.stack(sources, axis=1)
        self._follow_moves()
        return True

    def _follow_moves(self) -> None:
        """Where a value is to be taken from a row that moved and lacks it, take it from where that one does."""
        count, wide = self.source.shape
        self.hop = np.empty((count, wide), np.int64)
        self.below = np.full(count, _NOWHERE)
        for column in range(wide):
            source = self.source[:, column]
            at = np.minimum(np.searchsorted(self.numbers, source), count - 1)
            target = np.where((self.numbers[at] == source) & self.absent[at, column], at, np.arange(count))
            # Each pass doubles the distance: a row that moved n times needs log2(n) of them.
            while (target[target] != target).any():
                target = target[target]
            self.source[:, column], self.hop[:, column] = source[target], target

    def find_below(self, engine: GroupingDatabase, lowest: LowestLayer) -> None:
        """Find the rows of the lowest layer that have the moves' old keys."""
        keys = last_rows.key_names(self.instance)
        known_from = self.copied.get(lowest.lsn.value, 0)

        def numbered() -> Iterator[list[Any]]:
            begin = 0
            for batch in lowest.stream(last_rows.key_columns(self.instance)):
                end = begin + batch.num_rows
                yield [pa.array(np.arange(begin, end)), *last_rows.key_values(self.instance, batch)]
                begin = end

        if not engine.register("below", ["number", *keys], numbered()):
            return
        is_same = " and ".join(f"below.{key} is not distinct from moves.{key}" for key in keys)
        wanted = f"select moves.number as moved, below.number as number from below join moves on {is_same}"
        for batch in engine.query(f"{wanted} where moves.lsn > {known_from}"):
            moved, number = (np.asarray(column.to_numpy()) for column in batch.columns)
            self.below[np.searchsorted(self.numbers, moved)] = number


def _shifted(values: Numbers, before: int) -> Numbers:
    return np.concatenate(([before], values[:-1]))


@frozen
class _Completing:
    """Takes the values of moved rows from where they are."""

    moves: _Moves
    rows: last_rows.StandingRows
    lowest: LowestLayer | None
    barriers: Sequence[int]

    def read(self, low: CommitLsn, high: CommitLsn) -> Iterator[pa.RecordBatch]:
        """Yield the moved rows in [low, high], as many at a time as memory is for."""
        moves, at_once = self.moves, max(1, _SLICE_BYTES // max(self.rows.row_bytes(), 1))
        first, end = np.searchsorted(moves.lsns, [low.value, high.value + 1])
        for begin in range(first, end, at_once):
            yield self._complete(np.arange(begin, min(begin + at_once, end)))

    def _complete(self, chosen: Numbers) -> pa.RecordBatch:
        moves, instance = self.moves, self.moves.instance
        absent, source = moves.absent[chosen], moves.source[chosen]
        wanted = np.flatnonzero(absent.any(axis=0))
        below = moves.below[moves.hop[chosen]]
        is_found = absent & (source != _NOWHERE)
        is_below = absent & ~is_found & (below != _NOWHERE)
        names = [instance.columns[moves.ordinals[place] - 1].lake_name for place in wanted]
        columns = list(dict.fromkeys([*ORDER, *names, last_rows.ABSENT, EXACT]))
        upper = np.unique(np.concatenate([moves.numbers[chosen], source[is_found]]))
        lower = np.unique(below[is_below])
        pools = [_Pool(self.rows.take(upper, columns), upper, instance)]
        if self.lowest is not None and len(lower):
            pools.append(_Pool(last_rows.take_numbered(self.lowest.stream(columns), lower), lower, instance))
        own = np.searchsorted(upper, moves.numbers[chosen])
        index = np.repeat(own[:, None], source.shape[1], axis=1)
        index[is_found] = np.searchsorted(upper, source[is_found])
        index[is_below] = len(upper) + np.searchsorted(lower, below[is_below])
        lsns = np.concatenate([pool.lsns for pool in pools])
        is_known = ~absent | is_found | is_below
        # What was before a barrier is not what was behind it.
        barriers = np.asarray(self.barriers, np.int64)
        hops = np.searchsorted(barriers, moves.lsns[moves.hop[chosen]], "right")
        is_known &= ~absent | (np.searchsorted(barriers, lsns, "right")[index] == hops)
        return self._rows(_FoundRows(pools, own, index, is_known), set(names))

    def _rows(self, found: _FoundRows, lacking: set[str]) -> pa.RecordBatch:
        instance, own = self.moves.instance, found.own
        count, places = len(own), dict(zip(self.moves.ordinals, range(len(self.moves.ordinals)), strict=True))
        rows = found.pools[0].rows
        values: dict[str, Any] = {name: rows.column(name).take(own) for name in (last_rows.LSN, last_rows.SEQVAL)}
        masks, exact = empty_masks(count, len(instance.columns)), ExactValues(count)
        for ordinal, column in enumerate(instance.columns, 1):
            place = places.get(ordinal)
            index = own if place is None else found.index[:, place]
            known = np.ones(count, np.bool_) if place is None else found.is_known[:, place]
            taken: Any = pa.array(index, mask=~known)
            if column.lake_name in lacking:
                values[column.lake_name] = found.take(column.lake_name, taken)
                set_bits(masks, ordinal, ~known | found.absences(ordinal)[index])
            if (texts := found.texts(ordinal)) is not None:
                exact.add(ordinal, texts.take(taken), pa.nulls(count))
        values |= {last_rows.ABSENT: as_binary(masks, np.asarray(~masks.any(axis=1))), EXACT: exact.as_maps()}
        return pa.RecordBatch.from_arrays(list(values.values()), names=list(values))


class _Pool:
    """Rows that values are taken from."""

    def __init__(self, rows: pa.RecordBatch, numbers: Numbers, instance: Instance) -> None:
        assert rows.num_rows == len(numbers), "rows of the same versions have the same numbers"
        self.rows = rows
        self.lsns: Numbers = rows.column(last_rows.LSN).to_numpy()
        self.bits = Bits(rows.column(last_rows.ABSENT), len(instance.columns))
        self.texts = last_rows.exact_columns(rows)


@frozen
class _FoundRows:
    """Pools one behind the other, the moved rows' own places in them, and those of their values."""

    pools: Sequence[_Pool]
    own: Numbers
    index: Numbers
    is_known: Flags

    def take(self, name: str, index: Any) -> Any:
        return pa.concat_arrays([pool.rows.column(name) for pool in self.pools]).take(index)

    def absences(self, ordinal: int) -> Flags:
        return np.concatenate([pool.bits.of(ordinal) for pool in self.pools])

    def texts(self, ordinal: int) -> Any:
        if not any(ordinal in pool.texts for pool in self.pools):
            return None
        nothing = ((pool, pa.nulls(pool.rows.num_rows, pa.string())) for pool in self.pools)
        return pa.concat_arrays([pool.texts.get(ordinal, none) for pool, none in nothing])
