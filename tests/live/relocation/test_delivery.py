"""Agents of subscriptions, which need no lease, follow a log store that moves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from builders.capture.captured_databases import wait_until
from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.agents.loop import run_agent
from rowtide.core.errors import RowtideError
from rowtide.handle import connect


def test_a_running_agent_goes_on_at_the_new_place(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    publisher, stop, retries = replicated.publisher, threading.Event(), list[int]()
    replicated.begin("create table item (id int primary key)", item={})

    def note(error: RowtideError, _pause_s: float) -> None:
        retries.append(error.number)

    def deliver(key: int) -> None:
        publisher.execute(f"insert into item values ({key})")
        publisher.read_log()
        query = f"select 1 from item where id = {key}"
        wait_until(lambda: bool(replicated.subscriber.execute(query)), what=f"row {key} at the subscriber")

    with ThreadPoolExecutor(1) as pool:
        agent = pool.submit(run_agent, replicated.open_agent, stop=stop, idle_s=0.05, on_retry=note)
        try:
            deliver(1)
            connect(publisher.url).switch_lake(str(publisher.lake), str(tmp_path / "moved"))
            deliver(2)
        finally:
            stop.set()
        agent.result()
    assert set(retries) == {2145}
    replicated.require_equal("item")
