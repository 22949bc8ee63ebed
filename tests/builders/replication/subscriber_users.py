"""Programs that work at a subscriber: they hold locks of rows and tables that an agent needs, and wait for its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

_TABLES = """
select c.oid::regclass::text from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
where nspname = 'public' and relkind in ('r', 'p') order by 1
"""
_GONE = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.FeatureNotSupported)
"""A table that an agent has altered in between."""


class SubscriberUser:
    """A program in a thread: it locks rows of tables one after the other, in any order, and holds them for a while."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._chosen = random.Random(seed)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.failures: list[psycopg.Error] = []
        self.transactions = 0
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                # On a busy machine the agent is not to be late.
                with psycopg.connect(self._url, options="-c deadlock_timeout=20s") as connection:
                    self._work(connection)
                self.transactions += 1
            except _GONE:
                continue
            except psycopg.OperationalError as error:
                # Among them deadlocks.
                self.failures.append(error)

    def _work(self, connection: psycopg.Connection) -> None:
        tables = [str(name) for (name,) in connection.execute(_TABLES).fetchall()]
        for _ in range(self._chosen.randint(1, 3)):
            name = self._chosen.choice(tables)
            place = self._chosen.randint(0, 12)
            connection.execute(f"select from {name} offset {place} limit 2 for update".encode())
            self._is_over.wait(self._chosen.choice([0, 0.05, 0.4]))
        if self._chosen.random() < 0.1:
            connection.execute(f"lock table {self._chosen.choice(tables)} in share mode".encode())
            self._is_over.wait(0.2)


@contextmanager
def users_at_work(urls: list[str], chosen: random.Random) -> Iterator[list[SubscriberUser]]:
    """Let a user work at each subscriber. None may have lost against an agent."""
    users = [SubscriberUser(url, chosen.randrange(1 << 30)) for url in urls]
    try:
        yield users
    finally:
        for user in users:
            user.stop()
    failures = [error for user in users for error in user.failures]
    assert not failures, failures
