"""Move a lake and its log store: copied, then recorded in the database as the places of its source.

Everything that can be copied while capture runs is copied first. Then the move takes the leases of the log and of the
lake, so that no process writes, and copies the rest. The last entry of the old log store says that it is being moved:
from then on entries that need no lease are refused too, so that none is missing in the copy. One transaction then
records the new places.

Until that transaction commits, the old place is valid: a process that takes a lease there cancels the move, and
continues. After that the new place is valid; the old log store's next entry says so, for processes that do not read the
database again. Agents of subscriptions append to the manifest without a lease, and read a log store for weeks.

Until the row names it, the new place has only copies, so a killed move is resumed by comparing. A lake can be moved
back to an earlier folder only after that was removed, since its last entries differ. Capture does not hand over by
itself: stop it before the lake is moved, and start it again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, update

from rowtide.cdc import access, definitions as cdc_definitions
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations, Committing, Rehearsing
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import name_of
from rowtide.log import catalogue
from rowtide.log.catalogue import source_table
from rowtide.log.errors import LogStoreRelocated
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.postgres.provision import take_source
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import Moved
from rowtide.log.store.location import open_own_manifest, open_store, require_own
from rowtide.log.store.manifest import Manifest
from rowtide.relocation.copying import Copied, Copying, OnProgress, plan_copy
from rowtide.relocation.errors import CopyOvertaken, LakeElsewhere
from rowtide.relocation.portions import LakePlace, is_same
from rowtide.relocation.survey import open_files

_LEASE_PATIENCE_S = 2.0
"""The time for the server to end the session of a process that is gone; a running process is not waited for."""


@frozen
class _Move:
    """The source and the target of a move; `was_recorded`: the database names the new place already."""

    definition: SourceDefinition
    source: LakePlace
    target: LakePlace
    was_recorded: bool

    @property
    def keeps_log_store(self) -> bool:
        return is_same(self.source.log_store, self.target.log_store)


def switch_lake(
    engine: Engine,
    url: str,
    source: LakePlace,
    lake: str,
    log_store: str | None = None,
    *,
    for_group: bool = False,
    on_progress: OnProgress = lambda _progress: None,
) -> Copied | None:
    """Move a database's lake and log store to another place; return None if an earlier run did.

    A repeat completes an interrupted run.
    A log store outside the lake stays where it is, unless `log_store` says where it goes. Raises `LakeElsewhere` if the
    database uses another lake, `LeaseHeld` while a process captures or reads the log, `DatabaseNotEnabled`, `NotOwner`,
    `HistoryDiverged`, and as `copy_lake`.
    """
    move = _find(engine, url, source, lake, log_store)
    if move.was_recorded:
        _close(move)
        return None
    if _was_closed(move):
        with _leases(engine):
            require_own(move.definition, Manifest.open(open_store(move.target.log_store)).state.source)
            _record(Committing(engine), move)
        return None
    copying = Copying(move.source, move.target, on_progress)
    copying.begin(for_group=for_group)
    # Most files are copied while everything runs, so that the leases are held only for files written meanwhile.
    with suppress(CopyOvertaken):
        copying.complete()
    with _leases(engine) as connection:
        now = _find(engine, url, source, lake, log_store)
        # Another process may have moved the lake before the leases were taken.
        if now != move:
            raise LakeElsewhere(name_of(url), now.source.lake, source.lake, lake)
        manifest = open_own_manifest(move.definition)
        verify_provenance(connection, manifest)
        copied = _copy_rest(move, manifest, copying)
        failpoint("lake_switch.before")
        _record(Committing(engine), move)
        failpoint("lake_switch.after")
        # After the database names the new place, so that a process which still opens the old log store is referred to
        # the new one.
        _close(move, is_ours=True)
        copying.verified.forget()
    return copied


def rehearse_switch(
    alterations: Rehearsing, url: str, source: LakePlace, lake: str, log_store: str | None = None
) -> Copied | None:
    """Rehearse `switch_lake`: nothing is copied; return what would be. Raises as that does, but `LeaseHeld`."""
    move = alterations.transact(lambda connection: _find_on(connection, url, source, lake, log_store))
    if move.was_recorded:
        return None
    planned = plan_copy(move.source, move.target)
    _record(alterations, move)
    return planned


def _find(engine: Engine, url: str, source: LakePlace, lake: str, log_store: str | None) -> _Move:
    with translated(), engine.connect() as connection:
        return _find_on(connection, url, source, lake, log_store)


def _find_on(connection: Connection, url: str, source: LakePlace, lake: str, log_store: str | None) -> _Move:
    definition = catalogue.read_source(connection, url)
    if cdc_definitions.are_made(connection):
        access.require_owner(connection, name_of(url))
    recorded = LakePlace(definition.lake, definition.log_store)
    if is_same(recorded.lake, LakePlace.of(lake).lake):
        return _Move(definition, source, recorded, was_recorded=True)
    if not is_same(recorded.lake, source.lake):
        raise LakeElsewhere(name_of(url), recorded.lake, source.lake, lake)
    if log_store is None and not recorded.is_log_store_inside:
        log_store = recorded.log_store
    return _Move(definition, recorded, LakePlace.of(lake, log_store), was_recorded=False)


@contextmanager
def _leases(engine: Engine) -> Iterator[Connection]:
    """Hold the leases without which no process captures, reads the log, or alters the source."""
    with ExitStack() as stack:
        lake = stack.enter_context(AdvisoryLease.take(engine, "lake", patience_s=_LEASE_PATIENCE_S))
        stack.enter_context(AdvisoryLease.take(engine, "log", patience_s=_LEASE_PATIENCE_S))
        stack.enter_context(take_source(engine))
        with translated():
            yield lake.connection


def _copy_rest(move: _Move, manifest: Manifest, copying: Copying) -> Copied:
    """Copy what is missing while no process writes, up to the entry that says so."""
    while True:
        # Writes of a process that has lost its lease are refused by their tokens.
        manifest.take_lease("lake", describe_holder())
        token = manifest.take_lease("log", describe_holder())
        version = manifest.state.version
        copied = copying.complete(reads_copy=False)
        if move.keeps_log_store:
            return copied
        failpoint("log_store_closing.before")
        if manifest.append_after(version, _moved(move, token, is_recorded=False)):
            failpoint("log_store_closing.after")
            return copied


def _record(alterations: Alterations, move: _Move) -> None:
    """Record the new places in one transaction: the move has happened when it commits."""
    is_it = source_table.c.source_id == move.definition.source_id
    places = {"lake": move.target.lake, "log_store": move.target.log_store}
    step = update(source_table).where(is_it).values(**places)
    alterations.transact(lambda connection: connection.execute(step))


def _was_closed(move: _Move) -> bool:
    """Return whether the old log store was moved to this target: the database was restored to a state before that."""
    try:
        Manifest.find(open_files(move.source.log_store))
    except LogStoreRelocated as error:
        if not is_same(error.log_store, move.target.log_store):
            raise
        return True
    return False


def _close(move: _Move, *, is_ours: bool = False) -> None:
    """Let the old log store say that it was moved, unless it does or is gone; `is_ours`: this run has moved it."""
    if move.keeps_log_store:
        return
    with suppress(LogStoreRelocated):
        manifest = Manifest.find(open_files(move.source.log_store))
        if manifest is None:
            return
        begun = manifest.state.new_place
        if is_ours or (begun is not None and is_same(begun.log_store, move.target.log_store)):
            token = (
                manifest.take_lease("log", describe_holder()) if begun is None else manifest.state.leases["log"].token
            )
            manifest.append(_moved(move, token, is_recorded=True))


def _moved(move: _Move, token: int, *, is_recorded: bool) -> Moved:
    return Moved(
        token=token,
        lake=move.target.lake,
        log_store=move.target.log_store,
        moved_at=datetime.now(UTC),
        is_recorded=is_recorded,
    )
