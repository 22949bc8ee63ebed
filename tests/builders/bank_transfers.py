"""Money moved between accounts by concurrent sessions, each transfer with a row that says so.

Whoever reads accounts and transfers at any moment must find the sum of the transfers that are there.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

ACCOUNTS, MONEY = 20, 1000
DEFINITIONS = (
    "create table account (id int primary key, balance int not null)",
    "create table transfer (id int primary key, giver int not null, taker int not null, amount int not null)",
    f"insert into account select i, {MONEY} from generate_series(1, {ACCOUNTS}) i",
)

Balances = dict[int, int]


@contextmanager
def transfers(url: str, *, first: int, seed: int) -> Iterator[None]:
    """Move money until the block ends, from a session of its own; some transfers are rolled back."""
    is_over = threading.Event()

    def move() -> None:
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

    writer = threading.Thread(target=move)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()


def read_state(url: str) -> tuple[Balances, dict[int, tuple[int, int, int]]]:
    """Return balances and transfers, of one moment."""
    with psycopg.connect(url) as session:
        session.execute("set transaction isolation level repeatable read")
        balances: Balances = dict(session.execute("select id, balance from account").fetchall())
        moved = {row[0]: row[1:] for row in session.execute("table transfer").fetchall()}
    return balances, moved


def require_sum(balances: Balances, moved: dict[int, tuple[int, int, int]]) -> None:
    expected = dict.fromkeys(range(1, ACCOUNTS + 1), MONEY)
    for giver, taker, amount in moved.values():
        expected[giver] -= amount
        expected[taker] += amount
    assert balances == expected
