"""The log store's format, which is the first thing that is read of a manifest, and of a segment.

The first entry records it, and each checkpoint; an entry of its own kind raises it. What follows that entry is not
decoded by a build that may not read the new format.
"""

from __future__ import annotations

from typing import Any

from rowtide.core.formats import Format, StoredFormat
from rowtide.core.json_records import JsonInvalid, JsonOf

LOG_STORE = Format("log store")

_FORMAT = JsonOf[StoredFormat](StoredFormat)


def find_format(found: Any) -> StoredFormat | None:
    """Return the format that the JSON of an entry or of a checkpoint records, None if it records none.

    Raises `JsonInvalid`.
    """
    if type(found) is not dict:
        raise JsonInvalid("an object")
    recorded = found.get("format")
    if recorded is None:
        return None
    try:
        return _FORMAT.decode_loaded(recorded)
    except (JsonInvalid, ValueError) as error:
        raise JsonInvalid("a format", ("format",)) from error
