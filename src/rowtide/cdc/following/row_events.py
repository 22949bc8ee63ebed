"""Events of change rows, the transactions that they belong to, and their formats.

A format writes one line of JSON for each event: JSON lines, Debezium's envelope, CloudEvents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, UPDATE_BEFORE, column_type
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_readers.bits import Bits, kernels
from rowtide.cdc.lake_readers.ordering import ORDER, join
from rowtide.cdc.lake_readers.presentation import PresentedColumn, as_json, pieces, present_values, quoted
from rowtide.cdc.published import LSN_TIME_MAPPING, arrow_schema, system_table_path
from rowtide.core.lsn import EPOCH_SHIFT, CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.data_files import Between
from rowtide.lake.small_tables import SmallTable

MOST_TRANSACTIONS = 50_000
"""About how many transactions are read at a time. This bounds the memory, and what is repeated after a failure."""

_COLUMNS = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_end_time", "tran_id", "cycle")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Integers = npt.NDArray[np.int64]


@frozen
class TransactionRange:
    """The transactions of [low, high], by LSN: their ends in microseconds since 1970, and their numbers."""

    low: CommitLsn
    high: CommitLsn
    lsns: Integers
    ends: Integers
    numbers: Integers

    def find_end(self, lsn: CommitLsn) -> datetime | None:
        """Return when the last transaction up to an LSN ended; None if there is none."""
        count = int(np.searchsorted(self.lsns, lsn.value, "right"))
        return _EPOCH + timedelta(microseconds=int(self.ends[:count].max())) if count else None

    def look_up(self, lsns: Integers) -> tuple[Any, Any]:
        """Return the ends and the numbers of transactions, null for an unknown LSN."""
        if not len(self.lsns):
            nothing = pa.nulls(len(lsns), pa.int64())
            return nothing, nothing
        indexes = np.minimum(np.searchsorted(self.lsns, lsns), len(self.lsns) - 1)
        is_unknown = self.lsns[indexes] != lsns
        return pa.array(self.ends[indexes], mask=is_unknown), pa.array(self.numbers[indexes], mask=is_unknown)


def read_transactions(
    lake: str, cycle: int, low: CommitLsn, high: CommitLsn, most: int = MOST_TRANSACTIONS
) -> Iterator[TransactionRange]:
    """Yield the transactions in [low, high] that are published up to a cycle, some at a time; the parts are seamless.

    Each part is read when it is asked for. Raises `LakeUnknown`, `LakeReadFailed`, `TableUnreadable`.
    """
    while low <= high:
        table = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
        if table is None:
            raise LakeUnknown(lake)
        end = table.find_end("start_lsn", low.value, most)
        last = high if end is None else min(high, CommitLsn(end))
        yield _read(table, cycle, low, last)
        low = last.increment()


def _read(table: SmallTable, cycle: int, low: CommitLsn, high: CommitLsn) -> TransactionRange:
    parts = [[np.zeros(0, np.int64)] * 3]
    for rows in table.stream(_COLUMNS, Between("start_lsn", low.value, high.value)):
        lsns, cycles = (rows[name].to_numpy() for name in ("start_lsn", "cycle"))
        is_part = (lsns >= low.value) & (lsns <= high.value) & (cycles <= cycle)
        ends = rows["tran_end_time"].cast(pa.int64()).to_numpy()
        numbers = kernels.fill_null(rows["tran_id"], 0).to_numpy()
        parts.append([column[is_part] for column in (lsns, ends, numbers)])
    lsns, ends, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(lsns, kind="stable")
    return TransactionRange(low, high, lsns[order], ends[order], numbers[order])


Booleans = npt.NDArray[np.bool_]


@frozen
class Origin:
    """Where events come from: the source's identity and its database, and the instance with its table."""

    source_id: str
    database: str
    instance: Instance


@frozen
class RowValues:
    """The captured values of rows: columns as texts, and which values the log did not carry, by column."""

    columns: Sequence[PresentedColumn]
    absent: Sequence[Booleans] | None
    """None: every value is there."""


@frozen
class RowEvents:
    """Events in their order; `before` and `after` are indexes of rows in `values`, negative where there is none.

    `ends` (microseconds) and `numbers` of their transactions are null where the transaction is unknown.
    """

    lsns: Integers
    seqvals: Integers
    operations: npt.NDArray[np.int32]
    ends: Any
    numbers: Any
    values: RowValues
    before: Integers
    after: Integers


def as_row_events(
    batches: Iterable[pa.RecordBatch], instance: Instance, transactions: TransactionRange
) -> Iterator[RowEvents]:
    """Yield the events of an instance's change rows, all of a range, in order.

    A change of a row's key stays two events with one seqval, a delete and an insert.
    """
    for rows in _whole_updates(piece for batch in batches for piece in pieces(batch)):
        yield _as_events(rows, instance, transactions)


def _whole_updates(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows, none of which ends with the row before an update."""
    buffered: list[pa.RecordBatch] = []
    for rows in batches:
        if not rows.num_rows:
            continue
        whole = join([*buffered, rows])
        count = whole.num_rows - (whole.column(ORDER[2])[-1].as_py() == UPDATE_BEFORE)
        buffered = [whole.slice(count)] if count < whole.num_rows else []
        if count:
            yield whole.slice(0, count)
    yield from buffered


def _as_events(rows: pa.RecordBatch, instance: Instance, transactions: TransactionRange) -> RowEvents:
    lsns, seqvals, operations = (rows.column(name).to_numpy(zero_copy_only=False) for name in ORDER)
    indexes = np.arange(rows.num_rows)
    # The before image of an update comes directly before its after image.
    has_before = (operations == UPDATE_AFTER) & (np.roll(operations, 1) == UPDATE_BEFORE)
    before = np.where(has_before, indexes - 1, np.where(operations == DELETE, indexes, -1))
    after = np.where(np.isin(operations, (INSERT, UPDATE_AFTER)), indexes, -1)
    kept = operations != UPDATE_BEFORE
    ends, numbers = transactions.look_up(lsns[kept])
    values = RowValues(present_values(rows, instance), find_absent(rows, len(instance.columns)))
    return RowEvents(lsns[kept], seqvals[kept], operations[kept], ends, numbers, values, before[kept], after[kept])


def find_absent(rows: pa.RecordBatch, columns: int) -> Sequence[Booleans] | None:
    """Return which values the log did not carry, by column; None if it carried all."""
    masks = rows.column("__$absent_mask")
    if masks.null_count == len(masks):
        return None
    bits = Bits(masks, columns)
    return [bits.of(ordinal) for ordinal in range(1, columns + 1)]


def lsn_texts(lsns: Integers) -> Any:
    """Return LSNs as `rowtide cdc lsn` prints them."""
    found, indexes = np.unique(lsns, return_inverse=True)
    texts = pa.array([str(CommitLsn(lsn)) for lsn in found.tolist()], pa.string())
    return kernels.take(texts, pa.array(indexes))


Texts = Any
"""A column of texts, or one text for all rows."""


def constant(value: str) -> str:
    """Return a text as JSON."""
    return json.dumps(value, ensure_ascii=False)


def make_object(members: Mapping[str, Texts], more: Texts = "", *, end: str = "}") -> Any:
    """Return objects with these members, whose values are JSON; `more` is JSON behind the last of them."""
    parts: list[Texts] = []
    for index, (name, value) in enumerate(members.items()):
        parts += [f"{', ' if index else '{'}{constant(name)}: ", value]
    return kernels.binary_join_element_wise(*parts, more, end, "")


def make_images(names: Sequence[str], values: Sequence[Any]) -> Any:
    """Return each row as an object of all its columns."""
    return make_object(dict(zip(names, values, strict=True)))


def make_partial_images(names: Sequence[str], values: Sequence[Any], rows: RowValues) -> Any:
    """Return each row as an object of the columns whose values are there."""
    if rows.absent is None:
        return make_images(names, values)
    members = [
        kernels.binary_join_element_wise(f", {constant(name)}: ", value, "")
        for name, value in zip(names, values, strict=True)
    ]
    there = [kernels.if_else(pa.array(absent), "", member) for absent, member in zip(rows.absent, members, strict=True)]
    return _enclosed("{", there, "}")


def list_absent(names: Sequence[str], rows: RowValues) -> Any:
    """Return the names of each row's absent columns behind `, "absent": `; empty where every value is there."""
    assert rows.absent is not None
    listed = [
        kernels.if_else(pa.array(absent), f", {constant(name)}", "")
        for absent, name in zip(rows.absent, names, strict=True)
    ]
    has_absent = pa.array(np.logical_or.reduce(rows.absent))
    return kernels.if_else(has_absent, _enclosed(', "absent": [', listed, "]"), "")


def _enclosed(begin: str, members: Sequence[Any], end: str) -> Any:
    """Join members, each of which begins with a comma and a space or is empty, without the first comma."""
    joined = kernels.utf8_slice_codeunits(kernels.binary_join_element_wise(*members, ""), 2)
    return kernels.binary_join_element_wise(begin, joined, end, "")


def take(images: Any, indexes: Integers) -> Any:
    """Return the images at indexes, `null` where an index is negative."""
    found = images.take(pa.array(indexes, mask=indexes < 0))
    return kernels.fill_null(found, "null")


EVENT, EVENT_ID = "event", "id"
UNAVAILABLE = "__debezium_unavailable_value"

NOTHING = pa.RecordBatch.from_arrays(
    [pa.array([], kind) for kind in (pa.int64(), pa.int64(), pa.int32(), pa.string(), pa.string())],
    names=[*ORDER, EVENT_ID, EVENT],
)
"""No events."""

_NAMES: Mapping[int, str] = {DELETE: "delete", INSERT: "insert", UPDATE_AFTER: "update", TRUNCATE: "truncate"}
_DEBEZIUM_CODES: Mapping[int, str] = {DELETE: "d", INSERT: "c", UPDATE_AFTER: "u", TRUNCATE: "t"}
_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_TIME_TEXT = r"^(-?\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:\+00)?$"
_LOG_MASK = (1 << EPOCH_SHIFT) - 1


class EventFormat(StrEnum):
    """Formats of events."""

    JSONL = "jsonl"
    DEBEZIUM = "debezium"
    CLOUDEVENTS = "cloudevents"


@frozen
class ProducerInfo:
    """What formats say of their maker: rowtide's version, and the time, in milliseconds since 1970."""

    version: str
    time_ms: int


def format_events(form: EventFormat, origin: Origin, events: RowEvents, making: ProducerInfo) -> pa.RecordBatch:
    """Return events as lines of JSON, each with a line end: `EVENT`, with `EVENT_ID` and the columns of `ORDER`."""
    ids = _make_ids(origin, events)
    lines = _FORMATS[form](origin, events, ids, making)
    columns = [pa.array(events.lsns), pa.array(events.seqvals), pa.array(events.operations), ids, lines]
    return pa.RecordBatch.from_arrays(columns, names=[*ORDER, EVENT_ID, EVENT])


def _make_ids(origin: Origin, events: RowEvents) -> Any:
    """Return the identity of each event: source, epoch, instance, LSN, seqval and operation, separated by colons."""
    parts = [lsn_texts(events.lsns & _LOG_MASK), _numbers(events.seqvals), _numbers(events.operations)]
    epochs, name = _numbers(events.lsns >> EPOCH_SHIFT), origin.instance.capture_instance
    return kernels.binary_join_element_wise(origin.source_id, epochs, name, *parts, ":")


def _as_jsonl(origin: Origin, events: RowEvents, ids: Any, _making: ProducerInfo) -> Any:
    images, more = _partial_images(origin, events)
    return make_object({"id": quoted(ids), **_facts(origin, events, images)}, more, end="}\n")


def _as_cloudevents(origin: Origin, events: RowEvents, ids: Any, _making: ProducerInfo) -> Any:
    images, more = _partial_images(origin, events)
    members: dict[str, Texts] = {
        "specversion": constant("1.0"),
        "id": quoted(ids),
        "source": constant(f"urn:uuid:{origin.source_id}"),
        "type": _choose(events, {code: f"rowtide.change.{name}" for code, name in _NAMES.items()}),
        "time": _times(events),
        "subject": constant(_table(origin)),
        "datacontenttype": constant("application/json"),
        "data": make_object(_facts(origin, events, images), more),
    }
    return make_object(members, end="}\n")


def _as_debezium(origin: Origin, events: RowEvents, ids: Any, making: ProducerInfo) -> Any:
    images = _debezium_images(origin, events)
    members: dict[str, Texts] = {
        "before": take(images, events.before),
        "after": take(images, events.after),
        "source": make_object(_debezium_source(origin, events, ids, making)),
        "transaction": "null",
        "op": _choose(events, _DEBEZIUM_CODES),
        "ts_ms": str(making.time_ms),
    }
    return make_object(members, end="}\n")


_FORMATS: Mapping[EventFormat, Callable[[Origin, RowEvents, Any, ProducerInfo], Any]] = {
    EventFormat.JSONL: _as_jsonl,
    EventFormat.DEBEZIUM: _as_debezium,
    EventFormat.CLOUDEVENTS: _as_cloudevents,
}


def _facts(origin: Origin, events: RowEvents, images: Any) -> dict[str, Texts]:
    return {
        "instance": constant(origin.instance.capture_instance),
        "table": constant(_table(origin)),
        "operation": _choose(events, _NAMES),
        "lsn": quoted(lsn_texts(events.lsns)),
        "seqval": _numbers(events.seqvals),
        "transaction": _or_null(events.numbers.cast(pa.string())),
        "time": _times(events),
        "before": take(images, events.before),
        "after": take(images, events.after),
    }


def _partial_images(origin: Origin, events: RowEvents) -> tuple[Any, Texts]:
    """Return the rows' images without absent values, and which those of each event are."""
    rows, names = events.values, [column.name for column in origin.instance.columns]
    images = make_partial_images(names, [as_json(column) for column in rows.columns], rows)
    if rows.absent is None:
        return images, ""
    places = np.where(events.after >= 0, events.after, events.before)
    listed = list_absent(names, rows).take(pa.array(places, mask=places < 0))
    return images, kernels.fill_null(listed, "")


def _debezium_images(origin: Origin, events: RowEvents) -> Any:
    rows, columns = events.values, origin.instance.columns
    is_time = [column_type(origin.instance, column).name in _TIMES for column in columns]
    values = [_debezium_value(column, is_time=is_one) for column, is_one in zip(rows.columns, is_time, strict=True)]
    if rows.absent is not None:
        placeholder = constant(UNAVAILABLE)
        pairs = zip(rows.absent, values, strict=True)
        values = [kernels.if_else(pa.array(is_absent), placeholder, value) for is_absent, value in pairs]
    return make_images([column.name for column in columns], values)


def _debezium_value(column: PresentedColumn, *, is_time: bool) -> Any:
    """Return values as Debezium has them: times as `isostring` has them."""
    if is_time:
        iso = kernels.replace_substring_regex(column.texts, _TIME_TEXT, r"\1T\2Z")
        column = PresentedColumn(column.name, column.kind, iso, column.is_text)
    return as_json(column)


def _debezium_source(origin: Origin, events: RowEvents, ids: Any, making: ProducerInfo) -> dict[str, Texts]:
    lsns = _numbers(events.lsns)
    return {
        "version": constant(making.version),
        "connector": constant("postgresql"),
        "name": constant(origin.database),
        "ts_ms": _or_null(kernels.divide(events.ends, 1000).cast(pa.string())),
        "snapshot": constant("false"),
        "db": constant(origin.database),
        # A text that contains JSON, as Debezium has it.
        "sequence": kernels.binary_join_element_wise(r'"[\"', lsns, r"\",\"", _numbers(events.seqvals), r'\"]"', ""),
        "schema": constant(origin.instance.source_schema),
        "table": constant(origin.instance.source_table),
        "txId": _or_null(events.numbers.cast(pa.string())),
        "lsn": _numbers(events.lsns & _LOG_MASK),
        "xmin": "null",
        "instance": constant(origin.instance.capture_instance),
        "event_id": quoted(ids),
    }


def _table(origin: Origin) -> str:
    return f"{origin.instance.source_schema}.{origin.instance.source_table}"


def _times(events: RowEvents) -> Any:
    """Return when the transactions ended, in RFC 3339."""
    texts = events.ends.cast(pa.timestamp("us")).cast(pa.string())
    return _or_null(kernels.binary_join_element_wise('"', kernels.replace_substring(texts, " ", "T"), 'Z"', ""))


def _choose(events: RowEvents, names: Mapping[int, str]) -> Any:
    codes = sorted(names)
    texts = pa.array([constant(names[code]) for code in codes], pa.string())
    return kernels.take(texts, pa.array(np.searchsorted(codes, events.operations)))


def _numbers(values: Any) -> Any:
    return pa.array(values).cast(pa.string())


def _or_null(texts: Any) -> Any:
    return kernels.fill_null(texts, "null")
