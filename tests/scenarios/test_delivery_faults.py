"""Delivery killed anywhere, under load: a subscriber shows what the publisher committed, in its order, each once.

Money is moved between accounts by concurrent sessions, each transfer with a row that says so. What a reader of the
subscriber sees at any moment must be the sum of the first transfers, in the order of their commits.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from builders.capture_processes import CaptureProcess
from builders.captured_databases import wait_until
from builders.failpoints import DELIVERY_FAILPOINTS
from builders.replicated_databases import ReplicatedDatabase

ACCOUNTS, MONEY = 20, 1000
RUN = ("replication", "run")
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


def test_whatever_is_killed_a_subscriber_shows_what_was_committed_in_order_and_once(
    replicated: ReplicatedDatabase, tmp_path: Path
) -> None:
    replicated.begin(*DEFINITIONS, account={}, transfer={})
    url, seen = replicated.publisher.url, [set[int]()]

    def look() -> bool:
        """Return whether there is anything new."""
        balances, moved = read_state(replicated.subscriber.url)
        require_sum(balances, moved)
        seen.append(set(moved))
        return len(seen[-1]) > len(seen[-2])

    with transfers(url, first=0, seed=1), transfers(url, first=1_000_000, seed=2):
        for failpoint in DELIVERY_FAILPOINTS:
            with CaptureProcess(url, tmp_path, RUN) as process:
                process.arm(failpoint)
                process.wait_killed()
                look()
        with CaptureProcess(url, tmp_path, RUN):
            wait_until(look, what="transfers after all kills")
    replicated.deliver()
    look()

    replicated.require_equal("account", "transfer")
    by_commit = [int(number) for number in replicated.publisher.inserted() if number is not None]
    assert len(by_commit) == len(set(by_commit))
    for moved in seen:
        # A prefix: nothing of it is missing, nothing behind it is there.
        assert moved == set(by_commit[: len(moved)])
    assert len(seen[-1]) == len(by_commit) > 0
