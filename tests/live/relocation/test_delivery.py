"""Agents of subscriptions, which need no lease, follow a log store that moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.replicated_databases import ReplicatedDatabase
from rowtide.core.errors import Remedy
from rowtide.handle import connect
from rowtide.log.errors import LogStoreRelocated


def test_an_agent_follows_the_log_store(replicated: ReplicatedDatabase, tmp_path: Path) -> None:
    replicated.begin("create table item (id int primary key)", item={})
    replicated.publisher.execute("insert into item values (1)")
    replicated.deliver()
    with pytest.raises(LogStoreRelocated) as raised, replicated.open_agent() as agent:
        while agent.step():
            pass
        connect(replicated.publisher.url).switch_lake(str(replicated.publisher.lake), str(tmp_path / "moved"))
        agent.step()
    assert raised.value.remedy is Remedy.REGAIN  # opened again, as below
    replicated.publisher.execute("insert into item values (2)")
    replicated.deliver()
    replicated.require_equal("item")
