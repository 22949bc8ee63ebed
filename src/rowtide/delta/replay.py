"""A table's log: the actions in a commit, the names of its files, and its replay to a version's state."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

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
        # The time is optional in Delta's protocol. Without one the removal counts as long ago, so that no vacuum needs
        # the tombstone.
        return cls(found["path"], found.get("deletionTimestamp") or 0, found.get("size"))

    @classmethod
    def of(cls, file: AddFile) -> RemoveFile:
        """Return the removal of a file at the present time."""
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


_COLUMNS = {
    "txn": ("appId", "version", "lastUpdated"),
    "add": ("path", "partitionValues", "size", "modificationTime", "stats", "tags", "deletionVector"),
    "remove": ("path", "deletionTimestamp", "size"),
    "metaData": (),
    "protocol": (),
    "domainMetadata": (),
    "sidecar": ("path",),
}
"""Actions in checkpoints, and those of their fields that are read; none: all."""

_BATCH_ROWS = 4096


class DamagedLog(ValueError):
    """The content of a log file does not follow Delta's protocol."""


@dataclass(slots=True)
class VersionState:
    """The state that a version's actions result in."""

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    files: dict[str, AddFile] = field(default_factory=dict)
    removed: dict[str, RemoveFile] = field(default_factory=dict)
    transactions: dict[str, Transaction] = field(default_factory=dict)
    domains: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    has_sidecars: bool = False

    def apply(self, kind: str, values: Mapping[str, Any]) -> None:
        """Apply one action; those that change no state are ignored."""
        match kind:
            case "add":
                added = AddFile.parse(values)
                # A file that is added again, for example by a restore, is no longer a tombstone: a vacuum would delete
                # a file of the table.
                self.removed.pop(added.path, None)
                self.files[added.path] = added
            case "remove":
                gone = RemoveFile.parse(values)
                self.files.pop(gone.path, None)
                self.removed[gone.path] = gone
            case "txn":
                transaction = Transaction.parse(values)
                self.transactions[transaction.application] = transaction
            case "metaData":
                self.metadata = Metadata(values)
            case "protocol":
                self.protocol = Protocol.parse(values)
            case "domainMetadata" if values.get("removed"):
                self.domains.pop(values["domain"], None)
            case "domainMetadata":
                self.domains[values["domain"]] = values
            case "sidecar":
                self.has_sidecars = True

    def apply_commit(self, content: bytes) -> None:
        """Apply a commit's actions. Raises `DamagedLog`.

        A file that the commit both removes and adds, with other properties, remains in the table.
        """
        with _checked():
            actions = list(read_commit(content))
            # A stable sort: removes first, the others in their order.
            for kind, values in sorted(actions, key=lambda action: action[0] != "remove"):
                self.apply(kind, values)

    def apply_checkpoint(self, file: pa.NativeFile) -> None:
        """Apply the actions of a checkpoint, or of one part. Raises `DamagedLog`."""
        with _checked():
            for kind, values in _read_checkpoint(file):
                self.apply(kind, values)


class _checked:  # noqa: N801 - a context manager used as a statement
    """Raise `DamagedLog` for the errors of Python or Arrow that a malformed file causes."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DamagedLog):
            return
        if isinstance(error, KeyError):
            raise DamagedLog(f"an action has no {error}") from error
        if isinstance(error, (ValueError, TypeError, AttributeError)):
            raise DamagedLog(str(error).strip().splitlines()[0]) from error


def read_commit(content: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the actions of a commit by kind."""
    for line in content.splitlines():
        if line.strip():
            # A line has one action; any other number raises, and is damage.
            [(kind, values)] = json.loads(line).items()
            yield kind, values


def _read_checkpoint(file: pa.NativeFile) -> Iterator[tuple[str, Mapping[str, Any]]]:
    with pq.ParquetFile(file, pre_buffer=False) as parquet:
        wanted = list(_wanted(parquet.schema_arrow))
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=wanted, use_threads=False):
            for kind, column in zip(batch.schema.names, batch.columns, strict=True):
                rows: list[Any] = column.drop_null().to_pylist(maps_as_pydicts="strict")
                yield from ((kind, values) for values in rows)


def _wanted(schema: pa.Schema) -> Iterator[str]:
    for kind, names in _COLUMNS.items():
        if kind in schema.names:
            has: Sequence[str] = [field.name for field in schema.field(kind).type]
            yield from (f"{kind}.{name}" for name in has if not names or name in names)


LOG = "_delta_log/"
LAST_CHECKPOINT = f"{LOG}_last_checkpoint"

_COMMIT = re.compile(rf"{LOG}(\d{{20}})\.json")
_CHECKPOINT = re.compile(rf"{LOG}(\d{{20}})\.checkpoint(?:\.(\d{{10}})\.(\d{{10}}))?\.parquet")
_OTHER_CHECKPOINT = re.compile(rf"{LOG}(\d{{20}})\.checkpoint\.[0-9a-f-]{{36}}\.(?:json|parquet)")
_OF_VERSION = re.compile(rf"{LOG}(\d{{20}})\.")


def commit_path(version: int) -> str:
    """Return the path of a commit."""
    return f"{LOG}{version:020d}.json"


def checkpoint_path(version: int) -> str:
    """Return the path of a checkpoint in one file."""
    return f"{LOG}{version:020d}.checkpoint.parquet"


def version_of(path: str) -> int | None:
    """Return the version to which a log file belongs; None for other files."""
    found = _OF_VERSION.match(path)
    return int(found[1]) if found is not None else None


@frozen
class VersionFiles:
    """The files of which a version is made: the checkpoint's parts, then the commits above it, in order."""

    version: int
    checkpoint_version: int | None
    checkpoint: tuple[str, ...]
    commits: tuple[tuple[int, str], ...]


class LogIncomplete(ValueError):
    """The files do not make up the version."""


class CheckpointUnknown(LogIncomplete):
    """The version can only be read from a checkpoint of the V2 specification."""


@frozen
class LogFiles:
    """A table's log files, or those from a version on."""

    commits: dict[int, str]
    checkpoints: dict[int, tuple[str, ...]]
    """Complete ones."""
    other_checkpoints: frozenset[int]

    @classmethod
    def of(cls, paths: Iterable[str]) -> LogFiles:
        """Sort the paths of a table's log."""
        commits: dict[int, str] = {}
        parts: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
        others: set[int] = set()
        for path in paths:
            if (commit := _COMMIT.fullmatch(path)) is not None:
                commits[int(commit[1])] = path
            elif (checkpoint := _CHECKPOINT.fullmatch(path)) is not None:
                parts[int(checkpoint[1]), int(checkpoint[3] or 0)].append(path)
            elif (other := _OTHER_CHECKPOINT.fullmatch(path)) is not None:
                others.add(int(other[1]))
        # A multi-part checkpoint counts only if all parts exist: its writer may have died between two of them.
        complete = {version: tuple(sorted(found)) for (version, of), found in parts.items() if len(found) == (of or 1)}
        return cls(commits, complete, frozenset(others))

    @property
    def is_empty(self) -> bool:
        """Whether there is no table."""
        return not (self.commits or self.checkpoints or self.other_checkpoints)

    def make_up(self, version: int | None = None) -> VersionFiles:
        """Return the files of a version, by default the last. Raises `LogIncomplete`, `CheckpointUnknown`."""
        last = max((*self.commits, *self.checkpoints), default=-1) if version is None else version
        checkpoint = max((known for known in self.checkpoints if known <= last), default=None)
        first = 0 if checkpoint is None else checkpoint + 1
        missing = [number for number in range(first, last + 1) if number not in self.commits]
        if missing or last < 0:
            if any(number >= first for number in self.other_checkpoints):
                raise CheckpointUnknown
            raise LogIncomplete(f"version {missing[0] if missing else last} is missing from its log")
        commits = tuple((number, self.commits[number]) for number in range(first, last + 1))
        return VersionFiles(last, checkpoint, self.checkpoints[checkpoint] if checkpoint is not None else (), commits)
