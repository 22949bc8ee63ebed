"""Log readers that end soon, as those of `run --once`, keep the log store small too."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from rowtide.log.store.entries import ReaderAdvanced


def test_what_is_not_needed_goes_once_it_is_much(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowtide.log.store.maintenance.MANY_FILES", 3)
    logged.execute("create table orders (id int primary key)")
    logged.enable("orders")
    for number in range(3):
        logged.execute(f"insert into orders values ({number})")
        state = logged.read_log()
    assert len(state.segments) == 3
    logged.manifest().append(ReaderAdvanced("cdc", state.position))

    logged.read_log()

    assert len(logged.manifest().state.segments) < 3
