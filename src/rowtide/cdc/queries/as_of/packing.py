"""Positions of rows, and sets of keys, as whole numbers, which Spark groups without sorting them. SQL text. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.cdc.instances import Instance
from rowtide.cdc.rows.change_columns import column_type
from rowtide.lake.sql_text import quote

_MOST = 1 << 63
_OPERATIONS = 8
_WHOLE_NUMBERS = ("smallint", "int", "bigint")
_WORD, _BITS = "`__$word`", "`__$bits`"


def packed_position(lsns: tuple[int, int], seqvals: tuple[int, int]) -> str | None:
    """Return a row's position as one number, for rows with these bounds; None if the numbers may be too large."""
    (first, last), (least, most) = lsns, seqvals
    in_each = (most - least + 1) * _OPERATIONS
    if (last - first + 1) * in_each > _MOST:
        return None
    return f"((`__$start_lsn` - {first}L) * {in_each}L + (`__$seqval` - {least}L) * {_OPERATIONS}L + `__$operation`)"


@dataclass(frozen=True, slots=True)
class KeyWords:
    """A set of keys that are whole numbers: a word of bits for each 64 neighbours, of which one is in it."""

    key: str

    @classmethod
    def of(cls, instance: Instance) -> KeyWords | None:
        """Return the expressions for an instance's keys; None if they are no whole numbers."""
        if len(instance.index_columns) != 1:
            return None
        (column,) = instance.index_columns
        kind = column_type(instance, column)
        is_whole = kind.name in _WHOLE_NUMBERS and kind.holds_all
        return cls(f"cast({quote(column.lake_name)} as bigint)") if is_whole else None

    def select(self, rows: str) -> str:
        """Return the query for the words of some rows' keys."""
        word = f"shiftright({self.key}, 6)"
        return f"select {word} as {_WORD}, bit_or(shiftleft(1L, {self._place})) as {_BITS} from {rows} group by {word}"

    @property
    def has_key(self) -> str:
        """The condition that the set, of which there is a word, has a row's key."""
        return f"shiftright({self.key}, 6) = {_WORD} and (shiftright({_BITS}, {self._place}) & 1L) = 1L"

    @property
    def _place(self) -> str:
        return f"cast({self.key} & 63L as int)"
