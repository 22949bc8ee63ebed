"""Where things lie: a path of this machine, or a URL."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


def local_path(place: str) -> str | None:
    """Return the path that a path or `file:` URL means, taken literally as Spark does (no %-escapes); else None."""
    scheme = _SCHEME.match(place)
    if scheme is None:
        return place
    if scheme[1].lower() != "file":
        return None
    return "/" + place[scheme.end() :].removeprefix("//").removeprefix("localhost").lstrip("/")
