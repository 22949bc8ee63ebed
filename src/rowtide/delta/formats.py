"""The formats of tables that rowtide creates, recorded in their properties: see `rowtide.core.formats`.

Tables of other programs have none of these properties, and are read like any Delta table.
"""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.delta.errors import LakeReadFailed

IDENTITY, OWNER, FORMAT = "rowtide.identity", "rowtide.target", "rowtide.format"
"""Properties: the identity under which cycles are appended; the target that a table belongs to; the table's format."""

LAKE_TABLE, TARGET_TABLE = StoreFormat("lake table"), StoreFormat("target table")
_KINDS = {IDENTITY: LAKE_TABLE, OWNER: TARGET_TABLE}


def require_readable(path: str, properties: Mapping[str, str]) -> None:
    """Raise `FormatUnnumbered`, `FormatNewer` or `FormatOutdated` for a table of rowtide's that this build must not
    read.
    """
    known = _find_kind(properties)
    if known is not None:
        known.require_readable(path, find_format(path, properties))


def require_writable(path: str, properties: Mapping[str, str]) -> None:
    """Raise as `require_readable` for a table of rowtide's that this build must not write."""
    known = _find_kind(properties)
    if known is not None:
        known.require_writable(path, find_format(path, properties))


def find_format(path: str, properties: Mapping[str, str]) -> StoredFormat | None:
    """Return the format that a table records, None if it records none. Raises `LakeReadFailed`."""
    recorded = properties.get(FORMAT)
    try:
        return StoredFormat.parse(recorded) if recorded is not None else None
    except ValueError as error:
        raise LakeReadFailed(path, f"its property {FORMAT} is damaged") from error


def _find_kind(properties: Mapping[str, str]) -> StoreFormat | None:
    return next((known for name, known in _KINDS.items() if name in properties), None)
