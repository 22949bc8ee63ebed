"""Keys of a type whose operators are in `public`, as citext's are: they are compared by these, and by their index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.merge.merged_databases import Merge, open_file_member, open_server_member
from builders.servers.types_elsewhere import CITEXT
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

pytestmark = pytest.mark.live


@pytest.fixture
def merged(each_server: EmbeddedServer, tmp_path: Path) -> Iterator[Merge]:
    """A hub with people by their names, and their visits, which say who in any case; and a device."""
    with (
        fresh_database(each_server) as url,
        open_server_member(url) as hub,
        open_file_member(tmp_path / "device.db") as device,
    ):
        hub.execute(
            *CITEXT,
            "create table person (name ci primary key, age integer)",
            "create table visit (id integer primary key, who ci references person, place text)",
        )
        merged = Merge(hub, [device])
        merged.begin(person={}, visit={})
        yield merged


def test_a_key_is_held_in_any_case(merged: Merge) -> None:
    device = merged.subscribers[0]
    merged.hub.execute("insert into person values ('Anna', 1), ('Bob', 2)")
    merged.sync()
    merged.hub.execute("insert into person values ('Carl', 3)")
    device.execute("insert into person (name, age) values ('CARL', 4)", "update person set name = 'ANNA' where age = 1")
    summary = merged.sync()

    assert summary.upload.total.conflicts == 1
    assert merged.hub.execute("select name::text, age from person order by age") == [
        ("ANNA", 1),
        ("Bob", 2),
        ("Carl", 3),
    ]


def test_rows_that_reference_a_key_in_another_case_move_with_it(merged: Merge) -> None:
    device = merged.subscribers[0]
    merged.hub.execute("insert into person values ('Anna', 1)", "insert into visit values (1, 'aNNa', 'here')")
    merged.sync()
    device.execute("pragma foreign_keys = off", "update person set name = 'Hanna'", "update visit set who = 'hanna'")
    merged.sync()

    joined = "select p.name::text, lower(v.who::text) from person p join visit v on v.who = p.name"
    assert merged.hub.execute(joined) == [("Hanna", "hanna")]
