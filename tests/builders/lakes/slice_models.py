"""A table's rows at each LSN by its change rows alone, applied one by one: what targets are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from builders.capture.captured_databases import CapturedDatabase
from rowtide.cdc.lake_readers.lake import Lake

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class State:
    """The rows by key after a transaction, and whether it truncated the table."""

    rows: Mapping[Row, Row]
    is_truncated: bool


States = dict[int, State]


def states_by_change(
    captured: CapturedDatabase, instance: str, keys: tuple[str, ...], columns: tuple[str, ...]
) -> States:
    """Return the state after each transaction, by LSN; a value that a row lacks is the one before."""
    rows: dict[Row, Row] = {}
    states: States = {}
    ordinals = {column: ordinal for ordinal, column in enumerate(_captured_columns(captured, instance))}
    for values in Lake(str(captured.lake)).get_all_changes(instance).to_arrow().read_all().to_pylist():
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
        lsn, is_truncated = values["__$start_lsn"], values["__$operation"] == 6
        is_truncated = is_truncated or (lsn in states and states[lsn].is_truncated)
        states[lsn] = State(dict(rows), is_truncated)
    return states


def slices_of(states: States) -> set[Row]:
    """Return the slices of a history: (key, row, from, to), `to` None for those that are open."""
    slices: set[Row] = set()
    begun: dict[Row, tuple[int, Row]] = {}
    for lsn, state in states.items():
        for key in [*begun]:
            since, row = begun[key]
            if state.is_truncated or state.rows.get(key) != row:
                slices.add((key, row, since, lsn))
                del begun[key]
        for key, row in state.rows.items():
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
