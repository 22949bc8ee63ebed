"""What is known of a SQLite file before anything is judged, and which of its names are rowtide's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rowtide.core.errors import RowtideError
from rowtide.databases.sqlite.catalogue import Table
from rowtide.diagnosis.tracked_tables import TrackedFacts
from rowtide.tracking.options import TrackedTable

_OTHERS = ("msmerge_", "sysmerge", "msreplication_", "mssnapshot_")
"""Of merge, and of what is delivered into the file."""
_PREFIXES = ("__sys", *_OTHERS)


def is_ours(name: str) -> bool:
    """Tell whether a name is one that rowtide gives."""
    return name.lower().startswith(_PREFIXES)


def is_used_otherwise(names: Iterable[str]) -> bool:
    """Tell whether the tables of a file say that it is merged, or that changes are delivered into it."""
    return any(name.lower().startswith(_OTHERS) for name in names)


@dataclass(frozen=True, slots=True)
class ColumnEffects:
    """What three columns more in a table do to its file's own triggers and views, by their names.

    `broken` triggers and views are an error from then on, `widened` views show the columns, `asked` triggers are of
    any update of a row, of the one that stamps it too.
    """

    broken: tuple[str, ...] = ()
    widened: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFacts:
    """A table that is tracked or may come to be; `tracked` says how, None while it is not."""

    table: Table
    tracked: TrackedTable | None
    effects: ColumnEffects


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Everything that is judged.

    `refusal` says why this build does not use what is tracked. `untrackable` are relations that the
    user named, with their kinds; `virtual_tables` are looked at where nobody named any. `journal_mode` is None of a
    database in memory. Others than its user may read the file at `path` by its `mode`, None of a database in memory;
    one that `is_subscriber`, of a publication or of merge, was made by rowtide as a rule.
    """

    path: str
    mode: int | None
    is_subscriber: bool
    journal_mode: str | None
    refusal: RowtideError | None
    tracked: tuple[TrackedFacts, ...]
    tables: tuple[TableFacts, ...]
    untrackable: Mapping[str, str]
    virtual_tables: tuple[str, ...]
