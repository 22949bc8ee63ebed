"""Enabling a database beside transactions that stay open: the server waits for them, and we say for which."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders.capture.captured_databases import LoggedDatabase
from rowtide.log.postgres import backlog


@pytest.fixture(autouse=True)
def told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report waits sooner than to users."""
    monkeypatch.setattr(backlog, "PATIENCE_S", 0.05)


def test_enabling_reports_the_transaction_it_waits_for(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int)")
    told: list[str] = []
    is_told = threading.Event()

    def note(whom: str) -> None:
        told.append(whom)
        is_told.set()

    with ThreadPoolExecutor(1) as pool:
        with logged.transaction() as forgotten:
            forgotten.execute("insert into item values (1)")
            enabling = pool.submit(logged.cdc.enable_db, str(logged.lake), on_wait=note)
            assert is_told.wait(30)
            assert f"transaction of pid {forgotten.info.backend_pid} (" in told[0]
            assert not enabling.done()
        assert not enabling.result(30).was_enabled
