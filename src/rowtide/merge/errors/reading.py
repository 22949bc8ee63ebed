"""Name the stored row that cannot be read: a device's file may hold texts for numbers, and what is no JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.merge.errors.nodes import MetadataMalformed

_SHOWN = 150
"""How much of what a file has errors show: whoever wrote it may have written a long one."""
_COUNTS = 1 << 53
_FAILURES = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


@contextmanager
def reading(table: str, row: object = "a row") -> Iterator[None]:
    """Raise `MetadataMalformed`, which names a row of a table, for what reading it raises."""
    try:
        yield
    except _FAILURES as error:
        raise MetadataMalformed(table, _shown(row), _shown(error) or type(error).__name__) from error


def _shown(value: object) -> str:
    """Return a short text that every database and terminal takes: what is malformed may be no UTF-8 either."""
    return ascii(str(value).partition("\n")[0])[1:-1][:_SHOWN]


def read_count(value: object) -> int:
    """Return the number of a generation or a session. Raises `ValueError`."""
    if isinstance(value, int) and 0 <= value < _COUNTS:
        return value
    raise ValueError("a number of generations or sessions is none")
