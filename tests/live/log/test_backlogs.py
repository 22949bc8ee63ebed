"""A backlog of small transactions is handed on piece by piece, so that its consumers begin while it is read."""

from __future__ import annotations

import pytest

from builders.capture.captured_databases import LoggedDatabase
from rowtide.log import reader


def test_a_backlog_is_handed_on_while_it_is_read(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WHOLE_BATCH_MESSAGES", 10)
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    before = {segment.path for segment in logged.read_log().segments}
    logged.execute(*(f"insert into item values ({number})" for number in range(100)))
    added = [segment for segment in logged.read_log().segments if segment.path not in before]

    assert len(added) > 1
    assert {*logged.inserted()} == {str(number) for number in range(100)}


def test_a_large_transaction_is_not_cut_sooner(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WHOLE_BATCH_MESSAGES", 10)
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    before = {segment.path for segment in logged.read_log().segments}
    logged.execute("insert into item select generate_series(1, 100)")
    added = [segment for segment in logged.read_log().segments if segment.path not in before]

    assert len(added) == 1
    assert len(logged.inserted()) == 100
