"""Readers of the log store, by which it keeps what a subscription needs: registered with a new one, paused with it.

How delivery finds and advances its reader is in `distribution.reader_entry`.

Preparing a subscriber takes a while, during which other readers advance and the log store removes what lies behind
them. Therefore a subscription's reader is registered first, and removed if the subscription fails. The next run removes
readers left by a killed process: adding a subscription holds a lock until its record is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.advisory_locks import ADDING_SUBSCRIPTION
from rowtide.databases.postgres.session_settings import require_session
from rowtide.log.errors import IllegalEntry
from rowtide.log.store.entries import ReaderAdvanced, ReaderLeft
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState
from rowtide.replication.distributor import subscription_records


@contextmanager
def keeping(
    connection: Connection, manifest: Manifest, guid: str, find_earliest: Callable[[ManifestState], Position]
) -> Iterator[Position]:
    """Register a reader at the position that `find_earliest` returns, in the transaction that adds the subscription.

    The reader is removed if the block raises; the next run finds out whether a later commit succeeded. If the log store
    removes that position in the meantime, `find_earliest` is called again, and may raise.
    """
    connection.execute(text("select pg_advisory_xact_lock_shared(:class, :key)"), ADDING_SUBSCRIPTION)
    reader = subscription_records.reader_name(guid)
    failpoint("subscription_reader.before")
    position = _register(manifest, reader, find_earliest)
    failpoint("subscription_reader.after")
    try:
        yield position
    except BaseException:
        manifest.append(ReaderLeft(reader))
        raise


def remove_lost_readers(connection: Connection, manifest: Manifest) -> None:
    """Remove the readers whose subscriptions do not exist and are not being added; the connection commits by itself."""
    if not _find_unknown(connection, manifest):
        return
    require_session(connection.connection.driver_connection)
    if not connection.execute(text("select pg_try_advisory_lock(:class, :key)"), ADDING_SUBSCRIPTION).scalar_one():
        return
    try:
        # No subscription is being added any more: what is unknown now stays unknown.
        for reader in _find_unknown(connection, manifest):
            manifest.append(ReaderLeft(reader))
    finally:
        connection.execute(text("select pg_advisory_unlock(:class, :key)"), ADDING_SUBSCRIPTION)


def _register(manifest: Manifest, reader: str, find_earliest: Callable[[ManifestState], Position]) -> Position:
    while True:
        position = find_earliest(manifest.refresh())
        try:
            manifest.append(ReaderAdvanced(reader, position))
        except IllegalEntry:
            if manifest.state.low <= position:
                raise
        else:
            return position


def _find_unknown(connection: Connection, manifest: Manifest) -> list[str]:
    """Return the unknown readers; reads the readers first, so that one registered later is not included."""
    readers = [name for name in manifest.refresh().readers if name.startswith(subscription_records.reader_name(""))]
    known = {subscription.reader for subscription in subscription_records.list_subscriptions(connection)}
    return [name for name in readers if name not in known]
