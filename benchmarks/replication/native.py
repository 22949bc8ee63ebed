"""PostgreSQL's own subscriptions, beside ours on the same server."""

from __future__ import annotations

from benchmarks.replication.publisher import Publisher, await_fact

NATIVE = "PostgreSQL's subscription"


def subscribe(publisher: Publisher, database: str, *, is_enabled: bool = False, port: int | None = None) -> None:
    """Let a database have all that commits from now on, once it is enabled; `port` of 127.0.0.1 leads to the publisher.

    The slot is made by itself: `create subscription` would wait for its own transaction, in the same cluster.
    """
    publisher.query("postgres", f"select pg_create_logical_replication_slot('{database}', 'pgoutput')")
    server = publisher.source.server.environment()
    host = f"host={server['PGHOST']} port={server['PGPORT']}" if port is None else f"host=127.0.0.1 port={port}"
    address = f"{host} user={server['PGUSER']} dbname=postgres sslmode=disable gssencmode=disable"
    options = f"create_slot = false, slot_name = '{database}', copy_data = false, enabled = {is_enabled}"
    publisher.query(
        database, f"create subscription {database} connection '{address}' publication native with ({options})"
    )


def enable(publisher: Publisher, database: str) -> None:
    """Begin to deliver."""
    publisher.query(database, f"alter subscription {database} enable")


def disable(publisher: Publisher, database: str) -> None:
    """Pause delivery, once its worker has ended."""
    publisher.query(database, f"alter subscription {database} disable")
    ended = f"select not exists (select from pg_stat_subscription where subname = '{database}' and pid is not null)"
    await_fact(lambda: bool(publisher.query(database, ended)[0]), f"{database} has no worker")


def drop(publisher: Publisher, database: str) -> None:
    """End a subscription, and its slot."""
    publisher.query(database, f"drop subscription {database}")
