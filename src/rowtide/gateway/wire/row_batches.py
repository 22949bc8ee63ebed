"""Batches of rows as JSON: what thousands of rows have in common is sent once. Pure.

Rows that were changed between the same synchronisations have one version; it stands once in `versions`, and each row
has its place there, as `number_alike` groups what is staged. A row is `[rowguid, place, values]`, with `bases` and
`parents` after them where it has any; its values are null for a tombstone.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from rowtide.gateway.wire.typed_json import Misfit, decode_bytes, from_json, to_json, treat
from rowtide.merge.session.messages import RowBatch
from rowtide.merge.versions.changes import RowChange, TombstoneType
from rowtide.merge.versions.comparison import Malformed
from rowtide.merge.versions.stored_metadata import (
    read_bases,
    read_columns,
    read_last,
    read_lineage,
    read_priority,
    read_rowguid,
    read_tombstone_type,
    read_version,
)

_VERSION_FIELDS = ("lineage", "last", "columns", "tombstone", "priority", "overrules")
_SHORTEST_ROW, _LONGEST_ROW = 3, 5
_ABSENT: tuple[Any, ...] = (None, ())
"""What a row has for the values that it omits at its end."""


def encode_batch(batch: RowBatch) -> dict[str, Any]:
    """Return a batch as what `json` writes."""
    places: dict[tuple[object, ...], int] = {}
    versions: list[dict[str, Any]] = []
    rows = []
    for change in batch.changes:
        key = (change.lineage, change.last, change.columns, change.tombstone, change.priority, change.overrules)
        place = places.setdefault(key, len(versions))
        if place == len(versions):
            versions.append(_encode_version(change))
        row = [change.rowguid, place, change.row]
        if change.bases is not None or change.parents:
            row += [change.bases, *([change.parents] if change.parents else ())]
        rows.append(row)
    return {"article": batch.article, "versions": versions, "rows": rows}


def _encode_version(change: RowChange) -> dict[str, Any]:
    version: dict[str, Any] = {"lineage": _base64(change.lineage), "last": _base64(change.last)}
    if change.columns is not None:
        version["columns"] = _base64(change.columns)
    if change.tombstone is not None:
        version["tombstone"] = int(change.tombstone)
    if change.priority is not None:
        version["priority"] = change.priority
    if change.overrules is not None:
        version["overrules"] = to_json(int, change.overrules)
    return version


def _base64(encoded: bytes) -> str:
    return b64encode(encoded).decode()


def decode_batch(document: Any, place: str) -> RowBatch:
    """Return the batch that a document stands for. Raises `Misfit`: any of it may be made up."""
    if not isinstance(document, dict) or document.keys() != {"article", "versions", "rows"}:
        raise Misfit(place, "it does not have the fields article, versions and rows")
    listed, rows = document["versions"], document["rows"]
    if not isinstance(listed, list) or not isinstance(rows, list):
        raise Misfit(place, "versions and rows are no lists")
    versions = [_decode_version(one, f"{place}.versions[{at}]") for at, one in enumerate(listed)]
    article = from_json(int, document["article"], f"{place}.article")
    return RowBatch(article, [_decode_row(one, versions, f"{place}.rows[{at}]") for at, one in enumerate(rows)])


Version = tuple[bytes, bytes, bytes | None, TombstoneType | None, float | None, int | None]


def _decode_version(given: Any, place: str) -> Version:
    if not isinstance(given, dict) or not {"lineage", "last"} <= given.keys() <= {*_VERSION_FIELDS}:
        raise Misfit(place, f"it has other fields than {', '.join(_VERSION_FIELDS)}")
    overrules, priority = given.get("overrules"), given.get("priority")
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int | float)):
        raise Misfit(place, "its priority is no number")
    try:
        lineage = read_lineage(decode_bytes(given["lineage"], f"{place}.lineage"))
        last = read_last(decode_bytes(given["last"], f"{place}.last"))
        columns = given.get("columns")
        found = None if columns is None else read_columns(decode_bytes(columns, f"{place}.columns"))
        assert lineage is not None
        assert last is not None
        return (
            lineage,
            last,
            found,
            None if given.get("tombstone") is None else read_tombstone_type(given["tombstone"]),
            read_priority(priority),
            None if overrules is None else read_version(from_json(int, overrules, f"{place}.overrules")),
        )
    except Malformed as error:
        raise Misfit(place, str(error)) from error


def _decode_row(given: Any, versions: Sequence[Version], place: str) -> RowChange:
    if not isinstance(given, list) or not _SHORTEST_ROW <= len(given) <= _LONGEST_ROW:
        raise Misfit(place, "it is no list of a rowguid, the place of its version, and its values")
    rowguid, at, values, bases, parents = (*given, *_ABSENT[len(given) - _SHORTEST_ROW :])
    if type(at) is not int or not 0 <= at < len(versions):
        raise Misfit(place, "its version is not in the batch")
    lineage, last, columns, tombstone, priority, overrules = versions[at]
    if (values is None) != (tombstone is not None):
        raise Misfit(place, "only a tombstone has no values, and it has a type")
    try:
        return RowChange(
            read_rowguid(rowguid),
            lineage,
            last,
            columns,
            None if values is None else _texts(values, place),
            tombstone,
            read_bases(bases),
            _texts(parents, place),
            priority,
            overrules,
        )
    except Malformed as error:
        raise Misfit(place, str(error)) from error


def _texts(given: Any, place: str) -> tuple[str | None, ...]:
    if not isinstance(given, list | tuple) or not all(one is None or isinstance(one, str) for one in given):
        raise Misfit(place, "its values are no texts or nulls")
    return tuple(given)


treat(RowBatch, encode_batch, decode_batch)
