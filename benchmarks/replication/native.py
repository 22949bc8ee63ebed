"""PostgreSQL's own subscriptions, beside ours on the same server."""

from __future__ import annotations

from benchmarks.replication.publisher import Publisher

NATIVE = "PostgreSQL's subscription"


def subscribe(publisher: Publisher, database: str, *, is_enabled: bool = False) -> None:
    """Let a database have all that commits from now on, once it is enabled.

    The slot is made by itself: `create subscription` would wait for its own transaction, in the same cluster.
    """
    publisher.query("postgres", f"select pg_create_logical_replication_slot('{database}', 'pgoutput')")
    server = publisher.source.server.environment()
    address = f"host={server['PGHOST']} port={server['PGPORT']} user={server['PGUSER']} dbname=postgres"
    options = f"create_slot = false, slot_name = '{database}', copy_data = false, enabled = {is_enabled}"
    publisher.query(
        database, f"create subscription {database} connection '{address}' publication native with ({options})"
    )


def enable(publisher: Publisher, database: str) -> None:
    """Begin to deliver."""
    publisher.query(database, f"alter subscription {database} enable")


def drop(publisher: Publisher, database: str) -> None:
    """End a subscription, and its slot."""
    publisher.query(database, f"drop subscription {database}")
