"""Offsets of streams, as Spark keeps them in checkpoints. Pure.

An offset says from which LSN on the stream has each of its instances: what it begins with is decided once, and a first
batch that is repeated after a crash begins there again, whatever was published or removed meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rowtide.cdc.spark_source.errors import StreamOffsetUnknown
from rowtide.core.errors import InvalidLsn
from rowtide.core.formats import Format, StoredFormat
from rowtide.core.lsn import CommitLsn

STREAM_OFFSET = Format("offset")
_PLACE = "the stream's checkpoint"
_KEYS = {"format", "lsn", "instances"}


@dataclass(frozen=True, slots=True)
class StreamedInstance:
    """An instance of a stream, by its identity, and the first LSN that the stream reads of it."""

    member_id: str
    begin: CommitLsn


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Everything up to `lsn` is read; None before the first batch. Of a table's instances the older comes first."""

    lsn: CommitLsn | None
    instances: Mapping[str, StreamedInstance]

    @property
    def read_to(self) -> CommitLsn:
        """The LSN behind which the stream goes on."""
        return self.lsn or min(one.begin for one in self.instances.values()).decrement()

    def as_json(self) -> dict[str, Any]:
        """Return the offset as Spark takes it; equal offsets are equal texts."""
        instances = {name: {"member": one.member_id, "begin": one.begin.value} for name, one in self.instances.items()}
        lsn = self.lsn.value if self.lsn is not None else None
        return {"format": str(STREAM_OFFSET.recorded), "lsn": lsn, "instances": instances}


def parse_offset(found: Mapping[str, Any]) -> StreamOffset:
    """Return the offset of what `as_json` returned.

    Raises `StreamOffsetUnknown`, `FormatUnnumbered`, `FormatNewer`: an offset is read to write the next one.
    """
    try:
        recorded = found.get("format")
        if recorded is None and found.keys() != _KEYS - {"format"}:
            # Another source's.
            raise StreamOffsetUnknown(str(found))
        stored = StoredFormat.parse(recorded) if recorded is not None else None
        STREAM_OFFSET.require_writable(_PLACE, stored)
        if stored == STREAM_OFFSET.recorded and found.keys() != _KEYS:
            raise StreamOffsetUnknown(str(found))
        lsn = found["lsn"]
        instances = {
            name: StreamedInstance(str(one["member"]), CommitLsn(one["begin"]))
            for name, one in found["instances"].items()
        }
        if not instances:
            raise StreamOffsetUnknown(str(found))
        return StreamOffset(CommitLsn(lsn) if lsn is not None else None, instances)
    except (KeyError, TypeError, ValueError, AttributeError, InvalidLsn) as error:
        raise StreamOffsetUnknown(str(found)) from error
