"""Name the stored row that cannot be read: a device's file may hold texts for numbers, and what is no JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.merge.errors.nodes import MetadataMalformed

_SHOWN = 60
"""How much of a row's name errors show: whoever wrote it may have written a long one."""
_COUNTS = 1 << 53
_FAILURES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@contextmanager
def reading(table: str, row: object = "a row") -> Iterator[None]:
    """Raise `MetadataMalformed`, which names a row of a table, for what reading it raises."""
    try:
        yield
    except _FAILURES as error:
        reason = str(error).partition("\n")[0][: _SHOWN * 3] or type(error).__name__
        raise MetadataMalformed(table, str(row)[:_SHOWN], reason) from error


def read_count(value: object) -> int:
    """Return the number of a generation or a session. Raises `ValueError`."""
    if isinstance(value, int) and 0 <= value < _COUNTS:
        return value
    raise ValueError("a number of generations or sessions is none")
