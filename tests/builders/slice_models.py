"""A table's rows at each LSN by its change rows alone, applied one by one: what targets are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from builders.captured_databases import CapturedDatabase

Row = tuple[Any, ...]
States = dict[int, dict[Row, Row]]


def states_by_change(
    captured: CapturedDatabase, instance: str, keys: tuple[str, ...], columns: tuple[str, ...]
) -> States:
    """Return the rows by key after each transaction, by LSN; a value that a row lacks is the one before."""
    rows: dict[Row, Row] = {}
    states: States = {}
    ordinals = {column: ordinal for ordinal, column in enumerate(_captured_columns(captured, instance))}
    for change in captured.changes(instance, "all"):
        values = change.asDict()
        key = tuple(values[name] for name in keys)
        match values["__$operation"]:
            case 1:
                rows.pop(key, None)
            case 2 | 4:
                mask = values["__$absent_mask"]
                before = rows.get(key)
                rows[key] = tuple(
                    before[place] if before is not None and _is_absent(mask, ordinals[name]) else values[name]
                    for place, name in enumerate(columns)
                )
            case 6:
                rows.clear()
        states[values["__$start_lsn"]] = dict(rows)
    return states


def slices_of(states: States) -> set[Row]:
    """Return the slices of a history: (key, row, from, to), `to` None for those that are open."""
    slices: set[Row] = set()
    begun: dict[Row, tuple[int, Row]] = {}
    for lsn, rows in states.items():
        for key in [*begun]:
            since, row = begun[key]
            if rows.get(key) != row:
                slices.add((key, row, since, lsn))
                del begun[key]
        for key, row in rows.items():
            begun.setdefault(key, (lsn, row))
    return slices | {(key, row, since, None) for key, (since, row) in begun.items()}


def found_slices(rows: Iterable[Mapping[str, Any]], keys: tuple[str, ...], columns: tuple[str, ...]) -> set[Row]:
    """Return the slices of a target's table, as `slices_of` does."""
    found = set()
    for row in rows:
        assert row["is_current"] == (row["valid_to_lsn"] is None)
        key = tuple(row[name] for name in keys)
        found.add((key, tuple(row[name] for name in columns), row["valid_from_lsn"], row["valid_to_lsn"]))
    return found


def _captured_columns(captured: CapturedDatabase, instance: str) -> list[str]:
    return [column.column_name for column in captured.cdc.get_captured_columns(instance)]


def _is_absent(mask: bytes | None, place: int) -> bool:
    return mask is not None and bool(mask[-1 - place // 8] >> place % 8 & 1)
