"""Copies chunks of captured tables into base tables: how large chunks are, and how they are read, converted, written.

A chunk is copied when the base table's log has its transaction; before that, its files have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from rowtide.cdc.change_columns import change_columns, column_type, lake_type
from rowtide.cdc.ddl import retyping
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_lease import SharedLease
from rowtide.cdc.published import base_table_path
from rowtide.cdc.recorded_snapshots import RecordedSnapshot
from rowtide.cdc.rows.conversion import BaseRows, find_most_row_bytes
from rowtide.copying.chunks import Chunk, CopiedTable, KeyColumn, cut
from rowtide.copying.present_tables import PresentTable
from rowtide.copying.source import OpenTable, PartialRow
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.lake_types import LakeType
from rowtide.delta.formats import IDENTITY
from rowtide.delta.replay import AddFile
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot
from rowtide.delta.writing.appends import name_data_file, write_stream
from rowtide.delta.writing.changes import CommitChange, commit_change
from rowtide.delta.writing.commits import Committer, PriorVersion
from rowtide.lake import tables
from rowtide.lake.sql_text import column_types
from rowtide.lake.stores import locate

SNAPSHOT_TAG = "rowtide.snapshot"
"""Tag of data files: the number of the snapshot whose rows they have."""
LACKING_TAG = "rowtide.lacking"
"""Tag of data files: how many of their rows lack values that could not be copied."""
FILE_BYTES = 512 * 1024 * 1024
"""Bytes of rows in memory after which a file ends; in Parquet they are about a quarter of that."""
_BATCH_BYTES = 4 * 1024 * 1024
# Each chunk has an identity of its own, whose single version means that the base has the chunk.
_COMMITTED = 1


class CopyOutdated(Exception):
    """The table was altered, or its instance has ended: the snapshot is void."""


class PartialRowsFound(Exception):
    """A chunk has rows that cannot be copied whole: it is copied again with what is known of them."""

    def __init__(self, rows: Sequence[PartialRow]) -> None:
        super().__init__(f"{len(rows)} rows cannot be copied whole")
        self.rows = rows


class BaseAltered(Exception):
    """The base table has other columns by now: the chunk is copied again."""


@frozen
class ChunkReport:
    """How much a chunk was: rows, those of them that lack values, and bytes as the server sent them."""

    chunk: int
    rows: int
    lacking: int
    size: int


def captured_numbers(instance: Instance) -> tuple[int, ...]:
    """Return the numbers of the columns that are copied: computed ones are null, as in change rows."""
    return tuple(column.column_id for column in instance.columns if not column.is_computed)


def as_copied(instance: Instance, present: PresentTable, condition: str | None) -> CopiedTable:
    """Return an instance's table as it is copied; without a column of its key that was dropped, it has no key."""
    known = (present.columns.get(column.column_id) for column in instance.index_columns)
    keys = [KeyColumn(column.name, column.value_type_text) for column in known if column is not None]
    return CopiedTable(
        member_id=instance.member_id,
        source_id=instance.source_id,
        schema=present.schema,
        table=present.table,
        columns=tuple(present.columns[number].name for number in _copied_numbers(instance, present)),
        numbers=tuple(_copied_numbers(instance, present)),
        key_columns=tuple(KeyColumn(key.name, key.type_text) for key in keys if key is not None)
        if None not in keys
        else (),
        condition=condition,
        is_partitioned=present.is_partitioned,
    )


def ensure_base(lake: str, instance: Instance, lease: SharedLease) -> None:
    """Create the base table of an instance if it is not there, with the types that capture knows by now."""
    columns = [(column.name, column.type_name) for column in change_columns(instance)]
    path = base_table_path(lake, instance.capture_instance)
    tables.ensure_table(path, columns, identity=instance.member_id, before_commit=lease.require)
    retyping.follow_change_table(lake, instance, lease.require)


@frozen
class CopiedSoFar:
    """The chunks of a snapshot that the base table has, their rows, and those of them that lack values."""

    chunks: frozenset[int] = frozenset()
    rows: int = 0
    lacking: int = 0


def find_copied(lake: str, snapshot: RecordedSnapshot) -> CopiedSoFar:
    """Return what the base table has of a snapshot."""
    base = open_snapshot(locate(base_table_path(lake, snapshot.capture_instance)))
    if base is None or base.properties.get(IDENTITY) != snapshot.member_id:
        return CopiedSoFar()
    chunks = range(snapshot.definition.of_chunks)
    copied = (one for one in chunks if base.get_transaction(snapshot.chunk_identity(one)) is not None)
    own = [file for file in base.files.values() if _snapshot_of(file) == str(snapshot.number)]
    lacking = (int((file.tags or {}).get(LACKING_TAG, 0)) for file in own)
    rows = (int(file.statistics.get("numRecords") or 0) for file in own)
    return CopiedSoFar(frozenset(copied), sum(rows), sum(lacking))


def remove_void(lake: str, void: Sequence[RecordedSnapshot], lease: SharedLease) -> None:
    """Remove the rows of void snapshots of an instance. Idempotent; no effect if it has no base table any more."""
    location = locate(base_table_path(lake, void[0].capture_instance))
    tags = {str(snapshot.number) for snapshot in void}
    if open_snapshot(location) is None:
        return

    def plan(base: Snapshot) -> CommitChange | None:
        if base.properties.get(IDENTITY) != void[0].member_id:
            return None
        removed = [file for file in base.files.values() if _snapshot_of(file) in tags]
        if not removed:
            return None
        lease.require()
        return CommitChange("DELETE", removed=removed)

    failpoint("snapshot_removal.before")
    commit_change(location, plan)
    failpoint("snapshot_removal.after")


@frozen
class ChunkCopier:
    """Copies the chunks of one snapshot; used by several threads. `take` is called with the rows of each batch, and may
    wait or raise.
    """

    lake: str
    instance: Instance
    snapshot: RecordedSnapshot
    committer: Committer
    lease: SharedLease
    take: Callable[[int], None]
    most_row_bytes: int

    def copy(self, number: int, opened: OpenTable, partial: Sequence[PartialRow] = ()) -> ChunkReport:
        """Copy a chunk from an open table; its rows are in the base table when this returns.

        Of `partial` rows some values are omitted. Raises `RowNotCopied`: there are others that cannot be copied whole;
        `CopyOutdated`, `BaseAltered`, `LeaseLost`, and errors of the server and the lake.
        """
        # A rewrite, for example by `alter column type`, may have changed values without any change row.
        if opened.present.generation != self.snapshot.definition.generation:
            raise CopyOutdated
        location = locate(base_table_path(self.lake, self.instance.capture_instance))
        state = self._require_own(self.committer.read_state(location))
        batches = _Batches(self._converter(opened, state), self.take)
        table = as_copied(self.instance, opened.present, self.snapshot.definition.condition)
        chunk = self._chunk(number)
        identity = self.snapshot.chunk_identity(number)
        files: list[AddFile] = []
        for file in self._write(location, state, self._read(opened, table, chunk, partial, batches), batches):
            files.append(file)
            if self.snapshot.definition.visible is not None:
                # A whole table may take longer than a vacuum spares uncommitted files.
                self._commit(location, state, f"{identity}:{file.path}", files)
                files = []
        # The last commit may wait for others. The source's transaction, which holds back vacuum, ends before that.
        opened.connection.close()
        self._commit(location, state, identity, files)
        return ChunkReport(number, batches.rows, batches.lacking, batches.size)

    def find_partial_rows(self, number: int, opened: OpenTable) -> Sequence[PartialRow]:
        """Return a chunk's rows that cannot be copied whole. Raises `CopiedTableUnreadable`."""
        table = as_copied(self.instance, opened.present, self.snapshot.definition.condition)
        return opened.find_partial_rows(table, self._chunk(number), self.most_row_bytes)

    def _read(
        self, opened: OpenTable, table: CopiedTable, chunk: Chunk, partial: Sequence[PartialRow], batches: _Batches
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, the partial ones last."""
        captured = dict(zip(table.columns, (column.name for column in batches.converter.copied), strict=True))
        yield from batches.of(opened.read(table, chunk, self.most_row_bytes, partial))
        for row in partial:
            lacking = [captured[name] for name in row.lacking]
            yield from batches.of(opened.read_partial(table, row, self.most_row_bytes), lacking)

    def _commit(self, location: Location, state: PriorVersion, identity: str, files: Sequence[AddFile]) -> None:
        def write(present: PriorVersion) -> Sequence[AddFile]:
            # The files have the earlier types: capture widened columns while the chunk was copied.
            if self._require_own(present).columns != state.columns:
                raise BaseAltered("its columns in the lake have other types now")
            return files

        self.lease.require()
        failpoint("base_chunk.before")
        self.committer.commit_once(
            location,
            identity=identity,
            cycle=_COMMITTED,
            write=write,
            tags={"rowtide.token": str(self.lease.token)},
        )
        failpoint("base_chunk.after")

    def _require_own(self, state: PriorVersion) -> PriorVersion:
        if state.metadata.properties.get(IDENTITY) != self.instance.member_id:
            raise CopyOutdated
        return state

    def _converter(self, opened: OpenTable, state: PriorVersion) -> BaseRows:
        """Return what converts rows into those of a version of the base, whose types capture changes at any moment."""
        present, copied = opened.present, set(_copied_numbers(self.instance, opened.present))
        columns = [column for column in self.instance.columns if column.column_id in copied and not column.is_computed]
        stored, types = column_types(state.metadata.schema_text), dict[str, LakeType]()
        retyped: set[str] = set()
        for column in self.instance.columns:
            own = column_type(self.instance, column)
            read = (
                lake_type(self.instance, present.columns[column.column_id].value_type_text)
                if column in columns
                else own
            )
            known = [one for one in (read, own) if one.name == stored[column.lake_name]]
            if not known:
                raise BaseAltered(f"capture knows column {column.name} by another type")
            types[column.name] = known[0]
            # A text holds every value.
            if known[0].name != read.name and not known[0].is_text:
                retyped.add(column.name)
        return BaseRows(self.instance, columns, self.snapshot.begin, types, frozenset(retyped), opened.is_utf8)

    def _chunk(self, number: int) -> Chunk:
        return cut(self.instance.member_id, self.snapshot.definition.bounds)[number]

    def _write(
        self, location: Location, state: PriorVersion, rows: Iterator[pa.RecordBatch], batches: _Batches
    ) -> Iterator[AddFile]:
        """Write rows, which `batches` counts."""
        before = 0
        for first in rows:
            name = name_data_file(self.snapshot.number)
            written = write_stream(location, state.columns, state.metadata, _up_to_a_file(first, rows), name)
            tags = {SNAPSHOT_TAG: str(self.snapshot.number)}
            if lacking := batches.lacking - before:
                tags[LACKING_TAG] = str(lacking)
            before = batches.lacking
            yield replace(written, tags=tags)


@dataclass(slots=True)
class _Batches:
    """Joins blocks of lines to batches of rows, and counts them."""

    converter: BaseRows
    take: Callable[[int], None]
    rows: int = 0
    lacking: int = 0
    size: int = 0

    def of(self, blocks: Iterable[bytes], lacking: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """Yield the rows of blocks, without the values of some columns."""
        gathered: list[bytes] = []
        size = 0
        for block in blocks:
            gathered.append(block)
            size += len(block)
            if size >= _BATCH_BYTES:
                yield self._convert(b"".join(gathered), lacking)
                gathered, size = [], 0
        if gathered:
            yield self._convert(b"".join(gathered), lacking)

    def _convert(self, lines: bytes, lacking: Collection[str]) -> pa.RecordBatch:
        batch = self.converter.convert(lines, lacking)
        self.rows += batch.num_rows
        self.lacking += batch.num_rows if lacking else 0
        self.size += len(lines)
        self.take(batch.num_rows)
        return batch


def _up_to_a_file(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    size = first.nbytes
    while size < FILE_BYTES and (batch := next(rest, None)) is not None:
        size += batch.nbytes
        yield batch


def _copied_numbers(instance: Instance, present: PresentTable) -> Iterator[int]:
    return (number for number in captured_numbers(instance) if number in present.columns)


def _snapshot_of(file: AddFile) -> str | None:
    return (file.tags or {}).get(SNAPSHOT_TAG)


# Few, because each is a session of the source whose transaction snapshot holds back vacuum.
WORKERS = 2
LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES = 64 * 1024 * 1024, 512 * 1024 * 1024
"""The size of a chunk, as the server stores the table: at most this is repeated after a kill."""
CHUNKS_PER_WORKER = 8
"""Chunks per worker, if the table is large enough, so that the last ones end at about the same time."""
CHUNK_S = 10
"""Seconds that a chunk takes at a limited rate: a transaction snapshot that lives long holds back vacuum."""
LOCK_TIMEOUT_S = 2
"""A thread that waits for a lock does not notice that it is to end."""


@frozen
class CopyLimits:
    """How tables are divided, by default by their sizes, how many chunks are copied at once, and how large a row is
    copied whole (0: as memory allows).
    """

    chunk_bytes: int | None = None
    workers: int = WORKERS
    row_bytes: int = 0

    @property
    def most_row_bytes(self) -> int:
        """Return the size, in bytes of text, up to which a row is copied whole."""
        return self.row_bytes or find_most_row_bytes()

    def choose_chunk_bytes(self, present: PresentTable, rows_per_second: int | None) -> int:
        """Return the size of a table's chunks at a rate."""
        usual = self.chunk_bytes
        if usual is None:
            even = present.size // (self.workers * CHUNKS_PER_WORKER)
            usual = min(max(even, LEAST_CHUNK_BYTES), MOST_CHUNK_BYTES)
        if rows_per_second is None or not present.rows:
            return usual
        row_bytes = max(present.size // present.rows, 1)
        return max(min(usual, row_bytes * rows_per_second * CHUNK_S), row_bytes)


USUAL_LIMITS = CopyLimits()
