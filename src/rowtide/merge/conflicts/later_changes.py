"""What a resolution writes of a row that may have changed since its conflict was decided. Pure.

A version brings the values that it had changed, or the whole row where columns are not tracked or one side has no row;
other values stay as they are. Later changes are those that it would replace: values which are neither those that the
row was left with nor those that it gets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

Values = Mapping[str, str | None]
"""A row by column name."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The row to write, None for its absence; the columns that it changes; and what has changed since, if anything."""

    row: Values | None
    columns: frozenset[str]
    later: str | None


def restore(
    wanted: Values | None, present: Values | None, settled: Values | None, columns: Collection[str]
) -> Restored:
    """Return what a version makes of a row.

    `wanted` is the version, `present` the row as it is, `settled` the row as it was left; `columns` are those that the
    version changed, none if it counts as a whole.
    """
    if wanted is None:
        return Restored(None, frozenset(present or ()), _later(present, settled, present or {}))
    brought = {name: value for name, value in wanted.items() if not columns or name in columns}
    if present is None:
        row = {**settled, **brought} if settled is not None else wanted
        return Restored(row, frozenset(row), None if settled is None else "it was deleted")
    brought = {name: value for name, value in brought.items() if name in present}
    row = {**present, **brought}
    if row == present:
        return Restored(row, frozenset(brought), None)
    replaced = {name: present[name] for name in brought if present[name] != row[name]}
    return Restored(row, frozenset(brought), _later(present, settled, replaced))


def _later(present: Values | None, settled: Values | None, replaced: Values) -> str | None:
    if present is None:
        return None
    if settled is None:
        return "it is there again"
    names = [name for name, value in replaced.items() if name in settled and settled[name] != value]
    return f"{', '.join(names)} changed" if names else None
