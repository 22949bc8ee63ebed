"""Rows of the hub that an uploading subscriber does not have: it may neither write to them nor take their keys.

Which rows a subscriber of filtered articles has is what the hub has stored, whatever the subscriber's file says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rowtide.merge.articles import Article
from rowtide.merge.nodes.roles.metadata import Holder, RowMetadata
from rowtide.merge.nodes.roles.rows import RowReader
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Known, RowChange, TombstoneType
from rowtide.merge.versions.comparison import Nothing, Presence, compare


class _Rows(RowMetadata, RowReader, Protocol):
    """A hub."""


def find_others(changes: Sequence[RowChange], known: Mapping[str, Known], source: int) -> list[RowChange]:
    """Return the changes of rows that node `source` does not have, and that say anything new."""
    return [change for change in changes if _is_of_others(change, known.get(change.rowguid), source)]


def _is_of_others(change: RowChange, known: Known | None, source: int) -> bool:
    if known is None or known.is_held or change.tombstone is TombstoneType.LEFT:
        return False
    if known.version.presence is Presence.DELETED and known.version.lineage.version_of(source):
        # It had the row, which is in no membership once it is deleted.
        return False
    return not isinstance(compare(change.version, known.version), Nothing)


def are_any_of_others(
    hub: _Rows, holder: Holder, filters: Mapping[int, RowFilter], rows: Iterable[tuple[Article, str]]
) -> bool:
    """Whether any of the hub's rows is neither a subscriber's nor in its partition, within a transaction."""
    asked: dict[int, tuple[Article, list[str]]] = {}
    for article, rowguid in rows:
        if article.nickname in filters:
            asked.setdefault(article.nickname, (article, []))[1].append(rowguid)
    found, _ = hub.read_known_and_rows(list(asked.values()), [], holder) if asked else ([], [])
    for (article, rowguids), known in zip(asked.values(), found, strict=True):
        unheld = [rowguid for rowguid in rowguids if rowguid in known and not known[rowguid].is_held]
        if unheld and len(hub.find_belonging(filters[article.nickname], unheld)) < len(set(unheld)):
            return True
    return False
