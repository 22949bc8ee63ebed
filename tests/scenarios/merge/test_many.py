"""Many devices that synchronise with one hub at the same time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge, open_file_member, open_server_member
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.merge.errors.nodes import NodeBusy

TASK = "create table task (id integer primary key, owner integer, state varchar(9), done integer)"
TABLE_COLUMNS = "id, owner, state, done"
WORKERS, MOST_TRIES = 8, 20


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.live)])
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Member]:
    with ExitStack() as opened:
        if request.param == "file":
            yield opened.enter_context(open_file_member(tmp_path / "hub.db"))
            return
        server: EmbeddedServer = request.getfixturevalue("server")
        yield opened.enter_context(open_server_member(opened.enter_context(fresh_database(server))))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "devices",
    [
        6,
        pytest.param(50, marks=pytest.mark.exhaustive),
        pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_many_devices_come_to_the_same_rows(hub: Member, tmp_path: Path, devices: int) -> None:
    hub.execute(TASK, "insert into task values (1, 0, 'new', 0), (2, 0, 'new', 0), (3, 0, 'new', 0)")
    with ExitStack() as opened:
        members = [opened.enter_context(open_file_member(tmp_path / f"{number}.db")) for number in range(devices)]
        merged = Merge(hub, members)
        merged.begin(task={"column_tracking": True, "resolver": "additive:done"})
        chance = random.Random(devices)
        added = 0
        for _ in range(2):
            for number, member in enumerate(members):
                added += work(chance, member, number)
            hub.execute("update task set state = 'seen' where id = 1")
            synchronise(merged, range(devices))
        synchronise(merged, range(devices))
        synchronise(merged, range(devices))

        merged.require_equal("task", columns=TABLE_COLUMNS)
        assert len(hub.rows("task")) == 3 + 2 * devices
        [(done,)] = hub.execute("select sum(done) from task where id <= 3")
        assert done == added
        assert all(summary.is_quiet for summary in merged.settle(1))


def work(chance: random.Random, member: FileMember, number: int) -> int:
    """Let a device add a task of its own, and count on a shared one; return by how much."""
    added = chance.randint(1, 5)
    [(last,)] = member.execute("select count(*) from task")
    member.execute(
        f"insert into task (id, owner, state, done) values ({1000 * (number + 1) + last}, {number}, 'own', 0)",
        f"update task set done = done + {added} where id = {chance.randint(1, 3)}",
    )
    return added


def synchronise(merged: Merge, numbers: range) -> None:
    """Synchronise devices, several at a time, each again where the hub was busy."""

    def one(number: int) -> None:
        url = merged.subscribers[number].url
        for attempt in range(MOST_TRIES):
            try:
                merged.merge.sync(PUBLICATION, url)
            except NodeBusy:
                if attempt == MOST_TRIES - 1:
                    raise
            else:
                return

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(one, numbers))
