"""Whatever is written, altered and killed, each subscriber shows the tables as one transaction left them."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from builders.replication.replication_machines import KilledDatabases, ReplicationMachine
from builders.replication.subscriber_looks import At

LONG = [pytest.param(seed, 60, marks=pytest.mark.soak) for seed in range(100)]
OFTEN = [pytest.param(seed, 25, marks=pytest.mark.exhaustive) for seed in range(200, 216)]
LONG_WITH_KILLS = [pytest.param(seed, 60, marks=pytest.mark.soak) for seed in range(300, 340)]


@pytest.mark.parametrize(("seed", "steps"), [(0, 8), *OFTEN, *LONG])
def test_subscribers_show_what_a_transaction_left(
    replicated: ReplicatedDatabase, tmp_path: Path, seed: int, steps: int
) -> None:
    subscribers = [At(replicated.subscriber.url), At(f"sqlite:///{tmp_path / 'copy.db'}")]
    ReplicationMachine(replicated.publisher, subscribers, seed).run(steps)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("seed", "steps"), [(0, 25), (1, 25), (2, 25), (3, 25), *LONG_WITH_KILLS])
def test_they_do_when_whole_servers_are_killed(killed: KilledDatabases, seed: int, steps: int) -> None:
    ReplicationMachine.on(killed, seed).run(steps)
