"""Subscriptions live through idle time, restarts, kills, pauses and others' snapshots."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from builders.replication.subscription_machines import Subscriptions
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.replication.distribution import reader_entry


@pytest.mark.timeout(5400)
@pytest.mark.parametrize(
    ("name", "examples"),
    [
        pytest.param("server", 2, marks=pytest.mark.exhaustive),
        pytest.param("server", 200, marks=pytest.mark.soak),
        pytest.param("server_16", 200, marks=pytest.mark.soak),
    ],
)
def test_nothing_that_an_agent_lives_through_ends_it(
    name: str, examples: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_entry, "_ADVANCE_S", 0.0)
    server: EmbeddedServer = request.getfixturevalue(name)
    machine = type("SubscriptionsThere", (Subscriptions,), {"server": server})
    # A step takes a second: what it finds is told as it is.
    phases = (Phase.explicit, Phase.generate)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=12, deadline=None, phases=phases)
    )
