"""What a commit says (Delta's protocol, "Actions"), without the actions that readers may ignore."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from rowtide.core.values import frozen


@frozen
class Protocol:
    """The versions and features that readers and writers must know."""

    min_reader: int
    min_writer: int
    reader_features: frozenset[str] = frozenset()
    writer_features: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Protocol:
        """Parse the action's values."""
        features = (frozenset(found.get(name) or ()) for name in ("readerFeatures", "writerFeatures"))
        return cls(found["minReaderVersion"], found["minWriterVersion"], *features)

    def values(self) -> dict[str, Any]:
        """Return the action's values."""
        features = {"readerFeatures": (3, self.min_reader), "writerFeatures": (7, self.min_writer)}
        named = {"readerFeatures": self.reader_features, "writerFeatures": self.writer_features}
        listed = {name: sorted(named[name]) for name, (least, has) in features.items() if has >= least}
        return {"minReaderVersion": self.min_reader, "minWriterVersion": self.min_writer, **listed}


@frozen(slots=False)
class Metadata:
    """A table's schema and properties."""

    found: Mapping[str, Any]
    """The action's values."""

    @property
    def schema_text(self) -> str:
        """The schema in JSON."""
        return str(self.found["schemaString"])

    @cached_property
    def properties(self) -> dict[str, str]:
        """The table's properties."""
        return dict(self.found.get("configuration") or {})

    @property
    def partition_columns(self) -> list[str]:
        """The columns whose values are in paths."""
        return list(self.found.get("partitionColumns") or ())

    @property
    def is_mapped(self) -> bool:
        """Whether data files have other names for columns than the table."""
        return self._mapping_mode in ("name", "id")

    @property
    def is_mapped_by_id(self) -> bool:
        """Whether data files know columns by field ids only."""
        return self._mapping_mode == "id"

    @property
    def _mapping_mode(self) -> str:
        return self.properties.get("delta.columnMapping.mode", "none").lower()


@frozen(slots=False)
class AddFile:
    """A data file; `path` as in the log, URL-encoded."""

    path: str
    size: int
    modification_time: int
    stats: str | None = None
    partition_values: Mapping[str, str | None] = field(default_factory=dict)
    tags: Mapping[str, str] | None = None
    has_deletion_vector: bool = False

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> AddFile:
        """Parse the action's values."""
        return cls(
            path=found["path"],
            size=found["size"],
            modification_time=found["modificationTime"],
            stats=found.get("stats"),
            partition_values=dict(found.get("partitionValues") or {}),
            tags=dict(found["tags"]) if found.get("tags") else None,
            has_deletion_vector=found.get("deletionVector") is not None,
        )

    def values(self, *, changes_data: bool) -> dict[str, Any]:
        """Return the action's values."""
        tags = {"tags": dict(self.tags)} if self.tags else {}
        return {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "modificationTime": self.modification_time,
            "dataChange": changes_data,
            "stats": self.stats,
            **tags,
        }

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """The statistics, by Delta's names and columns' physical names; empty if there are none."""
        found = json.loads(self.stats) if self.stats else {}
        return found if isinstance(found, dict) else {}


@frozen
class RemoveFile:
    """A data file that is no longer part of the table; kept until no reader needs it."""

    path: str
    deleted_at: int
    size: int | None = None

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> RemoveFile:
        """Parse the action's values."""
        return cls(found["path"], found.get("deletionTimestamp") or 0, found.get("size"))

    @classmethod
    def of(cls, file: AddFile) -> RemoveFile:
        """Return the removal of a file, now."""
        return cls(file.path, int(time.time() * 1000), file.size)

    def values(self, *, changes_data: bool) -> dict[str, Any]:
        """Return the action's values."""
        return {
            "path": self.path,
            "deletionTimestamp": self.deleted_at,
            "dataChange": changes_data,
            "size": self.size,
        }


@frozen
class Transaction:
    """The last version that an application committed (`txn`)."""

    application: str
    version: int
    updated_at: int | None = None

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Transaction:
        """Parse the action's values."""
        return cls(found["appId"], found["version"], found.get("lastUpdated"))

    def values(self) -> dict[str, Any]:
        """Return the action's values."""
        updated = {"lastUpdated": self.updated_at} if self.updated_at is not None else {}
        return {"appId": self.application, "version": self.version, **updated}


def commit_info(
    operation: str, parameters: Mapping[str, object], *, is_append: bool = True, **more: object
) -> dict[str, Any]:
    """Return the values of a commit's `commitInfo`; its `txnId` is no other commit's."""
    return {
        "timestamp": int(time.time() * 1000),
        "operation": operation,
        "operationParameters": dict(parameters),
        "isBlindAppend": is_append,
        "engineInfo": "rowtide",
        "txnId": str(uuid.uuid4()),
        **more,
    }


def format_commit(actions: Iterable[tuple[str, Mapping[str, Any]]]) -> bytes:
    """Return a commit's content."""
    lines = (json.dumps({kind: values}, separators=(",", ":"), ensure_ascii=False) for kind, values in actions)
    return "".join(f"{line}\n" for line in lines).encode()
