"""Which tables and triggers of a SQLite file are rowtide's own. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_OTHERS = ("msmerge_", "sysmerge", "msreplication_", "mssnapshot_")
"""Of merge, and of what is delivered into the file."""
_PREFIXES = ("__sys", *_OTHERS)


def is_ours(name: str) -> bool:
    """Tell whether a name is one that rowtide gives."""
    return name.lower().startswith(_PREFIXES)


def is_used_otherwise(names: Iterable[str]) -> bool:
    """Tell whether the tables of a file say that it is merged, or that changes are delivered into it."""
    return any(name.lower().startswith(_OTHERS) for name in names)
