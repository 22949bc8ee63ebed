"""Money moved between accounts by concurrent sessions, each transfer with a row that says so.

What a reader of a subscriber sees at any moment must be the sum of the first transfers, in the order of their commits.
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from builders.threads import in_thread

ACCOUNTS, MONEY = 20, 1000
DEFINITIONS = (
    "create table account (id int primary key, balance int not null)",
    "create table transfer (id int primary key, giver int not null, taker int not null, amount int not null)",
)
FIRST_ROWS = f"insert into account values {', '.join(f'({number}, {MONEY})' for number in range(1, ACCOUNTS + 1))}"
"""For the publisher and each subscriber."""

Balances = dict[int, int]
Moved = dict[int, tuple[int, int, int]]


@contextmanager
def transfers(url: str, *, first: int, seed: int) -> Iterator[None]:
    """Move money until the block ends, from a session of its own; some transfers are rolled back."""

    def move(is_over: threading.Event) -> None:
        chosen = random.Random(seed)
        with psycopg.connect(url) as session:
            number = first
            while not is_over.is_set():
                giver, taker = sorted(chosen.sample(range(1, ACCOUNTS + 1), 2))
                amount = chosen.randint(-50, 50)
                session.execute("update account set balance = balance - %s where id = %s", [amount, giver])
                session.execute("update account set balance = balance + %s where id = %s", [amount, taker])
                session.execute("insert into transfer values (%s, %s, %s, %s)", [number, giver, taker, amount])
                if chosen.random() < 0.1:
                    session.rollback()
                else:
                    session.commit()
                number += 1

    with in_thread(move):
        yield


def read_state(url: str) -> tuple[Balances, Moved]:
    """Return a database's balances and transfers, of one moment."""
    with psycopg.connect(url) as session:
        session.execute("set transaction isolation level repeatable read")
        balances: Balances = dict(session.execute("select id, balance from account").fetchall())
        moved: Moved = {row[0]: row[1:] for row in session.execute("table transfer").fetchall()}
    return balances, moved


def read_file(path: Path) -> tuple[Balances, Moved]:
    """As above, of a file."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as session:
        session.execute("begin")
        balances: Balances = dict(session.execute("select id, balance from account").fetchall())
        moved: Moved = {row[0]: row[1:] for row in session.execute("select * from transfer").fetchall()}
    return balances, moved


def require_sum(balances: Balances, moved: Moved) -> None:
    """The balances are what those transfers come to."""
    expected = dict.fromkeys(range(1, ACCOUNTS + 1), MONEY)
    for giver, taker, amount in moved.values():
        expected[giver] -= amount
        expected[taker] += amount
    assert balances == expected


@dataclass
class Sightings:
    """The transfers that a subscriber showed, each time that it was looked at."""

    seen: list[set[int]] = field(default_factory=lambda: [set()])

    def add(self, balances: Balances, moved: Moved) -> bool:
        """Take note of what was seen at one moment; return whether there was anything new."""
        require_sum(balances, moved)
        self.seen.append(set(moved))
        return len(self.seen[-1]) > len(self.seen[-2])

    def require_prefixes(self, inserted: Iterable[str | None]) -> None:
        """Each sighting has the first of the log's transfers, none missing and none behind; the last has all."""
        by_commit = [int(number) for number in inserted if number is not None]
        assert len(by_commit) == len(set(by_commit))
        for moved in self.seen:
            assert moved == set(by_commit[: len(moved)])
        assert len(self.seen[-1]) == len(by_commit) > 0
