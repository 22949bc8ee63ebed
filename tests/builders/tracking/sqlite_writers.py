"""Programs that write to a SQLite file and know nothing of rowtide: run as processes of their own."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

KEYS = 200


def start_writer(path: Path, *, seconds: float, seed: int) -> subprocess.Popen[bytes]:
    """Start a program that writes to the table `t (id, name, qty)` of a file."""
    return subprocess.Popen([sys.executable, __file__, str(path), str(seconds), str(seed)])


@contextmanager
def writing(path: Path, *, seconds: float, seeds: Sequence[int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Let programs write for some time; kill those that have not ended."""
    writers = [start_writer(path, seconds=seconds, seed=seed) for seed in seeds]
    try:
        yield writers
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


def was_killed(writer: subprocess.Popen[bytes]) -> bool:
    """Whether a program ended by a kill; raises if it failed on its own."""
    code = writer.wait()
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def _write(path: str, seconds: float, seed: int) -> None:
    chance = random.Random(seed)
    program = sqlite3.connect(path, isolation_level=None, timeout=60)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        _transact(program, chance)
    program.close()


def _transact(program: sqlite3.Connection, chance: random.Random) -> None:
    program.execute("begin immediate")
    for _ in range(chance.randint(1, 20)):
        _change(program, chance)
    if program.in_transaction:
        program.execute(chance.choice(["commit", "commit", "commit", "rollback"]))


def _change(program: sqlite3.Connection, chance: random.Random) -> None:
    key, name, qty = chance.randint(1, KEYS), f"name {chance.randint(1, KEYS)}", chance.randint(1, 1000)
    policy = chance.choice(["", "or replace", "or ignore", "or fail"])
    statements = [
        (f"insert {policy} into t (id, name, qty) values (?, ?, ?)", (key, name, qty)),
        (f"update {policy} t set name = ?, qty = ? where id = ?", (name, qty, key)),
        (f"update {policy} t set id = ? where id = ?", (chance.randint(1, KEYS), key)),
        ("update t set qty = qty + 1 where id between ? and ?", (key, key + 5)),
        ("delete from t where id = ?", (key,)),
    ]
    statement, values = chance.choice(statements)
    try:
        program.execute(statement, values)
    except sqlite3.IntegrityError:
        return  # a name or a key was taken, and the policy is to refuse it


if __name__ == "__main__":
    _write(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
