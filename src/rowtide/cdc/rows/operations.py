"""`__$operation` in change tables, and which operations queries for all changes return."""

from __future__ import annotations

from collections.abc import Mapping

DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER, TRUNCATE = 1, 2, 3, 4, 6
"""SQL Server's, and 6, a truncate, which SQL Server refuses."""

ROW_FILTERS: Mapping[str, tuple[int, ...]] = {
    "all": (DELETE, INSERT, UPDATE_AFTER, TRUNCATE),
    "all update old": (DELETE, INSERT, UPDATE_BEFORE, UPDATE_AFTER, TRUNCATE),
}
"""Row filter options of all changes, and the operations that they return."""
