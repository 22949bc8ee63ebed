"""Record docs/reference/wire-protocol-vectors.json: the requests and answers of a device in a real synchronisation.

    .venv/bin/python scripts/wire_vectors.py > docs/reference/wire-protocol-vectors.json

A hub in a file and its device exchange inserts, updates, deletes, rows that enter the device's partition, and a
conflict that the device loses. The first request of each call has the device's file as it was before, and the last one
as it was after: SQL that makes the published table, and those of the metadata that the page names.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import rowtide
from rowtide.core.addresses import Address
from rowtide.gateway.client import GatewayClient
from rowtide.gateway.device import Device
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import name_hubs
from rowtide.gateway.tls import TlsOptions

_TABLE = "create table item (id integer primary key, name text, price numeric, picture blob, region text)"
_ROWS = """insert into item values (1, 'ann', 1.10, x'00ff', 'north'), (2, '', '9223372036854775807', null, 'north'),
    (3, null, -0.0, null, 'south')"""
_AT_DEVICE = (
    "update item set name = 'anna' where id = 1",
    "insert into item (id, name, price, region) values (4, 'née \\ \"quoted\"', -12.50, 'north')",
    "delete from item where id = 2",
)
_AT_HUB = (
    "insert into item (id, name, price, region) values (5, 'from the hub', 2, 'north')",
    "update item set region = 'north' where id = 3",
)
_DUMPED = (
    "item",
    "sysmerge_stored_publications",
    "sysmerge_stored_articles",
    "sysmerge_stored_subscriptions",
    "MSmerge_replinfo",
    "MSmerge_stored_contents",
    "MSmerge_stored_tombstone",
)


def _dump(file: Path) -> Iterator[str]:
    """Yield SQL that makes the tables of a device's file that clients read."""
    if not file.exists():
        return
    with closing(sqlite3.connect(file)) as connection:
        for table in _DUMPED:
            yield connection.execute("select sql from sqlite_master where name = ?", (table,)).fetchone()[0]
            columns = ", ".join(
                f"quote({name})" for (name,) in connection.execute("select name from pragma_table_info(?)", (table,))
            )
            # The names are ours.
            for row in connection.execute(f"select {columns} from {table}"):  # noqa: S608
                yield f"insert into {table} values ({', '.join(row)})"  # noqa: S608


def _run(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def _record(folder: Path) -> dict[str, Any]:
    hub, file = folder / "shop.db", folder / "field.db"
    _run(hub, _TABLE, _ROWS)
    merge = rowtide.connect(f"sqlite:///{hub}").merge
    merge.add_publication("shop")
    merge.add_article("shop", "item", where="region = host_name()", column_tracking=True)
    code = merge.add_device("tablet", publication="shop", host_name="north")
    recorded: list[dict[str, Any]] = []
    exchange, hubs = GatewayClient.exchange, name_hubs([f"sqlite:///{hub}"], lambda text: text)

    def recording(client: GatewayClient, step: str, body: bytes, key: str) -> bytes:
        answer = exchange(client, step, body, key)
        recorded.append({"step": step, "key": key, "body": json.loads(body), "answer": json.loads(answer)})
        return answer

    def follow(call: Callable[[], object]) -> None:
        before, first = list(_dump(file)), len(recorded)
        call()
        recorded[first]["before"], recorded[-1]["after"] = before, list(_dump(file))

    with (
        patch.object(GatewayClient, "exchange", recording),
        serving_gateway(hubs, Address("127.0.0.1", 0), TlsOptions()) as at,
        Device(file, f"http://{at}/shop") as device,
    ):
        device.register(code)
        follow(device.sync)
        _run(file, *_AT_DEVICE)
        _run(hub, *_AT_HUB)
        follow(device.sync)
        device.wait(0.1)
        _run(file, "update item set name = 'twice' where id = 5")
        _run(hub, "update item set name = 'first' where id = 5")
        follow(device.sync)
        device.list_conflicts()
        follow(device.sync)
        device.logout()
    return {"code": code, "requests": recorded}


with tempfile.TemporaryDirectory() as made:
    json.dump(_record(Path(made)), sys.stdout, indent=1)
