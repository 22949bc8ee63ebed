"""Databases in other encodings than UTF-8: names and values arrive, and what cannot be held is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.log.membership import Altered

WORDS = {"LATIN1": "straße", "WIN1251": "улица", "EUC_JP": "通り", "SQL_ASCII": "straße"}
MARKED = "\0x"


@contextmanager
def opened_in(server: EmbeddedServer, encoding: str, lake: Path) -> Iterator[LoggedDatabase]:
    with fresh_database(server, encoding=encoding) as url, psycopg.connect(url, autocommit=True) as session:
        session.execute("set client_encoding to 'UTF8'")
        yield LoggedDatabase(url, lake, session)


@pytest.fixture(params=WORDS)
def encoded(
    request: pytest.FixtureRequest, each_server: EmbeddedServer, lake: Path
) -> Iterator[tuple[LoggedDatabase, str]]:
    """A database of each encoding, with a word that it holds."""
    with opened_in(each_server, request.param, lake) as logged:
        yield logged, WORDS[request.param]


def make_table(logged: LoggedDatabase, word: str) -> None:
    logged.execute(f'create schema "{word}"', f'create table "{word}"."{word}" (id int primary key, "{word}" text)')
    logged.execute("create table plain (id int primary key, v text)")


def test_names_and_values_of_every_encoding_are_read(encoded: tuple[LoggedDatabase, str]) -> None:
    logged, word = encoded
    make_table(logged, word)
    logged.enable(f"{word}.{word}", "plain")
    table = f'"{word}"."{word}"'
    logged.execute(
        f"insert into {table} values (1, '{word}')",
        f'alter table {table} rename "{word}" to "{word}2"',
        f"insert into {table} values (2, '{word}')",
        "insert into plain values (3, 'x')",
    )
    state = logged.read_log()
    (member,) = (member for member in state.members if member.table == word)
    assert (member.schema, member.columns) == (word, ("id", f"{word}2"))
    assert [version.shape.name for version in state.tables.values()] == [word, word, "plain"]
    altered = [event.alteration for event in state.events if isinstance(event, Altered)]
    assert [column.name for column in altered[-1].columns] == ["id", f"{word}2"]
    assert [row["after"] for row in logged.records()] == [["1", word], ["2", word], ["3", "x"]]
    listed = rowtide("cdc", "instances", "--format", "jsonl", "--db", logged.url)
    assert (listed.code, f"{word}_{word}" in listed.output) == (0, True)
    assert rowtide("check", "--db", logged.url).code == 0
    logged.cdc.disable_table(f"{word}.{word}")
    assert [member.table for member in logged.read_log().members] == ["plain"]


def test_tables_of_every_encoding_are_tracked_and_merged(encoded: tuple[LoggedDatabase, str], tmp_path: Path) -> None:
    logged, word = encoded
    make_table(logged, word)
    at = ("--db", logged.url)
    assert rowtide("tracking", "enable", f"{word}.{word}", *at).code == 0
    logged.execute(f'insert into "{word}"."{word}" values (1, \'{word}\')')
    tracked = rowtide("tracking", "changes", f"{word}.{word}", "--format", "jsonl", *at)
    assert f'"{word}": "{word}"' in tracked.output, tracked
    device = f"sqlite:///{tmp_path / 'device.db'}"
    logged.execute(f'create table "{word}_m" (id int primary key, "{word}" text)')
    logged.execute(f"insert into \"{word}_m\" values (1, '{word}')")
    for command in (
        ("add-publication", "shop"),
        ("add-article", "shop", f"{word}_m"),
        ("add-subscription", "shop", "--subscriber", device),
        ("sync", "shop", "--subscriber", device),
    ):
        ended = rowtide("merge", *command, *at)
        assert ended.code == 0, ended
    with closing(sqlite3.connect(tmp_path / "device.db")) as program:
        assert program.execute(f'select id, "{word}" from "{word}_m"').fetchall() == [(1, word)]


def test_undecodable_bytes_are_values_but_an_error_in_names(each_server: EmbeddedServer, lake: Path) -> None:
    with opened_in(each_server, "SQL_ASCII", lake) as logged:
        logged.execute("create table plain (id int primary key, v text)", "set client_encoding to 'SQL_ASCII'")
        logged.session.execute(b'create table road (id int primary key, "stra\xdfe" text)')
        checked = rowtide("check", "--db", logged.url)
        assert checked.code == 1
        assert "FAILING  column public.road.stra\\xdfe" in checked.output
        logged.enable("plain")
        logged.session.execute(b"insert into plain values (1, 'stra\xdfe')")
        refused = rowtide("cdc", "enable-table", "road", "--db", logged.url).require_error(2152)
        assert "rename that table or column" in refused
        logged.read_log()
        assert logged.inserted(1) == [MARKED + "stra\xdfe".encode("latin-1").hex()]


def test_statements_with_undecodable_bytes_stop_nothing(each_server: EmbeddedServer, lake: Path) -> None:
    with opened_in(each_server, "SQL_ASCII", lake) as logged:
        logged.execute("create table plain (id int primary key, v text)")
        logged.enable("plain")
        for shift in range(2):
            # It is cut off where a character is.
            logged.execute(f"alter table plain add column c{shift} text default '{'x' * shift}{'ß' * 9000}'")
        logged.execute("set client_encoding to 'SQL_ASCII'")
        logged.session.execute(b"alter table plain add column d text default 'stra\xdfe'")
        logged.execute("insert into plain (id) values (1)")
        state = logged.read_log()
        altered = [event.alteration for event in state.events if isinstance(event, Altered)]
        assert altered[-1].statement == r"alter table plain add column d text default 'stra\xdfe'"
        assert (altered[-1].columns[-1].missing_value, len(altered)) == (None, 3)
        assert logged.inserted(1)[-1:] != []


@pytest.mark.exhaustive
def test_what_a_subscriber_cannot_hold_is_named(each_server: EmbeddedServer, logged: LoggedDatabase) -> None:
    logged.execute(
        "create table plain (id int primary key, v text, w text)", 'create table "улица" (id int primary key)'
    )
    with fresh_database(each_server, encoding="LATIN1") as subscriber:

        def run(*command: str) -> str:
            return rowtide("replication", *command, "--db", logged.url).errors

        run("add-publication", "p", "--lake", str(logged.lake))
        run("add-publication", "named")
        run("add-article", "named", "улица")
        refused = run("add-subscription", "named", "--subscriber", subscriber)
        assert 'RT-2153: the subscriber\'s encoding, LATIN1, cannot hold the name "улица" of public.улица' in refused
        run("add-article", "p", "plain")
        run("add-subscription", "p", "--subscriber", subscriber)
        logged.execute("insert into plain values (1, 'ä', 'ß')")
        run("run", "--once")
        with psycopg.connect(subscriber) as session:
            assert session.execute("select * from plain").fetchall() == [(1, "ä", "ß")]
        logged.execute("insert into plain values (2, 'ä', 'жук')")
        stopped = run("run", "--once")
        assert "RT-7114: the subscriber refused insert of public.plain with key id = 2 (22P05)" in stopped
        assert 'no equivalent in encoding "LATIN1", in column w (' in stopped
        run("drop-subscription", "p", "--subscriber", subscriber)
        logged.execute("insert into plain select i, 'ä', 'ß' from generate_series(3, 10000) i")
        run("add-subscription", "p", "--subscriber", subscriber, "--if-exists", "drop")
        stopped = run("run", "--once")
        assert "RT-7131: the subscriber refused the snapshot of public.plain (22P05)" in stopped
        assert "in column w of the row with key id = 2 (U+0436)" in stopped
