"""Writes of received versions that are accepted unchanged, decided once for rows with equal metadata. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rowtide.merge.session.messages import Counts
from rowtide.merge.versions.changes import KnownVersion, RowChange, TombstoneType, Write, make_writes
from rowtide.merge.versions.comparison import Presence, decode_columns, encode_columns


def accepted(change: RowChange, known: KnownVersion | None, origin: int, priority: float | None) -> Write:
    """Return what writes a sender's version unchanged; `priority` is the weight of the sender's own versions.

    For columns that the version has no metadata for, as after a snapshot, the receiver keeps its own.
    """
    columns = change.columns
    if columns is not None and known is not None and known.version.columns:
        columns = encode_columns({**known.version.columns, **decode_columns(columns)})
    return Write(
        rowguid=change.rowguid,
        row=change.row,
        is_live=known is not None and known.version.presence is Presence.LIVE,
        lineage=change.lineage,
        last=change.last,
        columns=columns,
        origin=origin,
        tombstone=change.tombstone or TombstoneType.USER,
        priority=priority if change.priority is None else change.priority,
    )


def alike(
    changes: Sequence[RowChange], known: Mapping[str, KnownVersion]
) -> Iterator[tuple[Sequence[RowChange], KnownVersion | None]]:
    """Yield groups of changes with the same version, on rows with the same metadata, together with that metadata.

    Rows changed between the same synchronisations, often thousands, form one group, which is decided once.
    """
    groups: dict[tuple[object, ...], tuple[list[RowChange], KnownVersion | None]] = {}
    for change in changes:
        rowguid, lineage, last, columns, row, tombstone, _, _, priority, overrules = change
        here = known.get(rowguid)
        key = (lineage, last, columns, row is None, tombstone, priority, overrules, id(here))
        if key not in groups:
            groups[key] = ([], here)
        groups[key][0].append(change)
    return iter(groups.values())


def accepted_alike(
    changes: Sequence[RowChange], known: KnownVersion | None, origin: int, priority: float | None
) -> list[Write]:
    """Return what writes the versions of one group of `alike`; see `accepted`."""
    same = accepted(changes[0], known, origin, priority)[2:]
    return make_writes((change.rowguid, change.row, *same) for change in changes)


def count_writes(writes: Sequence[Write]) -> Counts:
    """Return how writes change rows; a tombstone for an absent row is not counted."""
    counts = Counts()
    for write in writes:
        if write.row is None:
            counts.deletes += write.is_live
        elif write.is_live:
            counts.updates += 1
        else:
            counts.inserts += 1
    return counts
