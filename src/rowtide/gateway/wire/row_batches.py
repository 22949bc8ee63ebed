"""A batch of rows as JSON, column by column. Pure.

Most rows of a batch have the same version, as an upload has one generation; `versions` has it once, and `places` has
each row's index there. `columns` has the values of each column, null for tombstones; `bases` and `parents` have an
element for each row where any row has some.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from itertools import repeat
from typing import Any

from rowtide.gateway.wire.typed_json import Misfit, decode_bytes, from_json, to_json, treat
from rowtide.merge.session.messages import RowBatch
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.checked_metadata import (
    are_rowguids,
    read_bases,
    read_columns,
    read_last,
    read_lineage,
    read_priority,
    read_rowguid,
    read_tombstone_type,
    read_version,
)
from rowtide.merge.versions.comparison import Malformed

_VERSION_FIELDS = ("lineage", "last", "columns", "tombstone", "priority", "overrules")
_FIELDS = frozenset({"article", "versions", "places", "rowguids", "columns"})
_RARE_FIELDS = frozenset({"bases", "parents"})
_ROWGUID_LENGTH = 36


def encode_batch(batch: RowBatch) -> dict[str, Any]:
    """Return a batch as a document for `json`."""
    found: dict[tuple[object, ...], int] = {}
    versions: list[dict[str, Any]] = []
    places = []
    for change in batch.changes:
        key = (change.lineage, change.last, change.columns, change.tombstone, change.priority, change.overrules)
        place = found.setdefault(key, len(versions))
        if place == len(versions):
            versions.append(_encode_version(change))
        places.append(place)
    rows = [change.row for change in batch.changes if change.row is not None]
    # Columns cannot hold tombstones among rows: they would be lost silently.
    assert len(rows) in (0, len(places))
    document = {
        "article": batch.article,
        "versions": versions,
        "places": places,
        "rowguids": _encode_rowguids(batch.changes),
        "columns": list(zip(*rows, strict=True)) if len(rows) == len(places) else None,
    }
    if any(change.bases is not None for change in batch.changes):
        document["bases"] = [change.bases for change in batch.changes]
    if any(change.parents for change in batch.changes):
        document["parents"] = [change.parents for change in batch.changes]
    return document


def _encode_rowguids(changes: Sequence[RowChange]) -> list[str]:
    # Column by column: neighbouring UUIDs share their time, so their first digits compress; row by row, the random
    # digits between them would double the compressed size.
    joined = "".join([change.rowguid for change in changes])
    return [joined[place::_ROWGUID_LENGTH] for place in range(_ROWGUID_LENGTH)]


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
    """Decode a batch. Raises `Misfit`: the document is not trusted."""
    if not isinstance(document, dict) or not _FIELDS <= document.keys() <= _FIELDS | _RARE_FIELDS:
        raise Misfit(place, f"it has other fields than {', '.join(sorted(_FIELDS | _RARE_FIELDS))}")
    versions = [
        _decode_version(one, f"{place}.versions[{at}]")
        for at, one in enumerate(_listed(document["versions"], f"{place}.versions"))
    ]
    places = _listed(document["places"], f"{place}.places")
    if any(type(at) is not int or not 0 <= at < len(versions) for at in places):
        raise Misfit(f"{place}.places", "a version is not in the batch")
    columns, number = document["columns"], len(places)
    if any((versions[at].tombstone is None) == (columns is None) for at in set(places)):
        raise Misfit(f"{place}.columns", "only tombstones have no values, and they have a type")
    changes = [
        versions[at]._replace(rowguid=rowguid, row=row, bases=own_bases, parents=own_parents)
        for at, rowguid, row, own_bases, own_parents in zip(
            places,
            _decode_rowguids(document["rowguids"], number, f"{place}.rowguids"),
            repeat(None, number) if columns is None else _decode_columns(columns, number, f"{place}.columns"),
            _decode_bases(document.get("bases"), number, f"{place}.bases"),
            _decode_parents(document.get("parents"), number, f"{place}.parents"),
            strict=True,
        )
    ]
    return RowBatch(from_json(int, document["article"], f"{place}.article"), changes)


def _listed(given: Any, place: str, number: int | None = None) -> list[Any]:
    if not isinstance(given, list) or number not in (None, len(given)):
        raise Misfit(place, "it is no list" if number is None else f"it is no list of {number}")
    return given


def _decode_version(given: Any, place: str) -> RowChange:
    """Return the fields that rows of a version share, as a change without a row."""
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
        return RowChange(
            "",
            lineage,
            last,
            found,
            None,
            None if given.get("tombstone") is None else read_tombstone_type(given["tombstone"]),
            priority=read_priority(priority),
            overrules=None if overrules is None else read_version(from_json(int, overrules, f"{place}.overrules")),
        )
    except Malformed as error:
        raise Misfit(place, str(error)) from error


def _decode_rowguids(given: Any, number: int, place: str) -> list[str]:
    texts = _listed(given, place, _ROWGUID_LENGTH)
    if not all(isinstance(one, str) and len(one) == number for one in texts):
        raise Misfit(place, f"it has other elements than texts of {number} characters")
    rowguids = list(map("".join, zip(*texts, strict=True)))
    for at, rowguid in enumerate(() if are_rowguids(rowguids) else rowguids):
        try:
            read_rowguid(rowguid)
        except Malformed as error:
            raise Misfit(f"{place}[][{at}]", str(error)) from error
    return rowguids


def _decode_columns(given: Any, number: int, place: str) -> Sequence[Row]:
    columns = [_decode_texts(one, number, f"{place}[{at}]") for at, one in enumerate(_listed(given, place))]
    return list(zip(*columns, strict=True)) if columns else [()] * number


def _decode_bases(given: Any, number: int, place: str) -> Sequence[str | None]:
    if given is None:
        return [None] * number
    try:
        return [read_bases(one) for one in _listed(given, place, number)]
    except Malformed as error:
        raise Misfit(place, str(error)) from error


def _decode_parents(given: Any, number: int, place: str) -> Sequence[Row]:
    if given is None:
        return [()] * number
    return [tuple(_decode_texts(one, None, place)) for one in _listed(given, place, number)]


def _decode_texts(given: Any, number: int | None, place: str) -> list[str | None]:
    values = _listed(given, place, number)
    if not {*map(type, values)} <= {str, type(None)}:
        raise Misfit(place, "its values are no texts or nulls")
    return values


treat(RowBatch, encode_batch, decode_batch)
