"""One version of a table: its columns, properties, transactions and data files, and their rows.

A version is read while other processes change the table. If log files vanish because a checkpoint replaced them, the
log is listed again; a data file that vanishes is an error, since the version's rows are gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa

from rowtide.core.values import frozen
from rowtide.delta import formats
from rowtide.delta.data_files import Between, FileReader, RowGroup, find_empty_columns, list_row_groups, prune
from rowtide.delta.errors import LakeReadFailed, LogDamaged, TableUnreadable
from rowtide.delta.features import find_unreadable
from rowtide.delta.replay import (
    LAST_CHECKPOINT,
    LOG,
    AddFile,
    CheckpointUnknown,
    DamagedLog,
    LogFiles,
    LogIncomplete,
    Metadata,
    Protocol,
    VersionFiles,
    VersionState,
    commit_path,
)
from rowtide.delta.schema import FieldType, Struct, TypeUnknown, constants_of, parse_schema
from rowtide.storage.places import is_object_url
from rowtide.storage.store import Missing, Store, get_all

_LOOKS = 5
_BATCH_ROWS = 64 * 1024
_BATCH_BYTES = 16 * 1024 * 1024


@frozen(slots=False)
class Location:
    """A table's folder, as errors name it, and the store of its files."""

    path: str
    store: Store


@frozen(slots=False)
class Snapshot:
    """One version of a table."""

    location: Location
    version: int
    state: VersionState
    checkpoint_version: int | None = None
    """The checkpoint from which it was read."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns that are requested and returned under another name, with that name."""
    widened: Mapping[str, FieldType] = field(default_factory=dict)
    """Columns that are returned in a wider type, by the table's own names, and that type."""

    @property
    def protocol(self) -> Protocol:
        """The versions and features that the table needs."""
        assert self.state.protocol is not None
        return self.state.protocol

    @property
    def metadata(self) -> Metadata:
        """Schema and properties."""
        assert self.state.metadata is not None
        return self.state.metadata

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.metadata.properties

    @property
    def files(self) -> Mapping[str, AddFile]:
        """The data files, by their paths in the log."""
        return self.state.files

    @cached_property
    def columns(self) -> Struct:
        """The table's columns. Raises `TableUnreadable`, `LakeReadFailed`."""
        path = self.location.path
        try:
            found = parse_schema(self.metadata.schema_text, is_mapped=self.metadata.is_mapped)
        except TypeUnknown as error:
            raise TableUnreadable(path, f"a column of type {error}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise LakeReadFailed(path, f"its schema is damaged: {error}") from error
        return found.retype(self.widened).rename(self.renamed) if self.widened or self.renamed else found

    def get_transaction(self, application: str) -> int | None:
        """Return the last version that an application committed."""
        found = self.state.transactions.get(application)
        return found.version if found is not None else None

    def of_files(self, files: Iterable[AddFile]) -> Snapshot:
        """Return the same version with some of its data files only, small enough to be sent to another process."""
        state = replace(self.state, files={file.path: file for file in files}, removed={}, transactions={})
        return replace(self, state=state)

    def list_files(self, *ranges: Between) -> list[AddFile]:
        """Return the data files, without those that by their statistics have no rows in the ranges.

        The ranges' columns are named as the table's. Raises `KeyError`.
        """
        physical = {field.name: field.physical_name for field in self.columns.fields}
        wanted = [replace(each, column=physical[each.column]) for each in ranges]
        return list(prune(self.files.values(), wanted))

    def read(self, columns: Sequence[str] | None = None, ranges: Iterable[Between] = ()) -> pa.Table:
        """Return columns of the rows of all files that may have rows in the ranges; see `stream`."""
        batches = list(self.stream(columns, ranges))
        return pa.Table.from_batches(batches, schema=self.select(columns).schema)

    def stream(
        self, columns: Sequence[str] | None = None, ranges: Iterable[Between] = (), *, batch_rows: int = _BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same in batches, one file after the other.

        A column that a file lacks is null; a narrower one is widened. Rows outside the ranges are among them.
        Raises `LakeReadFailed`, `TableUnreadable`, and `KeyError` for a column that is not there.
        """
        return self.stream_files(self.list_files(*ranges), columns, batch_rows=batch_rows)

    def stream_files(
        self, files: Iterable[AddFile], columns: Sequence[str] | None = None, *, batch_rows: int = _BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of the rows of some of the data files; see `stream`."""
        self.require_readable()
        for file in files:
            yield from self.stream_file(file, columns, batch_rows=batch_rows, batch_bytes=_BATCH_BYTES)

    def stream_file(
        self,
        file: AddFile,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = _BATCH_ROWS,
        batch_bytes: int | None = None,
        row_groups: Sequence[int] | None = None,
        on_all_cores: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield one file's rows, as `stream` after `require_readable`, in batches of at most about `batch_bytes`.

        `row_groups`: only the rows of these. `on_all_cores`: decode columns beside one another.
        """
        wanted, empty = self.select(columns), find_empty_columns(file)
        with self._reading(file) as opened:
            constants = constants_of(wanted.fields, file.partition_values)
            reader = FileReader(wanted, by_id=self.metadata.is_mapped_by_id, empty=empty, constants=constants)
            yield from reader.read(opened, batch_rows, batch_bytes, row_groups, on_all_cores=on_all_cores)

    def list_row_groups(self, file: AddFile, column: str) -> list[RowGroup]:
        """Return a file's row groups with bounds of an integer column. Raises as `stream`, and `KeyError`."""
        (field,) = self.select([column]).fields
        with self._reading(file) as opened:
            return list_row_groups(opened, field.physical_name)

    def has_other_types(self, file: AddFile, columns: Sequence[str]) -> bool:
        """Return whether a file has one of some columns in another type. Raises as `stream`, and `KeyError`."""
        reader = FileReader(self.select(columns), by_id=self.metadata.is_mapped_by_id)
        with self._reading(file) as opened:
            return reader.has_other_types(opened)

    def require_readable(self) -> None:
        """Raise `TableUnreadable` if the table's rows cannot be read here."""
        path = self.location.path
        for feature in find_unreadable(self.protocol, self.metadata):
            raise TableUnreadable(path, feature)
        # A table that has the feature but no such file can be read.
        if any(file.has_deletion_vector for file in self.files.values()):
            raise TableUnreadable(path, "files with deletion vectors")

    def select(self, names: Sequence[str] | None) -> Struct:
        """Return columns by name, by default all. Raises `KeyError`."""
        return self.columns if names is None else self.columns.select(list(names))

    @contextmanager
    def _reading(self, file: AddFile) -> Iterator[pa.NativeFile]:
        path, name = self.location.path, unquote(file.path)
        # Otherwise a writer of the log could make this process read any file that it has access to.
        if "://" in name or name.startswith(("/", "file:")):
            raise TableUnreadable(path, f"a data file outside its folder ({name})")
        try:
            with self.location.store.open(name) as opened:
                yield opened
        except Missing as error:
            said = f"its file {name} was removed, by a vacuum after version {self.version} was opened or by hand"
            raise LakeReadFailed(path, said) from error
        except (pa.ArrowException, OSError) as error:
            raise LakeReadFailed(path, f"file {name}: {_first_line(error)}") from error


@frozen
class Tail:
    """The sources of a version: the files of a checkpoint, and the contents of the commits above it, in order."""

    location: Location
    version: int
    checkpoint_version: int | None
    checkpoint: tuple[str, ...]
    commits: tuple[bytes, ...]

    def then(self, commits: Iterable[bytes]) -> Tail:
        """Return the tail of the version that follows by further commits."""
        together = (*self.commits, *commits)
        return replace(self, version=self.version + len(together) - len(self.commits), commits=together)

    def replay(self) -> Snapshot:
        """Return the version: only its checkpoint is read. Raises `Missing` if that is gone, and as `open_snapshot`."""
        location, state = self.location, VersionState()
        for path in self.checkpoint:
            with _damage_named(location, path), location.store.open(path) as file:
                state.apply_checkpoint(file)
        for number, content in enumerate(self.commits, self.version - len(self.commits) + 1):
            with _damage_named(location, commit_path(number)):
                state.apply_commit(content)
        if state.has_sidecars:
            raise TableUnreadable(location.path, "V2 checkpoints")
        if state.protocol is None or state.metadata is None:
            raise LakeReadFailed(location.path, "its log has no protocol or no schema")
        return Snapshot(location, self.version, state, self.checkpoint_version)


def open_snapshot(location: Location, version: int | None = None) -> Snapshot | None:
    """Return a version of a table, by default the current one; None if there is no table.

    Raises `LakeReadFailed` if the log is damaged or no longer has the version, and `TableUnreadable` if only a newer
    form of checkpoint has it; of the current version as `formats.require_readable`.
    """
    found = open_tail(location, version)
    return found[0] if found is not None else None


def open_any_format(location: Location) -> Snapshot | None:
    """Like `open_snapshot` for the current version, but for a table of any format."""
    found = _find_tail(location, None)
    return found[0] if found is not None else None


def open_tail(location: Location, version: int | None = None) -> tuple[Snapshot, Tail] | None:
    """Return a version, and what it was read from. Raises as `open_snapshot`."""
    found = _find_tail(location, version)
    if found is not None and version is None:
        formats.require_readable(location.path, found[0].properties)
    return found


def _find_tail(location: Location, version: int | None) -> tuple[Snapshot, Tail] | None:
    for look in range(_LOOKS):
        try:
            # Another writer's cleanup may remove files between the listing and the reading. Only the first attempt
            # trusts the hint, which may have led to a file that is gone.
            return _look(location, version, with_hint=look == 0)
        except Missing as error:
            missing = error
    raise LakeReadFailed(location.path, f"{missing.args[0]} is gone") from missing


def _look(location: Location, version: int | None, *, with_hint: bool) -> tuple[Snapshot, Tail] | None:
    segment = find_segment(location, version, with_hint=with_hint)
    if segment is None:
        return None
    commits = get_commits(location, [path for _, path in segment.commits])
    tail = Tail(location, segment.version, segment.checkpoint_version, segment.checkpoint, commits)
    return tail.replay(), tail


def get_commits(location: Location, paths: Sequence[str]) -> tuple[bytes, ...]:
    """Return the contents of commits, several of which are asked for at once in a bucket. Raises `Missing`."""
    if not is_object_url(location.path):
        return tuple(map(location.store.get, paths))
    found = get_all(location.store, paths)
    for path, content in zip(paths, found, strict=True):
        if content is None:
            raise Missing(path)
    return tuple(content for content in found if content is not None)


def find_segment(location: Location, version: int | None = None, *, with_hint: bool = True) -> VersionFiles | None:
    """Return the log files of a version, by default the last; None if there is no table.

    `with_hint`: list the log only from the checkpoint on that `_last_checkpoint` names, if that is enough. Raises as
    `open_snapshot`.
    """
    hinted = read_hint(location.store) if with_hint else None
    if hinted is not None and (version is None or hinted <= version):
        files = LogFiles.of(location.store.list(LOG, after=f"{LOG}{hinted:020d}"))
        # The hint may be older than the last checkpoint, and may name one that a cleanup has deleted: then everything
        # is listed.
        if hinted in files.checkpoints:
            return _make_up(location, files, version)
    files = LogFiles.of(location.store.list(LOG))
    return _make_up(location, files, version) if not files.is_empty else None


def read_hint(store: Store) -> int | None:
    """Return the last checkpoint's version by the file that names it, which may be old; None without that file."""
    try:
        found = json.loads(store.get(LAST_CHECKPOINT))
    except (Missing, ValueError):
        return None
    version = found.get("version") if isinstance(found, dict) else None
    return version if isinstance(version, int) else None


def _make_up(location: Location, files: LogFiles, version: int | None) -> VersionFiles:
    try:
        return files.make_up(version)
    except CheckpointUnknown as error:
        raise TableUnreadable(location.path, "V2 checkpoints") from error
    except LogIncomplete as error:
        raise LogDamaged(location.path, str(error)) from error


@contextmanager
def _damage_named(location: Location, path: str) -> Iterator[None]:
    try:
        yield
    except (DamagedLog, OSError) as error:
        raise LakeReadFailed(location.path, f"{path} is damaged: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
