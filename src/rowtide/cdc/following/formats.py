"""Formats of events: JSON lines, Debezium's envelope, CloudEvents; one line of JSON for each event. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.cdc.following.row_events import (
    Origin,
    RowEvents,
    Texts,
    constant,
    list_absent,
    lsn_texts,
    make_images,
    make_object,
    make_partial_images,
    take,
)
from rowtide.cdc.instances import DELETE, INSERT, TRUNCATE, UPDATE_AFTER, column_type
from rowtide.cdc.lake_readers.bits import kernels
from rowtide.cdc.lake_readers.ordering import ORDER
from rowtide.cdc.lake_readers.presentation import PresentedColumn, as_json, quoted
from rowtide.core.lsn import EPOCH_SHIFT
from rowtide.core.values import frozen

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
