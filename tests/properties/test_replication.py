"""Whatever is written, altered and killed, each subscriber shows the tables as one transaction left them."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.replicated_databases import ReplicatedDatabase
from builders.replication_machines import ReplicationMachine

LONG = [pytest.param(seed, 60, marks=pytest.mark.soak) for seed in range(100)]
OFTEN = [pytest.param(seed, 25, marks=pytest.mark.exhaustive) for seed in range(200, 216)]


@pytest.mark.parametrize(("seed", "steps"), [(0, 8), *OFTEN, *LONG])
def test_subscribers_show_what_a_transaction_left(
    replicated: ReplicatedDatabase, tmp_path: Path, seed: int, steps: int
) -> None:
    subscribers = [replicated.subscriber.url, f"sqlite:///{tmp_path / 'copy.db'}"]
    ReplicationMachine(replicated.publisher, subscribers, seed).run(steps)
