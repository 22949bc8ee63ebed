"""Rows of a key whose type has its operators in `public` are found by the key's index, as the server's own would be."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from builders.servers.server_reads import wait_until_alone
from builders.servers.types_elsewhere import CITEXT
from fixtures.servers import fresh_database
from rowtide.copying.chunks import Chunk, CopiedTable, KeyColumn
from rowtide.copying.source import PostgresCopySource
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.urls import parse_url
from rowtide.merge.api import MergeReplication
from rowtide.tracking import ChangeTracking

pytestmark = pytest.mark.live

ROWS = 5_000
USERS = (
    *CITEXT,
    "create table users (name ci primary key, age integer)",
    f"insert into users select 'User' || g, g from generate_series(1, {ROWS}) g",
)
CHANGED = (
    "update users set age = -age where lower(name::text) in ('user5', 'user7')",
    "delete from users where lower(name::text) = 'user9'",
    "update users set name = 'USER11' where lower(name::text) = 'user11'",
)


@pytest.fixture
def url(each_server: EmbeddedServer) -> Iterator[str]:
    with fresh_database(each_server) as url:
        execute(url, *USERS, "vacuum analyze users")
        yield url


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        for each in statements:
            session.execute(each.encode())


@contextmanager
def reading_by_index(url: str) -> Iterator[None]:
    """Fail if meanwhile another session read the whole table, or none used the index of its key."""
    whole, by_index = count_scans(url)
    yield
    whole_then, by_index_then = count_scans(url)
    assert by_index_then > by_index, "the index of the key was not used"
    assert whole_then == whole, "the whole table was read"


def count_scans(url: str) -> tuple[int, int]:
    """Return how often the table was read whole, and the index of its key was used, by sessions that were closed."""
    with psycopg.connect(url, autocommit=True) as session:
        wait_until_alone(session)
    return one(
        url,
        "select t.seq_scan, i.idx_scan from pg_stat_user_tables t join pg_stat_user_indexes i using (relid) "
        "where t.relid = 'users'::regclass and i.indexrelname = 'users_pkey'",
    )


def one(url: str, query: str) -> tuple[Any, ...]:
    with psycopg.connect(url, autocommit=True) as session:
        found = session.execute(query.encode()).fetchone()
    assert found is not None
    return found


def test_delivery_finds_them(url: str, each_server: EmbeddedServer, tmp_path: Path) -> None:
    def replicate(*words: str) -> None:
        ended = rowtide("replication", *words, "--db", url)
        assert ended.code == 0, ended

    with fresh_database(each_server) as subscriber:
        execute(subscriber, *CITEXT)
        replicate("add-publication", "p", "--lake", str(tmp_path / "lake"))
        replicate("add-article", "p", "users")
        replicate("add-subscription", "p", "--subscriber", subscriber)
        replicate("run", "--once")
        execute(subscriber, "vacuum analyze users")
        execute(url, *CHANGED)
        with reading_by_index(subscriber):
            replicate("run", "--once")
        replicate("validate", "p")


def test_merge_finds_them(url: str, tmp_path: Path) -> None:
    """A row that was inserted at both nodes is found by its key."""
    merge = MergeReplication(url)
    merge.add_publication("m")
    merge.add_article("m", "users")
    device = tmp_path / "device.db"
    merge.add_subscription("m", f"sqlite:///{device}")
    execute(url, "insert into users values ('Anna', 1)", "vacuum analyze users")
    with closing(sqlite3.connect(device)) as program, program:
        program.execute("insert into users (name, age) values ('ANNA', 2)")
    with reading_by_index(url):
        summary = merge.sync("m", f"sqlite:///{device}")
    assert summary.upload.total.conflicts == 1


def test_tracking_finds_them(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as session:
        tracking = ChangeTracking(session)
        tracking.enable_tracking("users")
        with tracking.changes("users") as changes:
            anchor = changes.anchor
    execute(url, "vacuum analyze users", CHANGED[0])
    with reading_by_index(url), psycopg.connect(url, autocommit=True) as session:
        assert ChangeTracking(session).changed_since("users", ("User5",), anchor)
        assert not ChangeTracking(session).changed_since("users", ("User6",), anchor)


def test_copies_find_them(url: str) -> None:
    """A chunk, as snapshots of capture and initial copies of subscribers read it."""
    (source_id,) = one(url, "select 'users'::regclass::oid::bigint")
    key = (KeyColumn("name", "public.ci"),)
    table = CopiedTable("", source_id, "public", "users", ("name", "age"), (1, 2), key)
    source = PostgresCopySource(open_engine(parse_url(url), application_name="test"), url)
    bounds = sorted((bound for (bound,) in source.find_bounds(table, 20_000)), key=str.lower)
    assert len(bounds) > 3
    chunk = Chunk("", 1, (bounds[0],), (bounds[1],))
    with reading_by_index(url), source.open_chunk(table, chunk) as opened:
        copied = b"".join(opened.blocks).splitlines()
    inside = f"select count(*) from users where name > '{bounds[0]}' and name <= '{bounds[1]}'"
    assert (len(copied),) == one(url, inside)
