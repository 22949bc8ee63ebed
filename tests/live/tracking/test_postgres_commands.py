"""`rowtide tracking` on a PostgreSQL database."""

from __future__ import annotations

import json

import psycopg

from builders.commands.command_lines import rowtide

COLUMNS = (
    "id uuid primary key, n numeric, m numeric, big bigint, d date, ts timestamptz, j jsonb, a int[], f float8, "
    "r int4range, b bytea"
)
UUID = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"


def test_every_value_has_a_form_in_json(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as program:
        program.execute(f"create table t ({COLUMNS})".encode())
        rowtide("tracking", "enable", "t", "--index", "btree", "--storage", "side", "--db", database)
        program.execute(
            "insert into t values "
            "(%s, 1.10, 1.5, 9007199254740993, '2026-11-22', '2026-11-22 12:00:00.5+01', %s, "
            "'{1,2}', 'nan', '[1,3)', %s)",
            [UUID, json.dumps({"k": [1, None]}), b"\x00\xff"],
        )
    first = rowtide("tracking", "changes", "t", "--format", "jsonl", "--db", database).output.splitlines()

    assert json.loads(first[0]) == {
        "operation": "insert",
        "table": "public.t",
        "id": UUID,
        "n": "1.10",
        "m": "1.5",
        "big": 9007199254740993,
        "d": "2026-11-22",
        "ts": "2026-11-22T11:00:00.500000+00:00",
        "j": {"k": [1, None]},
        "a": [1, 2],
        "f": "NaN",
        "r": "[1, 3)",
        "b": "00ff",
    }
    listed = json.loads(rowtide("tracking", "options", "--format", "jsonl", "--db", database).output)
    assert (listed["storage"], listed["index"]) == ("side", "btree")
