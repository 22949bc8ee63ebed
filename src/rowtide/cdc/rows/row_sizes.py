"""How large a row may be that is converted."""

from __future__ import annotations

import os
from pathlib import Path

ROW_COPIES = 10
"""How often a large row is in memory while it is converted; measured."""
_MOST_TEXT = 2**31 - 2**20
"""Texts of both images of a row are joined, and Arrow's offsets end at 2 GiB."""
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def find_most_row_bytes() -> int:
    """Return the size, in bytes of text, up to which half of this machine's memory is enough to convert a row."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for place in map(Path, _MEMORY_LIMITS):
        said = place.read_text().strip() if place.is_file() else ""
        limits += [int(said)] if said.isdigit() else []
    return min(_MOST_TEXT, min(limits) // 2 // ROW_COPIES)
