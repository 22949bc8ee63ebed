"""Defaults, checks, generated columns and keys of altered tables, at subscribers of both kinds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from builders.merge.merged_databases import (
    PUBLICATION,
    FileMember,
    Merge,
    ServerMember,
    open_file_member,
    open_server_member,
)
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

CUSTOMER = "create table customer (id int primary key, name text)"
ORDERS = (
    "create table orders (id int primary key, customer_id int references customer (id), code varchar(5), "
    "total numeric(10,2) default 1, note text, unique (code, note))"
)
ALTERATIONS = (
    "alter table orders alter column total type numeric(20,6), alter column total set default 2.5",
    "alter table orders add column tax numeric(12,3) generated always as (total * 2) stored",
    "alter table orders add column state text not null default 'new' check (state in ('new', 'sent'))",
    "alter table orders add column made timestamptz default now(), add column token uuid default gen_random_uuid()",
    "alter table orders alter column note set default 'none', alter column code set not null",
    "alter table orders add constraint small check (total < 1000)",
)
REFUSED = (sqlite3.IntegrityError, psycopg.errors.CheckViolation, psycopg.errors.NotNullViolation)


@pytest.fixture
def merged(server: EmbeddedServer, tmp_path: Path) -> Iterator[Merge]:
    """A server, with a file and a server as subscribers."""
    with ExitStack() as opened:
        servers = [
            opened.enter_context(open_server_member(opened.enter_context(fresh_database(server)))) for _ in range(2)
        ]
        file = opened.enter_context(open_file_member(tmp_path / "device.db"))
        merge = Merge(servers[0], [file, servers[1]])
        merge.begin(
            CUSTOMER,
            ORDERS,
            "create index by_note on orders (note)",
            "insert into customer values (1, 'a'), (2, 'b')",
            "insert into orders values (1, 1, 'x', 1.10, 'n'), (2, 2, 'y', 12345.67, 'm')",
            customer={},
            orders={},
        )
        yield merge


@pytest.mark.exhaustive
@pytest.mark.live
def test_parts_of_an_altered_table_are_followed(merged: Merge) -> None:
    merged.hub.execute("update orders set total = 12.34 where id = 2", *ALTERATIONS)
    merged.settle(2)
    columns = "id, code, note, state"
    merged.require_equal("orders", columns=columns)
    for device in merged.subscribers:
        assert all(one.is_equal for one in merged.merge.validate(PUBLICATION, device.url, checksum=True))
        number = merged.subscribers.index(device)
        device.execute(f"insert into orders (id, code) values ({10 + number}, 'z{number}')")
        taxes = device.execute("select tax from orders where id < 3 order by id")
        assert [float(tax) for (tax,) in taxes] == [2.2, 24.68]
        for refused in ("'w', 5000, 'new'", "'w', 1, 'other'", "null, 1, 'new'"):
            with pytest.raises(REFUSED):
                device.execute(f"insert into orders (id, code, total, state) values (20, {refused})")
    merged.settle(2)
    new = "select note, state, total from orders where id >= 10 order by id"
    assert merged.hub.execute(new) == merged.subscribers[1].execute(new)
    assert [row[:2] for row in merged.hub.execute(new)] == [("none", "new")] * 2

    merged.hub.execute(
        "alter table orders drop column note, drop column tax, drop column customer_id",
        "alter table orders drop constraint small, alter column total drop default, alter column code drop not null",
    )
    merged.settle(2)
    for device in merged.subscribers:
        device.execute(f"insert into orders (id, total) values ({30 + merged.subscribers.index(device)}, 5000)")
    merged.settle(2)
    for device in merged.subscribers:
        assert all(one.is_equal for one in merged.merge.validate(PUBLICATION, device.url, checksum=True))
    file = merged.subscribers[0]
    assert isinstance(file, FileMember)
    assert isinstance(merged.hub, ServerMember)
    assert file.execute("pragma integrity_check") == [("ok",)]
    assert file.execute("pragma foreign_key_list(orders)") == []


@pytest.mark.live
def test_what_rows_of_a_subscriber_violate_is_left_out(merged: Merge) -> None:
    file = merged.subscribers[0]
    file.execute("insert into orders (id, total) values (7, 7000)")
    merged.hub.execute(
        "update orders set code = coalesce(code, '')",
        "alter table orders alter column code set not null",
        "alter table orders add constraint small check (total < 100000 and code <> 'q')",
    )
    summary = merged.sync(0)
    assert [str(one).partition(":")[0] for one in summary.omissions] == [
        "check small of public.orders",
        "check code not null of public.orders",
    ]
    assert (7, None, 7000) in [(key, code, float(total)) for key, code, total in file.rows("orders", "id, code, total")]
