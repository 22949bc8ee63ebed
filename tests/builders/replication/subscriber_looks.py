"""What each transaction of a publisher left, and whether a subscriber shows that."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg

from builders.replication.published_tables import PublishedTable, Rows, Session

COMMITS = "commits"
"""A published table with a row for each transaction: the largest number tells what a subscriber has."""
_NUMBER = f"select coalesce(max(n), 0) from {COMMITS}"
_WHOLE = 'select from rowtide_subscriber."MSreplication_subscriptions" for update'
"""Waits for streams whose batch is being committed, and keeps the next one away."""

Read = Callable[[str], Rows]


@dataclass(frozen=True)
class At:
    """A subscriber: its database, and whether it had the tables before."""

    url: str
    keeps: bool = False

    @property
    def is_file(self) -> bool:
        return self.url.startswith("sqlite")


@dataclass(frozen=True)
class Shown:
    """A table as a transaction left it: what shows its published columns, and its rows as texts."""

    table: PublishedTable
    query: str
    at_files: str
    places: Sequence[int]
    """Of the columns that files show alike."""
    rows: Rows


def _connect(subscriber: At) -> psycopg.Connection[Any]:
    # On a busy machine the agent looks for deadlocks too late for a program that looks after a second.
    return psycopg.connect(subscriber.url, options="-c deadlock_timeout=20s")


class Looks:
    """The states of the publisher, by the numbers of its transactions."""

    def __init__(self, is_comparable: Callable[[str], bool]) -> None:
        """`is_comparable`: whether values of a type are shown alike by a SQLite file."""
        self._is_comparable = is_comparable
        self._states: dict[int, Sequence[Shown]] = {}
        self._seen = 0
        self.last = 0
        """The number of the last transaction."""

    def note(self, connection: Session, tables: Sequence[PublishedTable]) -> None:
        """Number a transaction, and note what it leaves."""
        self.last += 1
        connection.execute(f"insert into {COMMITS} values ({self.last})".encode())
        self._states[self.last] = [self._show(connection, table) for table in tables]

    def forget_earlier(self) -> None:
        """Keep the last state alone."""
        self._states = {self.last: self._states[self.last]}

    def look(self, subscriber: At, *, is_divided: bool) -> int:
        """Compare a subscriber with what the transaction left that it has last; return the transaction's number.

        `is_divided`: batches are committed by several streams, and whole in between.
        """
        if subscriber.is_file:
            with closing(sqlite3.connect(subscriber.url.removeprefix("sqlite:///"), isolation_level=None)) as file:
                file.execute("begin")
                return self._compare(lambda query: file.execute(query).fetchall(), is_file=True)
        while True:
            with _connect(subscriber) as holder, _connect(subscriber) as session:
                if is_divided:
                    holder.execute(_WHOLE.encode())
                session.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                try:
                    return self._compare(lambda query: session.execute(query.encode()).fetchall(), is_file=False)
                except (AssertionError, psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
                    session.rollback()
                    # An older snapshot is not spared what is altered and truncated meanwhile.
                    if session.execute(_NUMBER.encode()).fetchone() == (self._seen,):
                        raise

    def _compare(self, read: Read, *, is_file: bool) -> int:
        number: int = read(_NUMBER)[0][0]
        self._seen = number
        for left in self._states.get(number, ()):
            # Rows that are being copied are of several moments.
            if left.table.is_whole and (left.places or not is_file):
                query, rows = left.query, list(left.rows)
                if is_file:
                    query, rows = left.at_files, [tuple(row[place] for place in left.places) for row in rows]
                shown = read(query)
                assert shown == rows, f"{number}: {query}: {set(shown) ^ set(rows) or (shown, rows)}"
        return number

    def _show(self, connection: Session, table: PublishedTable) -> Shown:
        names = table.published
        alike = [place for place, name in enumerate(names) if self._is_comparable(table.columns[name])]
        rows = connection.execute(table.select_published().encode()).fetchall()
        return Shown(table, table.select(names), table.select([names[place] for place in alike]), alike, rows)
