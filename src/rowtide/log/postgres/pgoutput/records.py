"""Assembles a batch's log records from the tables' columns and the transactions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.core.operations import NO_TABLE, Operation
from rowtide.core.records import RECORD
from rowtide.log.postgres.pgoutput.changes import NO_PAYLOAD, Changes
from rowtide.log.postgres.pgoutput.control import Control
from rowtide.log.postgres.pgoutput.frames import Frames, Ints
from rowtide.log.postgres.pgoutput.images import TableImages
from rowtide.log.postgres.pgoutput.transactions import Transactions

_OPERATIONS = np.zeros(256, np.int8)
for _kind, _operation in {
    "I": Operation.INSERT,
    "U": Operation.UPDATE,
    "D": Operation.DELETE,
    "T": Operation.TRUNCATE,
}.items():
    _OPERATIONS[ord(_kind)] = _operation


@dataclass(frozen=True, slots=True)
class TableRecords:
    """The changes of one table version, in log order, with their images."""

    table_id: int
    changes: Changes
    images: TableImages


def assemble(
    frames: Frames, transactions: Transactions, control: Control, first_ordinals: Ints, tables: Sequence[TableRecords]
) -> pa.Table:
    """Return the records: announcements, then each table in the order given, without sorting.

    An announcement's `seqval` is the ordinal of the message: 1 + the changes of its transaction before it.
    """
    if not (control.records or tables):
        # A mark or a heartbeat alone: PyArrow's functions are imported with the first records.
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
        "image": _beside(messages.astype(np.int8) * 0, [t.images.image for t in tables]),
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


def _origins(transactions: Transactions, entries: Ints) -> pa.Array[Any]:
    if not any(transactions.origins) and not transactions.marks:
        return pa.nulls(len(entries), pa.string())
    marked = sorted(transactions.marks)
    names = pa.array([*transactions.origins, *(transactions.marks[number] for number in marked)], pa.string())
    places = transactions.origin[entries]
    number = transactions.number[entries]
    is_marked = np.isin(number, marked)
    places = np.where(is_marked, len(transactions.origins) + np.searchsorted(marked, number), places)
    return names.take(pa.array(places, pa.int64()))


def _payloads(control: Control, first_ordinals: Ints, tables: Sequence[TableRecords]) -> pa.Array[Any]:
    texts = [announced.payload() for _, announced in control.records]
    count = len(texts)
    texts += _truncation_payloads(control, first_ordinals)
    places = np.concatenate(
        [np.arange(count), *(np.where(t.changes.payload == NO_PAYLOAD, -1, t.changes.payload + count) for t in tables)]
    )
    if not texts:
        return pa.nulls(len(places), pa.string())
    return pa.array(texts, pa.string()).take(pa.array(places, mask=places < 0))


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
