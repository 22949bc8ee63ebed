"""The format of what rowtide keeps in a database: a view of one row, whose numbers are read from its definition.

The definition is in the catalogue: to read it takes no right to the view, does not fail where there is none, and is
part of whatever query a session begins with. Dumps have the view, and users can ask it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from rowtide.core.formats import StoredFormat, StoreFormat

_NUMBERS = re.compile(r"\b(\d+) as (number|least_reader|least_writer)\b", re.IGNORECASE)

Requirement: TypeAlias = Callable[[StoreFormat, str, StoredFormat | None], object]
"""What is required of a store before it is used: `StoreFormat.require_readable` or `StoreFormat.require_writable`.

It takes the format of this build, the store's place and what the store records.
"""


def format_row(recorded: StoredFormat) -> str:
    """Return the query that is the definition of a format's view."""
    numbers = {name: getattr(recorded, name) for name in ("number", "least_reader", "least_writer")}
    return f"select {', '.join(f'{number} as {name}' for name, number in numbers.items())}"


def parse_definition(definition: str | None) -> StoredFormat | None:
    """Return the format that a view records; None without one."""
    found = {name.lower(): int(number) for number, name in _NUMBERS.findall(definition or "")}
    return StoredFormat(**found) if len(found) == 3 else None


def _require_removable(own: StoreFormat, place: str, stored: StoredFormat | None) -> None:
    """Raise `FormatNewer` or `FormatOutdated` for what this build may not write to; what has no number is removed."""
    if stored is not None:
        own.require_writable(place, stored)


@contextmanager
def removing(*, wanted: bool = True) -> Iterator[None]:
    """Let `require` pass what was made before formats had numbers: commands that disable and drop remove it."""
    token = _IS_REMOVING.set(wanted)
    try:
        yield
    finally:
        _IS_REMOVING.reset(token)


def require(requirement: Requirement, own: StoreFormat, place: str, stored: StoredFormat | None) -> None:
    """Raise as a requirement of a store; within `removing`, what has no number passes."""
    (_require_removable if _IS_REMOVING.get() else requirement)(own, place, stored)


_IS_REMOVING: ContextVar[bool] = ContextVar("is_removing", default=False)
