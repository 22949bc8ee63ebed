"""The how-to page on replication in both directions: its commands and statements do what it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from builders.commands.command_lines import rowtide
from fixtures.servers import SETTINGS, fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "bidirectional.md"


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Empty databases for the page's variables."""
    settings = {**SETTINGS, "track_commit_timestamp": "on"}
    with (
        EmbeddedServer.start(tmp_path / "server", version=18, settings=settings) as server,
        fresh_database(server) as north,
        fresh_database(server) as south,
        fresh_database(server) as west,
    ):
        yield {"NORTH": north, "SOUTH": south, "WEST": west}


def read_blocks() -> Iterator[tuple[str, str]]:
    """Yield the page's blocks of code with their language."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def read_commands(block: str) -> Iterator[list[str]]:
    """Yield the rowtide commands of a block."""
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith("$ rowtide "):
            yield shlex.split(line.removeprefix("$ rowtide "))


@pytest.mark.exhaustive
def test_the_page_replicates_in_both_directions(databases: dict[str, str], tmp_path: Path) -> None:
    blocks = list(read_blocks())
    statements = [block for language, block in blocks if language == "sql"][1:]
    sessions = {name: psycopg.connect(url, autocommit=True) for name, url in databases.items()}
    sessions["NORTH"].execute(statements[0].encode())
    for language, block in blocks:
        if language == "sql" and block == statements[1]:
            sessions["SOUTH"].execute(block.encode())
            write(sessions["NORTH"], sessions["SOUTH"])
        for command in read_commands(block) if language == "console" else ():
            run(command, databases, tmp_path)
    for name in databases:
        run(["replication", "run", "--db", f"${name}"], databases, tmp_path)
    sessions["WEST"].execute("insert into orders values (101, 'late')")
    for name in databases:
        run(["replication", "run", "--db", f"${name}"], databases, tmp_path)

    rows = [session.execute("table orders order by id").fetchall() for session in sessions.values()]
    assert rows[0] == rows[1] == rows[2]
    assert [status for _, status in rows[0]] == ["south", "new", "paid", "new", "late"]
    for session in sessions.values():
        session.close()


def write(north: psycopg.Connection, south: psycopg.Connection) -> None:
    """Let both databases have new rows, and change the same one, the second one later."""
    for session, name in ((north, "north"), (south, "south")):
        session.execute("insert into orders (status) values ('new')")
        session.execute("update orders set status = %s where id = 1", [name])


def run(command: list[str], databases: dict[str, str], folder: Path) -> None:
    """Run a command of the page with the variables' values; one that delivers only until all is delivered."""
    values = {f"${name}": url for name, url in databases.items()}
    words = [values.get(word, word.replace("/data", str(folder))) for word in command]
    if words[:2] == ["replication", "run"] and "--once" not in words:
        words.insert(2, "--once")
    done = rowtide(*words)
    assert done.code == 0, done.errors
