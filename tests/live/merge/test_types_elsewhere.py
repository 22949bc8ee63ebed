"""Keys of a type whose operators are in `public`, as citext's are: they are compared by these, and by their index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.merge.merged_databases import Merge, open_file_member, open_server_member
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

pytestmark = pytest.mark.live

_OPERATORS = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_COMPARING = (
    "create function ci_cmp(ci, ci) returns integer language sql immutable strict as "
    "'select pg_catalog.bttextcmp(pg_catalog.lower($1::text), pg_catalog.lower($2::text))'"
)
_INDEXED = (
    "create operator class ci_ops default for type ci using btree as operator 1 <, operator 2 <=, operator 3 =, "
    "operator 4 >=, operator 5 >, function 1 ci_cmp(ci, ci)"
)
CITEXT = [
    "create type ci",
    "create function ci_in(cstring) returns ci language internal immutable strict as 'textin'",
    "create function ci_out(ci) returns cstring language internal immutable strict as 'textout'",
    "create type ci (input = ci_in, output = ci_out, like = text, category = 'S')",
    "create cast (ci as text) without function as implicit",
    "create cast (text as ci) without function as assignment",
    *(
        f"create function ci_{name}(ci, ci) returns boolean language sql immutable strict as "
        f"'select pg_catalog.lower($1::text) operator(pg_catalog.{sign}) pg_catalog.lower($2::text)'"
        for name, sign in _OPERATORS.items()
    ),
    *(
        f"create operator {sign} (leftarg = ci, rightarg = ci, function = ci_{name})"
        for name, sign in _OPERATORS.items()
    ),
    _COMPARING,
    _INDEXED,
]


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
