"""Opening the log reader: the log lease, then the log from the manifest's position."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.log.batches import ReadingPace
from rowtide.log.catalogue import read_source
from rowtide.log.errors import LeaseHeld
from rowtide.log.log_source import SelectableEvent
from rowtide.log.postgres import table_publications
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.postgres.log_source import PostgresSource
from rowtide.log.postgres.provenance import verify_provenance, verify_slot_on
from rowtide.log.postgres.restricted_reading import LogAccess
from rowtide.log.reader import LogReader
from rowtide.log.store.entries import EntryExchange
from rowtide.log.store.location import open_own_manifest, open_store
from rowtide.log.store.maintenance import delete_orphans

# The first for a log reader that is ending; the second for one try of a standby, which is repeated until `stop` is set.
_LEASE_PATIENCE_S = 10.0
_STAND_BY_S = 1.0


@contextmanager
def open_log_reader(
    url: str,
    stop: SelectableEvent | None = None,
    exchange: EntryExchange | None = None,
    pace: ReadingPace | None = None,
) -> Iterator[LogReader]:
    """Take the log lease and open the log from the manifest's position. Raises `LeaseHeld`.

    One process reads the log for all features. With `stop`, this one is a standby while another process holds the
    lease, until `stop` is set. `exchange` and `pace` belong to the process for which the log is read.
    """
    engine = open_engine(url, application_name=f"rowtide log reader on {describe_holder()}")
    with _take_lease(engine, stop) as lease:
        with translated():
            definition = read_source(lease.connection, url)
        store = open_store(definition.log_store)
        manifest = open_own_manifest(definition, store)
        with translated():
            # A copy of the server must not take over the original's log store.
            server = verify_provenance(lease.connection, manifest)
            verify_slot_on(server.timeline, lease.connection, definition.slot, manifest.state)
        table_publications.ensure_made(engine, lease.connection, definition)
        token = manifest.take_lease("log", describe_holder(), verify=lease.verify)
        # The process that holds the lease by now may have moved the log store before it read this token.
        lease.verify()
        delete_orphans(store, manifest, token)
        if exchange is not None:
            manifest.attach(exchange)
        source = PostgresSource.open(LogAccess(url, lease.connection, definition, manifest, token, stop))
        with LogReader(source, store, manifest, token, pace) as reader:
            yield reader


def _take_lease(engine: Engine, stop: SelectableEvent | None) -> AdvisoryLease:
    while True:
        try:
            return AdvisoryLease.take(engine, "log", patience_s=_LEASE_PATIENCE_S if stop is None else _STAND_BY_S)
        except LeaseHeld:
            if stop is None or stop.is_set():
                raise
