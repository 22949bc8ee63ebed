"""Names that users give to rowtide's objects. Pure."""

from __future__ import annotations

import unicodedata

from rowtide.core.errors import NameUnfit

_MAX_CHARACTERS = 128
"""The limit of SQL Server's sysname."""


def require_name(kind: str, name: str) -> None:
    """Require that an object's name can be typed and listed. Raises `NameUnfit`."""
    require_text(kind, name)
    problem = _problem_of(name)
    if problem is not None:
        raise NameUnfit(kind, repr(name), problem)


def require_text(kind: str, name: str) -> None:
    """Require that a name is text, as programs may pass any value. Raises `NameUnfit`."""
    if not isinstance(name, str):
        raise NameUnfit(kind, repr(name), f"it is no text but of the type {type(name).__name__}")


def _problem_of(name: str) -> str | None:
    if not name.strip():
        return "it is empty"
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        return "it has control characters"
    if len(name) > _MAX_CHARACTERS:
        return f"it has more than {_MAX_CHARACTERS} characters"
    return None
