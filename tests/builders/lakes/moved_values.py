"""The values of rows that came by a change of their key, found row by row: what readers are compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.cdc.change_columns import DELETE, INSERT, UPDATE_AFTER, is_bit_set, pack_mask
from rowtide.cdc.instances import Instance

_ORDER = ("__$start_lsn", "__$seqval", "__$operation")
_ABSENT, _EXACT = "__$absent_mask", "__$exact"


def with_moved_values(rows: pa.Table, instance: Instance) -> pa.Table:
    """Return all change rows of an instance that was never copied in order, with the values that moved rows lack.

    Logs may change keys of rows that there are not: the last values that a row of the old key had count.
    """
    lsns, seqvals, operations = (rows[name].to_numpy() for name in _ORDER)
    rows = rows.take(np.lexsort((operations, seqvals, lsns)))
    sources = _find_sources(rows, instance)
    values: dict[str, Any] = {name: rows[name] for name in rows.schema.names}
    values |= {name: rows[name].to_pylist() for name in (_ABSENT, _EXACT)}
    for column, source in zip(instance.columns, sources.T, strict=True):
        values[column.lake_name] = rows[column.lake_name].take(source)
    masks, exact = rows[_ABSENT].to_pylist(), rows[_EXACT].to_pylist()
    for number in np.flatnonzero((sources != np.arange(len(rows))[:, None]).any(axis=1)):
        values[_ABSENT][number] = _absent_mask(masks, sources[number])
        values[_EXACT][number] = _exact_texts(exact, sources[number])
    return pa.table(values, schema=rows.schema)


def _find_sources(rows: pa.Table, instance: Instance) -> Any:
    """Return for each row and column the number of the row that has its value."""
    stamps = list(zip(*(rows[name].to_pylist() for name in _ORDER), strict=True))
    keys = list(zip(*(rows[column.lake_name].to_pylist() for column in instance.index_columns), strict=True))
    ordinals = range(1, len(instance.columns) + 1)
    sources = np.repeat(np.arange(len(rows))[:, None], len(ordinals), axis=1)
    latest = dict[tuple[object, int], int]()
    for number, mask in enumerate(rows[_ABSENT].to_pylist()):
        lsn, seqval, operation = stamps[number]
        if operation not in (DELETE, INSERT, UPDATE_AFTER):
            continue
        absent = [ordinal for ordinal in ordinals if mask is not None and is_bit_set(ordinal, mask)]
        if operation == INSERT and number and stamps[number - 1] == (lsn, seqval, DELETE):
            for ordinal in absent:
                sources[number, ordinal - 1] = latest.get((keys[number - 1], ordinal), number)
        for ordinal in ordinals:
            if operation == INSERT or ordinal not in absent:
                latest[keys[number], ordinal] = int(sources[number, ordinal - 1])
    return sources


def _absent_mask(masks: list[bytes | None], source: Any) -> bytes | None:
    found = [
        ordinal
        for ordinal, row in enumerate(source, 1)
        if (mask := masks[row]) is not None and is_bit_set(ordinal, mask)
    ]
    return pack_mask(found, len(source)) if found else None


def _exact_texts(exact: list[list[tuple[int, str]] | None], source: Any) -> list[tuple[int, str]] | None:
    found = [
        (ordinal, text) for ordinal, row in enumerate(source, 1) for own, text in exact[row] or () if own == ordinal
    ]
    return found or None
