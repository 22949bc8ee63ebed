"""Checks, defaults and domains are created elsewhere only if they compute: who wrote them has no rights there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

RUNS = "query_to_xml('copy (select 1) to program ''true''', true, true, '') is not null"
TABLES = f"""
create table checked (id int primary key, n int check (n > 0), constraint runs check ({RUNS}));
create table defaulted (
    id int primary key, at timestamptz default clock_timestamp(), made uuid default gen_random_uuid(),
    runs text default set_config('search_path', 'evil', false)
);
create domain running as int check (value > 0 and {RUNS});
create table of_domain (id int primary key, n running);
"""


@pytest.fixture
def databases(each_server: EmbeddedServer) -> Iterator[tuple[str, str]]:
    with fresh_database(each_server) as publisher, fresh_database(each_server) as subscriber:
        with psycopg.connect(publisher, autocommit=True) as session:
            session.execute(TABLES.encode())
        yield publisher, subscriber


def parts(url: str) -> set[str]:
    """Return the names of a database's checks, and of columns with a default but those of keys and rowguids."""
    with psycopg.connect(url) as session:
        checks = session.execute("select conname from pg_constraint where contype = 'c' and conrelid <> 0").fetchall()
        defaults = session.execute(
            "select a.attname from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum "
            "where d.adrelid = to_regclass('public.defaulted')"
        ).fetchall()
    return {name for (name,) in (*checks, *defaults)}


def test_merge_omits_parts_that_do_more_than_compute(databases: tuple[str, str]) -> None:
    publisher, subscriber = databases
    for words in (("add-publication", "m"), ("add-article", "m", "checked"), ("add-article", "m", "defaulted")):
        assert rowtide("merge", *words, "--db", publisher).code == 0
    added = rowtide("merge", "add-subscription", "m", "--subscriber", subscriber, "--db", publisher)
    assert added.code == 0, added
    assert (added.output + added.errors).count("may do more than compute") == 2, added
    made = parts(subscriber)
    assert {"checked_n_check", "at", "made"} <= made
    assert "runs" not in made


def test_a_domain_that_does_more_than_compute_is_asked_for(databases: tuple[str, str], tmp_path: Path) -> None:
    publisher, subscriber = databases
    for words in (("add-publication", "p", "--lake", str(tmp_path / "lake")), ("add-article", "p", "of_domain")):
        assert rowtide("replication", *words, "--db", publisher).code == 0
    added = rowtide("replication", "add-subscription", "p", "--subscriber", subscriber, "--db", publisher)
    assert added.code == 1
    assert "domain public.running" in added.errors
