"""Programs that write all the time, with transactions of any length, while nodes synchronise: nothing is missed."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from builders.merged_databases import FileMember, Member, Merge
from rowtide.merge.errors import NodeBusy

TASK = "create table task (id integer primary key, value integer)"
KEYS = 20
"""Each writer has keys of its own, so that there are no conflicts: whatever differs in the end was missed."""


def statements(chance: random.Random, writer: int) -> list[str]:
    """Return what a transaction does to one writer's keys."""
    found = []
    for _ in range(chance.randint(1, 4)):
        key = 1000 * writer + chance.randrange(KEYS)
        if chance.random() < 0.2:
            found.append(f"delete from task where id = {key}")
        else:
            found.append(
                f"insert into task (id, value) values ({key}, {chance.randrange(10**6)}) "
                "on conflict (id) do update set value = excluded.value"
            )
    return found


def write_to_file(member: Member, writer: int, until: float) -> None:
    chance = random.Random(writer)
    with closing(sqlite3.connect(Path(member.url.removeprefix("sqlite:///")), isolation_level=None, timeout=30)) as own:
        while time.monotonic() < until:
            own.execute("begin immediate")
            for statement in statements(chance, writer):
                own.execute(statement)
            time.sleep(chance.random() * 0.005)
            own.execute("rollback" if chance.random() < 0.1 else "commit")
            time.sleep(chance.random() * 0.02)


def write_to_server(member: Member, writer: int, until: float) -> None:
    chance = random.Random(writer)
    with psycopg.connect(member.url) as own:
        while time.monotonic() < until:
            for statement in statements(chance, writer):
                own.execute(statement.encode())
                time.sleep(chance.random() * 0.02)
            own.rollback() if chance.random() < 0.1 else own.commit()


@pytest.mark.parametrize(
    "seconds",
    [
        2,
        pytest.param(5, marks=pytest.mark.exhaustive),
        pytest.param(120, marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_nothing_is_missed_while_programs_write(merged: Merge, seconds: int) -> None:
    merged.begin(TASK, task={})
    until, failed = time.monotonic() + seconds, []

    def work(member: Member, writer: int) -> None:
        try:
            write = write_to_file if isinstance(member, FileMember) else write_to_server
            write(member, writer, until)
        except Exception as error:  # noqa: BLE001 - told below, by the test itself
            failed.append(error)

    writers = [
        threading.Thread(target=work, args=(member, 3 * number + each))
        for number, member in enumerate(merged.members)
        for each in range(1, 4)
    ]
    for writer in writers:
        writer.start()
    rounds = 0
    while any(writer.is_alive() for writer in writers):
        for number in range(len(merged.subscribers)):
            try:
                merged.sync(number)
            except NodeBusy:
                continue
            rounds += 1
    for writer in writers:
        writer.join()
    merged.settle(3)

    assert failed == []
    assert rounds > 2
    merged.require_equal("task", columns="id, value")
    assert len(merged.hub.rows("task")) > KEYS
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())
