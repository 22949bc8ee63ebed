"""A client that was written from the page of the wire protocol, of curl and sqlite3 alone, synchronises."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders.faults.cut_network import cut_network
from builders.gateway.served_hubs import Gateway, run_at, serving_hub
from builders.merge.merged_databases import PUBLICATION, FileMember, Merge

PROGRAMS = Path(__file__).parents[3] / ".venv" / "proxies"
"""Where `scripts/fetch-proxies` puts curl and sqlite3."""
SCRIPT = Path(__file__).parents[2] / "builders" / "gateway" / "strangers_client.sh"
TABLE = "create table item (id integer primary key, name varchar(20), price numeric, region varchar(10), photo {bytes})"
ROWS = """insert into item (id, name, price, region) values
    (1, 'a', 1.5, 'north'), (2, 'b', null, 'north'), (3, 'c', 3, 'south'), (4, '', 4, 'north')"""
COLUMNS = "id, name, region"
CUTS = (150, 900, 1400)
"""Bytes of a synchronisation after which a connection is cut: in its request, behind it, and in its answer."""


@pytest.fixture
def gateway(merged: Merge) -> Iterator[Gateway]:
    """A gateway, with one publication that is filtered."""
    merged.hub.execute(TABLE.format(bytes="blob" if isinstance(merged.hub, FileMember) else "bytea"), ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where="region = host_name()", column_tracking=True)
    merged.hub.execute("update item set name = 'changed' where id = 4")
    with serving_hub(merged) as served:
        yield served


class Stranger:
    """Runs the client."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, *arguments: str) -> None:
        command = ["bash", str(SCRIPT), str(self.path), *arguments]
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:{PROGRAMS}"}
        ended = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr

    def write(self, *statements: str) -> list[Any]:
        return run_at(self.path, *statements)

    def rows(self) -> list[Any]:
        return self.write(f"select {COLUMNS} from item order by id")


def test_a_strangers_client_synchronises(gateway: Gateway, tmp_path: Path) -> None:
    hub, merge = gateway.merged.hub, gateway.merged.merge
    stranger = Stranger(tmp_path / "stranger.db")
    code = merge.add_device("stranger", publication=PUBLICATION, host_name="north")
    stranger.run("register", gateway.url, code)
    stranger.run("begin")
    assert stranger.rows() == [(1, "a", "north"), (2, "b", "north"), (4, "changed", "north")]

    stranger.write(
        "update item set name = 'mine' where id = 1",
        "update item set price = 7 where id = 4",
        "delete from item where id = 2",
        "insert into item (id, name, price, region) values (10, 'new', 1.25, 'north')",
    )
    theirs = "insert into item (id, name, price, region) values (5, 'theirs', 5, 'north')"
    hub.execute(theirs, "update item set name = 'both' where id = 4")
    stranger.run("sync")
    rows = [(1, "mine", "north"), (4, "both", "north"), (5, "theirs", "north"), (10, "new", "north")]
    assert stranger.rows() == rows
    assert sorted(hub.execute(f"select {COLUMNS} from item where region = 'north'")) == rows
    assert hub.execute("select price from item where id = 4") == stranger.write("select price from item where id = 4")

    hub.execute("update item set region = 'south' where id = 1", "update item set name = 'hub' where id = 10")
    stranger.write("update item set name = 'loses' where id = 10")
    stranger.run("sync")
    assert stranger.rows() == [(4, "both", "north"), (5, "theirs", "north"), (10, "hub", "north")]
    (conflict,) = gateway.merged.conflicts()
    assert '"loses"' in conflict[2]

    hub.execute("delete from item where id = 5")
    for _ in range(2):
        stranger.run("sync")
    assert stranger.rows() == [(4, "both", "north"), (10, "hub", "north")]
    assert len(hub.execute("select 1 from item where region = 'north'")) == 2
    assert next(one.client_version for one in merge.list_devices()) == "stranger/1"


def test_a_lost_answer_is_asked_for_again(gateway: Gateway, tmp_path: Path) -> None:
    hub, merge = gateway.merged.hub, gateway.merged.merge
    stranger = Stranger(tmp_path / "stranger.db")
    with cut_network(gateway.address.port) as network:
        code = merge.add_device("stranger", publication=PUBLICATION, host_name="north")
        stranger.run("register", gateway.url.replace(str(gateway.address.port), str(network.port)), code)
        network.cut_after(600)
        stranger.run("begin")
        for key, cut in enumerate(CUTS, 20):
            name = f"it''s {key}% \u00e9"
            values = f"({key}, '{name}', 0.1, 'north', x'00ff{key}')"
            stranger.write(f"insert into item (id, name, price, region, photo) values {values}")
            network.cut_after(cut)
            stranger.run("sync")
        assert network.cuts == 1 + len(CUTS)
        expected = [(key, f"it's {key}% \u00e9", 3) for key in range(20, 20 + len(CUTS))]
        found = "select id, name, length(photo) from item where id >= 20 order by id"
        assert hub.execute(found) == expected
        hub.execute("update item set name = 'a\nb' where id = 20", "delete from item where id = 21")
        stranger.run("sync")
        assert stranger.write("select name, hex(photo) from item where id in (20, 21)") == [("a\nb", "00FF20")]
        assert hub.execute(found) == stranger.write(found)
