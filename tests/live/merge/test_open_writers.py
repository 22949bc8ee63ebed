"""Transactions that are open at each depth of joins while generations are closed, on a PostgreSQL hub."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from builders.merge.merged_databases import Merge, open_file_member, open_server_member
from builders.merge_machines.join_machines import COLUMNS, DEFINITIONS, REGIONS, publish, require_belonging
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

pytestmark = pytest.mark.live

ROWS = (
    "insert into employee values (1, null, 'n'), (2, 1, null), (3, null, 's')",
    "insert into customer values (10, 2)",
    "insert into orders values (100, 10)",
    "insert into product values (7, 'a'), (8, 'b')",
    "insert into line values (1000, 100, null, 7)",
)
OPEN = {
    "line": "insert into line (id, order_id, product_id) values (1001, 100, 8)",
    "product": "update line set product_id = 8 where id = 1000",
    "orders": "insert into orders (id, customer_id) values (101, 10)",
    "customer": "insert into customer (id, employee_id) values (11, 2)",
    "employee": "insert into employee (id, manager_id) values (4, 2)",
    "root": "update employee set manager_id = 3 where id = 2",
    "top": "delete from employee where id = 1",
}


@pytest.fixture
def merged(server: EmbeddedServer, tmp_path: Path) -> Iterator[Merge]:
    """A server's database as hub, and a file for each region."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(opened.enter_context(fresh_database(server))))
        files = [opened.enter_context(open_file_member(tmp_path / f"{region}.db")) for region in REGIONS]
        yield Merge(hub, files)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "order",
    [
        ["root", "line", "employee", "orders", "customer", "product", "top"],
        pytest.param(
            ["customer", "top", "orders", "line", "root", "employee", "product"], marks=pytest.mark.exhaustive
        ),
        pytest.param(
            ["top", "product", "employee", "customer", "root", "orders", "line"], marks=pytest.mark.exhaustive
        ),
    ],
    ids=["parent first", "in between", "parent late"],
)
def test_rows_are_judged_when_they_are_committed(merged: Merge, order: list[str]) -> None:
    publish(merged, *DEFINITIONS, *ROWS)
    require_belonging(merged)
    with ExitStack() as opened:
        writers = {name: opened.enter_context(psycopg.connect(merged.hub.url)) for name in OPEN}
        for name, writer in writers.items():
            writer.execute(OPEN[name].encode())
        merged.settle(1)
        require_belonging(merged)
        for name in order:
            writers[name].commit()
            merged.settle(1)
            require_belonging(merged)
    assert all(summary.is_quiet for summary in merged.settle(1))
    assert sum(len(merged.subscribers[1].rows(table)) for table in COLUMNS) == 10
