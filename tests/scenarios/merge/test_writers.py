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

from builders.merge.merged_databases import FileMember, Member, Merge
from rowtide.merge.errors.nodes import NodeBusy

TASK = "create table task (id integer primary key, value integer)"
KEYS = 20
"""Each writer has keys of its own, so that there are no conflicts: whatever differs in the end was missed."""

ROUNDS = 6
"""Synchronisations that end while the programs write, at least: a slow machine writes for longer than was asked."""


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


def write_to_file(member: Member, writer: int, ended: threading.Event) -> None:
    chance = random.Random(writer)
    with closing(sqlite3.connect(Path(member.url.removeprefix("sqlite:///")), isolation_level=None, timeout=30)) as own:
        while not ended.is_set():
            own.execute("begin immediate")
            for statement in statements(chance, writer):
                own.execute(statement)
            time.sleep(chance.random() * 0.005)
            own.execute("rollback" if chance.random() < 0.1 else "commit")
            time.sleep(chance.random() * 0.02)


def write_to_server(member: Member, writer: int, ended: threading.Event) -> None:
    chance = random.Random(writer)
    with psycopg.connect(member.url) as own:
        while not ended.is_set():
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
    ended, failed = threading.Event(), []

    def work(member: Member, writer: int) -> None:
        try:
            write = write_to_file if isinstance(member, FileMember) else write_to_server
            write(member, writer, ended)
        except Exception as error:  # noqa: BLE001 - told below, by the test itself
            failed.append(error)

    writers = [
        threading.Thread(target=work, args=(member, 3 * number + each))
        for number, member in enumerate(merged.members)
        for each in range(1, 4)
    ]
    for writer in writers:
        writer.start()
    until, rounds = time.monotonic() + seconds, 0
    while (time.monotonic() < until or rounds < ROUNDS) and not failed:
        for number in range(len(merged.subscribers)):
            try:
                merged.sync(number)
            except NodeBusy:
                continue
            rounds += 1
    ended.set()
    for writer in writers:
        writer.join()
    merged.settle(3)

    assert failed == []
    merged.require_equal("task", columns="id, value")
    assert len(merged.hub.rows("task")) > KEYS
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())
