"""Statistics of data files: which files a range of values may be in, and those of rows to be written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.core.values import frozen
from rowtide.delta.actions import AddFile
from rowtide.delta.schema import Field

_PREFIX_CHARACTERS = 32
"""Of longer texts the bounds are of their beginnings."""
_LAST_ASCII, _LAST_CHARACTER = "\x7f", "\U0010ffff"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - counts from it, in whatever zone
_MILLI = 1000


@frozen
class Between:
    """Rows in which a column, by its name in files, is in [low, high]; None: no bound.

    Bounds are as statistics have them: integers, or texts.
    """

    column: str
    low: int | str | None = None
    high: int | str | None = None

    def may_be_in(self, file: AddFile) -> bool:
        """Return whether, by its statistics, a file may have such rows; without statistics it may."""
        statistics = file.statistics
        if self.column in file.partition_values:
            return self._may_be_text(file.partition_values[self.column])
        if self._is_all_null(file):
            return False
        least = (statistics.get("minValues") or {}).get(self.column)
        most = (statistics.get("maxValues") or {}).get(self.column)
        return not _is_less(most, self.low) and not _is_less(self.high, least)

    def _may_be_text(self, text: str | None) -> bool:
        """Return whether the value of a file's partition, which all its rows have, is in the range."""
        if not text:
            return False
        is_number = isinstance(self.low, int) or isinstance(self.high, int)
        value = int(text) if is_number else text
        return not _is_less(value, self.low) and not _is_less(self.high, value)

    def _is_all_null(self, file: AddFile) -> bool:
        rows = file.statistics.get("numRecords")
        nulls = (file.statistics.get("nullCount") or {}).get(self.column)
        # Counts are bounds only where the file's rows are not hidden by a deletion vector.
        return rows is not None and nulls == rows


def _is_less(one: object, other: object) -> bool:
    """Return whether a value is less than another; False where that is unknown."""
    if isinstance(one, int) and isinstance(other, int):
        return one < other
    return isinstance(one, str) and isinstance(other, str) and one < other


def prune(files: Iterable[AddFile], ranges: Iterable[Between]) -> Iterator[AddFile]:
    """Yield the files that may have rows in all ranges."""
    wanted = tuple(ranges)
    return (file for file in files if all(each.may_be_in(file) for each in wanted))


def find_empty_columns(file: AddFile) -> frozenset[str]:
    """Return the physical names of columns that, by the file's statistics, are null in all its rows."""
    found = file.statistics
    rows, nulls = found.get("numRecords"), found.get("nullCount") or {}
    return frozenset(name for name, count in nulls.items() if rows is not None and count == rows)


def find_bounds(file: AddFile, column: str) -> tuple[int, int] | None:
    """Return the least and the greatest value of an integer column of a physical name; None if they are not known."""
    found = file.statistics
    least, most = ((found.get(which) or {}).get(column) for which in ("minValues", "maxValues"))
    return (least, most) if isinstance(least, int) and isinstance(most, int) else None


class FileStatistics:
    """Sums up the rows of a data file: their number, and bounds and nulls of some of their columns.

    There are bounds of integers, dates, timestamps and texts; those of timestamps are in milliseconds and include the
    values, those of texts are of at most 33 characters.
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self._rows = 0
        self._columns = {field.name: _ColumnStatistics(field.physical_name) for field in fields}

    def add(self, rows: pa.Table) -> None:
        """Add rows of the file, in the table's columns."""
        self._rows += rows.num_rows
        for name, column in self._columns.items():
            column.add(rows[name])

    def format(self) -> str:
        """Return the statistics in JSON, with the columns' names in files."""
        columns = self._columns.values()
        statistics = {
            "numRecords": self._rows,
            "minValues": {column.name: column.least for column in columns if column.least is not None},
            "maxValues": {column.name: column.most for column in columns if column.most is not None},
            "nullCount": {column.name: column.nulls for column in columns},
        }
        return json.dumps(statistics, separators=(",", ":"), ensure_ascii=False)


class _ColumnStatistics:
    """Bounds compare as statistics have them: ISO texts of one form, and texts by their characters."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nulls = 0
        self._least: list[Any] = []
        self._most: list[Any] = []

    def add(self, values: pa.ChunkedArray[Any]) -> None:
        self.nulls += values.null_count
        if values.null_count < len(values):
            least, most = bounds_of(values)
            self._least = [_outer(min, [*self._least, least])]
            self._most = [_outer(max, [*self._most, most])]

    @property
    def least(self) -> object:
        return self._least[0] if self._least else None

    @property
    def most(self) -> object:
        return self._most[0] if self._most else None


def _outer(choose: Callable[[Sequence[Any]], object], bounds: Sequence[Any]) -> object:
    """Return the outermost bound; None if one is unknown."""
    return None if None in bounds else choose(bounds)


def bounds_of(values: pa.ChunkedArray[Any]) -> tuple[object, object]:
    """Return bounds of values as statistics have them; None where there is none."""
    kind: Any = values.type
    if pa.types.is_integer(kind):
        return _min_max(values)
    if pa.types.is_date32(kind):
        least, most = _min_max(values.cast(pa.int32()))
        return _day(least), _day(most)
    if pa.types.is_timestamp(kind):
        zone = "Z" if kind.tz is not None else ""
        least, most = _min_max(values.cast(pa.int64()))
        return _moment(least, zone), _moment(-(-most // _MILLI) * _MILLI if most is not None else None, zone)
    if pa.types.is_string(kind):
        least, most = _min_max(values)
        return least[:_PREFIX_CHARACTERS] if least is not None else None, _above(most)
    return None, None


def _min_max(values: pa.ChunkedArray[Any]) -> tuple[Any, Any]:
    found: Any = pc.min_max(values).as_py()
    return found["min"], found["max"]


def _day(days: int | None) -> str | None:
    """Return a date as text; None for one beyond year 9999."""
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat() if days is not None else None
    except OverflowError:
        return None


def _moment(micros: int | None, zone: str) -> str | None:
    try:
        moment = _EPOCH + timedelta(microseconds=micros) if micros is not None else None
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds") + zone if moment is not None else None


def _above(text: str | None) -> str | None:
    """Return a text of at most 33 characters that sorts, by its bytes, at or above one; None if there is none."""
    if text is None or len(text) <= _PREFIX_CHARACTERS:
        return text
    following = text[_PREFIX_CHARACTERS]
    if following >= _LAST_CHARACTER:
        return None
    return text[:_PREFIX_CHARACTERS] + (_LAST_ASCII if following < _LAST_ASCII else _LAST_CHARACTER)
