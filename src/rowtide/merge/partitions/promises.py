"""Rows that a subscriber moved to another partition, though it promised not to (SQL Server: @partition_options)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, Write


def find_moved(row_filter: RowFilter, writes: Sequence[Write], present: Mapping[str, Row]) -> Iterator[tuple[str, str]]:
    """Yield the rows in which a column that decides about partitions would change, with the reason to refuse them."""
    for write in writes:
        before, after = present.get(write.rowguid), write.row
        if before is None or after is None:
            continue
        changed = next((place for place in row_filter.deciding if before[place] != after[place]), None)
        if changed is not None:
            yield write.rowguid, f"{row_filter.article.columns[changed].name} decides about partitions, and was changed"
