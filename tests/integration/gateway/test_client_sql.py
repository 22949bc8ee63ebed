"""The SQL of the page about clients does what rowtide does with a file."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import rowtide

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-client.md"
ROWS = ", ".join(f"({number}, 'of {number}')" for number in range(1, 13))
FIRST: Sequence[str] = (
    "update item set name = 'once' where id = 1",
    "delete from item where id in (2, 11)",
    "insert into item (id, name) values (20, 'new'), (21, 'gone soon')",
)
AT_HUB: Sequence[str] = (
    "update item set name = 'of the hub' where id in (3, 4)",
    "delete from item where id = 5",
    "insert into item (id, name) values (30, 'of the hub'), (31, 'of the hub')",
)
SECOND: Sequence[str] = (
    "update item set name = 'twice' where id = 1",
    "update item set id = 40 where id = 3",
    "delete from item where id in (4, 20, 31)",
    "insert into item (id, name) values (50, 'x')",
    "update item set name = 'y' where id = 50",
    "insert into item (id, name, rowguid) select 2, 'again', rowguid from temp.kept where id = 2",
    "delete from item where id = 7",
    "insert into item (id, name, rowguid) select 7, 'put back', rowguid from temp.kept where id = 7",
    "insert into temp.kept select * from item where id = 30",
    "delete from item where id = 30",
    "insert into item (id, name, rowguid) select 30, 'put back', rowguid from temp.kept where id = 30",
    "insert into item (id, name, rowguid) select 5, 'short', rowguid from temp.kept where id = 5",
    "delete from item where id = 5",
    "insert into item (id, name) values (60, 'short')",
    "delete from item where id = 60",
    "update item set id = 80 where id = 8",
    "insert into item (id, name) values (8, 'in place of it')",
    "insert or replace into item (id, name) values (9, 'replaced')",
    "update item set name = name where id = 10",
)
TABLES: Sequence[str] = (
    "select rowguid, stamp, origin, priority, lineage, last, colv, own_columns, bases from MSmerge_stored_contents",
    "select rowguid, stamp, type, origin, priority, lineage, last from MSmerge_stored_tombstone",
    "select nickname, generation, genstatus from MSmerge_stored_genhistory where genstatus = 1",
    "select __sysBsn from __sysClock",
    "select kind from MSmerge_log",
)


def run(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create temporary table kept as select * from item")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def rows_in(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return sorted(connection.execute(query).fetchall(), key=repr)


def sql_of_page(number: int) -> list[str]:
    """Return the statements of a block of SQL."""
    block = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[number]
    return [statement for statement in block.split(";\n") if statement.strip()]


def make(folder: Path) -> tuple[Any, Path, Path]:
    """Return the merge of a hub, and the files of both nodes."""
    hub, device = folder / "hub.db", folder / "device.db"
    with closing(sqlite3.connect(hub)) as connection:
        connection.execute("create table item (id integer primary key, name text)")
        connection.execute(f"insert into item values {ROWS}")
        connection.commit()
    merge = rowtide.connect(f"sqlite:///{hub}").merge
    merge.add_publication("shop")
    merge.add_article("shop", "item", column_tracking=True)
    merge.add_subscription("shop", f"sqlite:///{device}")
    return merge, hub, device


def test_the_sql_closes_a_generation_as_rowtide_does(tmp_path: Path) -> None:
    merge, hub, device = make(tmp_path)
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(device)) as connection:
        kept = connection.execute("select id, rowguid from item").fetchall()
    for number in range(10):
        run(device, f"update item set name = 'times {number}' where id = 12")
        merge.sync("shop", f"sqlite:///{device}")
    run(device, *FIRST)
    run(hub, *AT_HUB)
    merge.sync("shop", f"sqlite:///{device}")
    rowguids = [f"insert into temp.kept (id, rowguid) values ({number}, '{rowguid}')" for number, rowguid in kept]
    run(device, "delete from temp.kept", *rowguids, *SECOND)
    shutil.copyfile(device, other)
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        (article,) = connection.execute("select nickname from sysmerge_stored_articles").fetchone()
        for statement in sql_of_page(0):
            connection.execute(statement, {"article": article} if ":article" in statement else {})
    merge.sync("shop", f"sqlite:///{device}")

    assert len(rows_in(other, TABLES[0])) >= 8
    for query in TABLES:
        assert rows_in(other, query) == rows_in(device, query), query


def test_the_sql_writes_a_row_that_came_as_rowtide_does(tmp_path: Path) -> None:
    merge, hub, device = make(tmp_path)
    other = tmp_path / "other.db"
    shutil.copyfile(device, other)
    run(hub, "update item set name = 'of the hub' where id = 3", "insert into item (id, name) values (30, 'new')")
    merge.sync("shop", f"sqlite:///{device}")
    written = "select rowguid, origin, priority, lineage, last, colv from MSmerge_stored_contents"
    came = {row[0]: row[1:] for row in rows_in(device, written)}
    values = {
        rowguid: (number, name) for number, name, rowguid in rows_in(device, "select id, name, rowguid from item")
    }
    start, end = sql_of_page(0)[:2], sql_of_page(0)[-2:]
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        (article,) = connection.execute("select nickname from sysmerge_stored_articles").fetchone()
        for statement in start:
            connection.execute(statement)
        for rowguid, version in came.items():
            named = dict(zip(("hub", "priority", "lineage", "last", "columns"), version, strict=True))
            named |= {"article": article, "rowguid": rowguid, "before": 0}
            named |= dict(zip(("id", "name"), values[rowguid], strict=True))
            for statement in sql_of_page(1):
                connection.execute(statement, {name: named[name] for name in re.findall(r":(\w+)", statement)})
        for statement in end:
            connection.execute(statement)

    assert len(came) == 2
    columns = "rowguid, origin, priority, lineage, last, colv, own_columns, bases"
    for query in (f"select {columns} from MSmerge_stored_contents", *TABLES[1:2], *TABLES[4:], "select * from item"):
        assert rows_in(other, query) == rows_in(device, query), query
