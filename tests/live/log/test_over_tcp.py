"""The log reader over TCP with a password, as from another machine."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.servers.tcp_servers import ROLE, start_tcp_server
from rowtide.log.postgres.stream import copy_data

ROWS = 30_000
WIDE_ROWS = 2_000


@pytest.fixture(scope="module")
def tcp_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server's own database on 127.0.0.1, of a user who needs a password."""
    password = secrets.token_urlsafe()
    with start_tcp_server(tmp_path_factory.mktemp("postgres-tcp"), password) as (_, port):
        yield f"postgresql://{ROLE}:{password}@127.0.0.1:{port}/postgres"


def test_a_backlog_and_single_changes_arrive_whole_over_tcp(tcp_url: str, lake: Path) -> None:
    with psycopg.connect(tcp_url, autocommit=True) as session:
        logged = LoggedDatabase(tcp_url, lake, session)
        logged.execute("create table item (id int)")
        logged.enable("item")
        logged.execute(f"insert into item select generate_series(1, {ROWS})")
        logged.read_log()
        for number in range(1, 4):
            logged.execute(f"insert into item values ({ROWS + number})")
            logged.read_log()
        assert logged.inserted() == [str(number) for number in range(1, ROWS + 4)]


def test_wide_rows_are_fetched_without_a_rest_after_each_few(
    tcp_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rest is for few bytes, not for few messages: libpq reads no more than one or two of these at once."""
    rests = 0
    sleep = time.sleep

    def count(seconds: float) -> None:
        nonlocal rests
        rests += seconds == copy_data._GATHERING_S
        sleep(seconds)

    with psycopg.connect(tcp_url, autocommit=True) as session:
        session.execute("create database wide")
    wide_url = tcp_url.removesuffix("postgres") + "wide"
    with psycopg.connect(wide_url, autocommit=True) as session:
        logged = LoggedDatabase(wide_url, tmp_path / "wide", session)
        logged.execute("create table document (body text)", "alter table document alter body set storage external")
        logged.enable("document")
        logged.execute(f"insert into document select repeat('x', 9000) from generate_series(1, {WIDE_ROWS})")
        monkeypatch.setattr("time.sleep", count)
        logged.read_log()
        assert len(logged.inserted()) == WIDE_ROWS
    assert 0 < rests < WIDE_ROWS / 4
