"""Whatever is typed: a command succeeds, says one numbered line, or refuses the usage; it never ends in a traceback."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from zlib import crc32

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from builders.commands.command_tree import Command, commands
from fixtures.servers import fresh_database
from rowtide.cli.exit_codes import FAILED, WRONG_USAGE, ExitCode, runs_on
from rowtide.databases.postgres.embedded import EmbeddedServer

SHORT = ("", '"', "-1", "99999999999999999999", "x" * 300)
LONG = (*SHORT, "'", "no such thing", "a.b.c", "☃", "0")
IN_TURN: tuple[str, ...] = ()
"""One of the short ones, not the same for all parameters."""
junks = pytest.mark.parametrize(
    "junk",
    [
        pytest.param(IN_TURN, id="in turn"),
        pytest.param(SHORT, id="short", marks=pytest.mark.exhaustive),
        pytest.param(LONG, id="long", marks=pytest.mark.soak),
    ],
)
ALWAYS = {"dry_run": "", "once": "", "yes": "", "days": "1"}
"""Where a command takes them: nothing lasts, nothing asks."""
FUZZED = [
    command
    for command in commands()
    if command.words
    not in {("demo",), ("agent", "run"), ("health",), ("monitor", "serve"), ("top",), ("gateway", "serve")}
]
"""Not what runs for long, nor what tells by its exit code how things stand."""
SCHEMA = """
create table orders (id integer primary key, note text);
create table lines (id integer primary key, order_id integer references orders, rowguid integer);
create table "no columns left" (a);
create view v as select * from orders;
insert into orders values (1, 'a');
insert into lines values (1, 1, 5);
"""
SERVER_SCHEMA = """
create table orders (id integer primary key, note text);
create table nothing ();
create table numbered (id integer primary key, rowguid integer);
create table "quo""ted" (id integer primary key, "a""b" text);
create view seen as select * from orders;
create table partitioned (id integer primary key) partition by range (id);
insert into orders values (1, 'a');
"""


def attempts(command: Command, junk: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield values for a command's parameters, one of them junk."""
    names = {parameter.name for parameter in command.parameters}
    given = {name: value for name, value in ALWAYS.items() if name in names}
    yield given
    for parameter in command.parameters:
        if parameter.name in ("db", "dry_run"):
            continue
        if parameter.is_flag:
            yield {**given, parameter.name: ""}
            continue
        turn = crc32(f"{command.name} {parameter.name}".encode()) % len(SHORT)
        for value in junk or (SHORT[turn],):
            yield {**given, parameter.name: value}


def complaint(arguments: list[str]) -> str | None:
    """Run a command; return what is wrong with how it ended."""
    try:
        ended = rowtide(*arguments)
    except Exception as error:  # noqa: BLE001 - the traceback that a user would see
        return f"{arguments}: {type(error).__name__}: {error}"
    lines = ended.errors.splitlines()
    is_usage = ended.code == (ExitCode.USAGE if runs_on(arguments) else WRONG_USAGE)
    if ended.code == 0 or is_usage:
        return None
    is_refusal = ended.code in ((ExitCode.UNAVAILABLE, ExitCode.NEEDS_PERSON) if runs_on(arguments) else (FAILED,))
    if is_refusal and lines and lines[-1].startswith("RT-") and ended.errors.count("RT-") == 1:
        return None
    return f"{arguments}: {ended}"


@junks
@pytest.mark.parametrize("command", FUZZED, ids=lambda command: command.name)
def test_no_input_ends_in_a_traceback_on_a_file(
    command: Command, junk: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(sqlite3.connect("hub.db")) as connection:
        connection.executescript(SCHEMA)
    db = {"db": "sqlite:///hub.db", "subscriber": "sqlite:///copy.db"}

    complaints = [complaint(command.call({**db, **given})) for given in attempts(command, junk)]

    assert [found for found in complaints if found is not None] == []


@pytest.fixture(scope="module", params=["server", pytest.param("server_16", marks=pytest.mark.soak)])
def server_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database that nothing is enabled in, with tables that are hard to use."""
    server: EmbeddedServer = request.getfixturevalue(request.param)
    with fresh_database(server) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SERVER_SCHEMA)
        yield url


@pytest.mark.live
@junks
@pytest.mark.parametrize("command", FUZZED, ids=lambda command: command.name)
def test_no_input_ends_in_a_traceback_on_a_server(
    command: Command, junk: Sequence[str], server_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    db = {"db": server_database, "subscriber": "sqlite:///copy.db"}

    complaints = [complaint(command.call({**db, **given})) for given in attempts(command, junk)]

    assert [found for found in complaints if found is not None] == []


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", " SQLite:// "])
@pytest.mark.parametrize("words", [("merge", "add-publication", "shop"), ("tracking", "options"), ("health",)])
def test_a_command_keeps_nothing_in_memory(words: tuple[str, ...], url: str) -> None:
    refused = rowtide(*words, "--db", url)

    assert refused.code == 2
    assert "it names no file" in refused.errors


@pytest.mark.live
@pytest.mark.parametrize(
    "words",
    [
        ("cdc", "enable-db", "--lake", ""),
        ("cdc", "enable-db", "--lake", "lake", "--log-store", ""),
        ("replication", "add-publication", "shop", "--lake", ""),
        ("replication", "add-publication", "shop", "--lake", "lake", "--log-store", " "),
        ("check", "--lake", ""),
    ],
    ids=" ".join,
)
def test_an_empty_variable_is_no_place(
    words: tuple[str, ...], database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = rowtide(*words, "--db", database)

    assert (refused.code, refused.errors.split(":")[0]) == (1, "RT-1025")
    assert not (tmp_path / "log").exists()


@pytest.mark.live
@pytest.mark.parametrize("name", ["", "a\nb"])
def test_a_publication_has_a_name_that_can_be_typed(name: str, database: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "hub.db")) as connection:
        connection.executescript(SCHEMA)
    file, lake = f"sqlite:///{tmp_path}/hub.db", str(tmp_path / "lake")

    for words, db in ((("replication", "--lake", lake), database), (("merge",), database), (("merge",), file)):
        refused = rowtide(words[0], "add-publication", name, *words[1:], "--db", db)
        assert (refused.code, refused.errors.split(":")[0]) == (1, "RT-1024")


@pytest.mark.live
@pytest.mark.parametrize("table", ["nothing", "numbered", '"quo""ted"', "seen", "partitioned"])
@pytest.mark.parametrize(
    "words",
    [
        ("tracking", "enable"),
        ("tracking", "enable", "--key", "rowguid"),
        ("merge", "add-article", "shop"),
        ("check",),
        ("replication", "add-article", "shop"),
    ],
    ids=" ".join,
)
def test_odd_tables_are_taken_or_refused_with_a_number(
    words: tuple[str, ...], table: str, each_server: EmbeddedServer, tmp_path: Path
) -> None:
    with fresh_database(each_server) as database:
        require_no_traceback(words, table, database, tmp_path)


def require_no_traceback(words: tuple[str, ...], table: str, database: str, tmp_path: Path) -> None:
    """Run a command about a table of a fresh database."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SERVER_SCHEMA)
    places = {"merge": (), "replication": ("--lake", str(tmp_path / "lake"))}
    if words[0] in places:
        assert rowtide(words[0], "add-publication", "shop", *places[words[0]], "--db", database).code == 0

    assert complaint([*words, table, "--db", database]) is None
