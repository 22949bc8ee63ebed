"""Names that listings have printed last, for shells to complete: no completion opens a connection.

A file for each database in the user's cache has names alone, of instances, publications and subscribers, and only its
owner may read it. It is named by a digest of the database's URL without its password.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rowtide.core.errors import RowtideError
from rowtide.core.redaction import redact

_FIELDS = ("capture_instance", "publication", "subscriber")
_ANSWERS = ("ListedInstance", "ListedPublication", "ListedSubscription", "MergePublication", "MergeStatus")
"""Listings of all that there is; others may be of a part."""
_MOST_NAMES = 2000
_MOST_BYTES = 1_000_000


def is_remembered(kind: type[Any]) -> bool:
    """Return whether a listing's names are kept."""
    return kind.__name__ in _ANSWERS


def remember(kind: type[Any], rows: Sequence[object], db: str) -> None:
    """Store the names of a listing of a database for completion, replacing earlier ones. Errors of the cache are
    ignored.
    """
    feature = kind.__module__.split(".")[1]
    new = {
        f"{feature} {field}": _kept(getattr(row, field) for row in rows) for field in _FIELDS if hasattr(kind, field)
    }
    # No home, a full disk: completion is a convenience, and the listing was printed.
    with suppress(OSError):
        path = _path_of(db)
        if path is not None:
            _write(path, {**_read(path), **new})


def known_names(db: str, feature: str, field: str) -> Sequence[str]:
    """Return the names of a kind that a feature's listing had last; none if there was no listing."""
    path = _path_of(db)
    found = _read(path).get(f"{feature} {field}", []) if path is not None else []
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _kept(names: Iterable[str | None]) -> Sequence[str]:
    """Return names that can be passed to a shell: on one line, without passwords."""
    usable = (name for name in names if name and name.isprintable() and redact(name) == name)
    return list(dict.fromkeys(usable))[:_MOST_NAMES]


def _path_of(db: str) -> Path | None:
    from hashlib import sha256

    from rowtide.databases.urls import parse_url

    given, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if not os.path.isabs(given) and not os.path.isabs(home):
        return None
    folder = Path(given) if os.path.isabs(given) else Path(home, ".cache")
    try:
        # Printed without its password.
        digest = sha256(str(parse_url(db)).encode("utf-8", "surrogateescape")).hexdigest()
    except RowtideError:
        return None
    return folder / "rowtide" / "names" / f"{digest}.json"


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _MOST_BYTES:
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, names: Mapping[str, Any]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(names, file)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
