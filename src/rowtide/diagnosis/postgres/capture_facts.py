"""Read the state of what enable-db and enable-table created, by the same verification as the log reader's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, text

from rowtide.cdc import definitions
from rowtide.cdc.consumers.consumers import ListedConsumer, list_consumers
from rowtide.cdc.enabling import joining_triggers
from rowtide.cdc.enabling.table_rules import RuledTable, list_failed, list_rules
from rowtide.cdc.instances import Instance, decode_instance
from rowtide.cdc.snapshot_requests import list_copied
from rowtide.cdc.status import describe_requests
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.query_memo import make_once
from rowtide.diagnosis.places import LAKE, LOG_STORE, Place, read_place
from rowtide.diagnosis.postgres.table_facts import MemberFacts, read_members
from rowtide.log.errors import HistoryDiverged, LogStoreMoved, LogStoreTaken, ManifestMissing
from rowtide.log.membership import Member
from rowtide.log.postgres import ddl_triggers, partition_truncates, slot
from rowtide.log.postgres.lease import find_holder
from rowtide.log.postgres.partition_truncates import NewPartition
from rowtide.log.postgres.provenance import find_difference, verify_history, verify_seen_slot
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import is_own, open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState
from rowtide.storage.places import local_folder

_ANY_POSITION = (1 << 63) - 1
ReadManifest = Callable[[str], ManifestState | None]


@frozen
class SlotFacts:
    """The slot that enable-db made; sizes in bytes, `safe_bytes` None where nothing limits it."""

    name: str
    wal_status: str
    safe_bytes: int | None
    kept_bytes: int | None


@frozen
class CapturedInstance:
    """A capture instance of the catalogue; `definition` is None until the log reader has read that it was enabled.

    `read_numbers` are the numbers of the columns that the log reader reads for it now; `is_copied`: it has a snapshot.
    """

    name: str
    schema: str
    table: str
    source_id: int
    is_dropped: bool
    definition: Instance | None
    read_numbers: tuple[int, ...] = ()
    is_copied: bool = False

    @property
    def can_be_compared(self) -> bool:
        """Whether the changes of a gap can be reconciled: the table has a key and a snapshot."""
        return self.is_copied and self.definition is not None and bool(self.definition.index_columns)


@frozen
class CaptureFacts:
    """What enable-db and enable-table made; `blockers` are what the log reader would be stopped with.

    `has_triggers` says that event triggers write DDL into the log. Where not `is_enabled`, the log is
    read for publications alone: the lake is a folder for its log store, and nothing is captured. `log_reader` reads the
    log now, `state` is that of the log store, None where it cannot be read; `rules` is None without rules. Of
    `new_partitions` a truncate would go unseen.
    """

    source: SourceDefinition
    has_triggers: bool
    slot: SlotFacts | None
    blockers: tuple[RowtideError, ...]
    instances: tuple[CapturedInstance, ...]
    consumers: tuple[ListedConsumer, ...] = ()
    is_enabled: bool = True
    log_reader: str | None = None
    state: ManifestState | None = None
    members: tuple[MemberFacts, ...] = ()
    rules: RuleFacts | None = None
    new_partitions: tuple[NewPartition, ...] = ()
    requests: str | None = None
    """The number of requests to the bucket a day, as text."""


@frozen
class RuleFacts:
    """Rules for new tables, with the tables that they could not enable; `has_triggers`: others join as they are
    created.
    """

    names: tuple[str, ...]
    has_triggers: bool
    failed: tuple[RuledTable, ...] = ()


def read_capture(
    connection: Connection,
    source: SourceDefinition,
    url: str,
    *,
    may_stream: bool,
    read_manifest: ReadManifest | None = None,
) -> CaptureFacts:
    """Return what enabling or publishing made; without `may_stream` the server's history is left alone.

    `read_manifest` reads the log store's manifest, by default as a whole.
    """
    blockers: list[RowtideError] = []
    state: ManifestState | None = None
    # Before the log store, in which a log reader records a position before it confirms it.
    seen = slot.find_slot(connection, source.slot)
    with _noting(blockers):
        state = (read_manifest or load_manifest)(source.log_store)
    blockers += _find_blockers(connection, source, url, seen, state, may_stream=may_stream)
    is_enabled = definitions.are_begun(connection)
    is_complete = not (is_enabled and definitions.find_missing(connection))
    consumers: tuple[ListedConsumer, ...] = ()
    with _noting(blockers):
        consumers = _read_consumers(connection, state) if is_enabled else ()
    row = connection.execute(text(_SLOT), {"name": source.slot}).one_or_none()
    return CaptureFacts(
        source=source,
        has_triggers=ddl_triggers.has_triggers(connection),
        slot=SlotFacts(*row) if row is not None else None,
        blockers=tuple(blockers),
        instances=_read_instances(connection, state) if is_enabled and definitions.are_made(connection) else (),
        consumers=consumers,
        is_enabled=is_enabled,
        log_reader=find_holder(connection, "log"),
        state=state,
        members=read_members(connection),
        rules=_read_rules(connection) if is_enabled and is_complete else None,
        new_partitions=partition_truncates.list_new(connection),
        requests=describe_requests(connection) if is_enabled else None,
    )


def read_places(capture: CaptureFacts) -> tuple[Place, ...]:
    """Return what is known of the folders that enabling made."""
    source = capture.source
    log_store = read_place(LOG_STORE, source.log_store, was_made=True)
    return (read_place(LAKE, source.lake, was_made=True), log_store) if capture.is_enabled else (log_store,)


def find_taken_log_store(url: str, server: ServerIdentity) -> tuple[RowtideError, ...]:
    """Return what enable-db would be stopped with by what lies in the log store's folder already."""
    blockers: list[RowtideError] = []
    with _noting(blockers), suppress(ManifestMissing):
        state = load_manifest(url)
        found = (state.source.system_identifier, state.source.slot) if state is not None else None
        wanted = (server.system_identifier, slot.publication_name(server.database_id))
        if found not in (None, wanted):
            raise LogStoreTaken(url, " ".join(found or ()), " ".join(wanted))
    return tuple(blockers)


def load_manifest(url: str) -> ManifestState | None:
    """Read a log store's manifest; None where no folder is to be seen, which is not made. Raises `ManifestMissing`."""
    folder = local_folder(url)
    if folder is not None and not os.path.isdir(folder):
        return None
    return Manifest.open(open_store(url)).state


class KeptManifest:
    """A manifest that is read repeatedly: only new entries, unless the log store was replaced.

    One in a bucket is read as a whole, which takes fewer requests.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._manifest: Manifest | None = None
        self._last_entry: bytes | None = None

    def read(self, url: str) -> ManifestState | None:
        """Read the manifest, as `load_manifest`."""
        # One that cannot be read is read as a whole the next time.
        manifest, self._manifest = self._manifest, None
        folder = local_folder(url)
        if folder is None or not os.path.isdir(folder):
            return load_manifest(url)
        if manifest is None or folder != self._folder or manifest.read_last_entry() != self._last_entry:
            manifest = Manifest.open(open_store(url))
        else:
            manifest.refresh()
        self._folder, self._manifest, self._last_entry = folder, manifest, manifest.read_last_entry()
        return manifest.state


def _read_rules(connection: Connection) -> RuleFacts | None:
    rules = list_rules(connection)
    if not rules:
        return None
    names = tuple(rule.rule_name for rule in rules)
    return RuleFacts(names, joining_triggers.has_triggers(connection), list_failed(connection))


def _read_consumers(connection: Connection, state: ManifestState | None) -> tuple[ListedConsumer, ...]:
    definitions.require_complete(connection)
    reader = state.readers.get(definitions.READER) if state is not None else None
    published_as_of = reader.as_of if reader is not None else None
    listed = make_once("consumers", lambda: list_consumers(connection))
    return tuple(consumer.describe(published_as_of) for consumer in listed)


def _read_instances(connection: Connection, state: ManifestState | None) -> tuple[CapturedInstance, ...]:
    members = state.members if state is not None else ()
    return make_once("instances", lambda: tuple(_list_instances(connection, members)), members)


def _list_instances(connection: Connection, known: Sequence[Member]) -> Iterator[CapturedInstance]:
    members = {member.member_id: member for member in known}
    for member_id, recorded in _list_recorded(connection):
        member = members.get(member_id)
        if member is None:
            yield recorded
        else:
            definition = decode_instance(member.definition)
            yield replace(recorded, definition=definition, read_numbers=member.column_numbers)


def _list_recorded(connection: Connection) -> Iterator[tuple[str, CapturedInstance]]:
    """Yield the instances of the catalogue by their member ids, without what the log reader knows."""
    names = {name: (schema, table) for name, schema, table, *_ in definitions.list_catalogue(connection)}
    present = set(connection.execute(text(_PRESENT)).scalars())
    copied = list_copied(connection)
    for enabled in definitions.list_enabled(connection):
        schema, table = names[enabled.capture_instance]
        yield (
            enabled.member_id,
            CapturedInstance(
                enabled.capture_instance,
                schema,
                table,
                enabled.source_id,
                is_dropped=enabled.source_id not in present,
                definition=None,
                is_copied=enabled.member_id in copied,
            ),
        )


def _find_blockers(
    connection: Connection,
    source: SourceDefinition,
    url: str,
    seen: slot.SlotState | None,
    state: ManifestState | None,
    *,
    may_stream: bool,
) -> list[RowtideError]:
    """Return what the log reader would be stopped with. Where the log store is another's, the rest does not count."""
    blockers: list[RowtideError] = []
    if state is not None and not is_own(source, state.source):
        return [LogStoreMoved(source.log_store, state.source.slot, state.source.system_identifier)]
    difference = find_difference(connection, state) if state is not None else None
    if state is not None and difference is not None:
        return [HistoryDiverged(difference, str(state.position))]
    with _noting(blockers):
        if state is None:
            slot.require_usable(seen, source.slot, _ANY_POSITION)
        else:
            verify_seen_slot(read_server_identity(connection).timeline, seen, source.slot, state)
    with _noting(blockers):
        slot.verify_publication(connection, source)
    if state is not None and may_stream and _needs_history(read_server_identity(connection), state):
        with _noting(blockers):
            _verify_history(url, state)
    return blockers


def _needs_history(server: ServerIdentity, state: ManifestState) -> bool:
    """On the timeline that was read the server's history is that of its log, which was looked at."""
    return server.in_recovery or server.timeline != state.source.timeline


def _verify_history(url: str, state: ManifestState) -> None:
    try:
        with translated():
            stream = ReplicationStream.connect(url, application_name="rowtide check")
    except RowtideError:
        # The server's check reports this where the right is asked for.
        return
    with translated(), closing(stream):
        verify_history(stream, state)


@contextmanager
def _noting(blockers: list[RowtideError]) -> Iterator[None]:
    """Turn one of our errors into a result: one blocker must not hide the others."""
    try:
        yield
    except RowtideError as error:
        blockers.append(error)


_SLOT = """
select slot_name::text, coalesce(wal_status, ''), safe_wal_size,
       case when not pg_is_in_recovery() then (pg_current_wal_lsn() - restart_lsn)::bigint end
from pg_replication_slots
where slot_name = :name and database = current_database()
"""

_PRESENT = "select source_object_id from cdc.change_tables join pg_class c on c.oid = source_object_id"
