"""Record docs/reference/wire-protocol-vectors.json: the requests and answers of a device in a real synchronisation.

    .venv/bin/python scripts/wire_vectors.py > docs/reference/wire-protocol-vectors.json

A hub in a file and its device exchange inserts, updates, deletes, rows that enter the device's partition, and a
conflict that the device loses. The first request of each call has the device's file as it was before, and the last one
as it was after: SQL that makes the published table, and those of the metadata that the page names. `others` are
recordings of what happens rarely, each of a hub of its own: see `_OTHERS`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import rowtide
from rowtide.core.addresses import Address
from rowtide.core.errors import RowtideError
from rowtide.gateway import device_sessions
from rowtide.gateway.client import GatewayClient
from rowtide.gateway.device import Device
from rowtide.gateway.http_server import serving_gateway
from rowtide.gateway.hubs import name_hubs
from rowtide.gateway.requests import More, MoreRequest
from rowtide.gateway.tls import TlsOptions
from rowtide.gateway.wire.envelopes import Envelope
from rowtide.gateway.wire.problems import describe

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
_METADATA = (
    "sysmerge_stored_publications",
    "sysmerge_stored_articles",
    "sysmerge_stored_subscriptions",
    "MSmerge_replinfo",
    "MSmerge_stored_contents",
    "MSmerge_stored_tombstone",
)
_CUSTOMER = "create table customer (id integer primary key, name text, note text, region text)"
_INVOICE = """create table invoice (id integer primary key, customer integer not null references customer (id),
    total numeric, region text)"""
_CUSTOMERS = (
    "insert into customer values (1, 'ann', null, 'north'), (2, 'bob', null, 'north'), (3, 'cid', null, 'north')"
)
_INVOICES = "insert into invoice values (1, 1, 10, 'north'), (2, 1, 20, 'north')"


_LITERAL = """iif({0} in (9e999, -9e999), iif({0} > 0, '9e999', '-9e999'),
    iif(typeof({0}) = 'text' and instr({0}, char(0)), 'cast(x''' || hex({0}) || ''' as text)', quote({0})))"""
"""The expression of a value's literal: `quote` has none for infinity, and ends at a character 0."""


def _dump(file: Path, tables: Sequence[str]) -> Iterator[str]:
    """Yield SQL that makes tables of a device's file that clients read."""
    if not file.exists():
        return
    with closing(sqlite3.connect(file)) as connection:
        for table in tables:
            yield connection.execute("select sql from sqlite_master where name = ?", (table,)).fetchone()[0]
            columns = ", ".join(
                _LITERAL.format(name)
                for (name,) in connection.execute("select name from pragma_table_info(?)", (table,))
            )
            # The names are ours.
            for row in connection.execute(f"select {columns} from {table}"):  # noqa: S608
                yield f"insert into {table} values ({', '.join(row)})"  # noqa: S608


def _run(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@dataclass
class _Recording:
    """A hub, its device, and what both said."""

    hub: Path
    file: Path
    code: str
    device: Device
    tables: Sequence[str]
    requests: list[dict[str, Any]] = field(default_factory=list)

    def follow(self, call: Callable[[], object]) -> None:
        """Record the requests of a call, with the file before and after."""
        before, first = list(_dump(self.file, self.tables)), len(self.requests)
        call()
        self.requests[first]["before"] = before
        self.requests[-1]["after"] = list(_dump(self.file, self.tables))

    def at_device(self, *statements: str) -> None:
        _run(self.file, *statements)

    def at_hub(self, *statements: str) -> None:
        _run(self.hub, *statements)


@contextmanager
def _recording(
    folder: Path, statements: Sequence[str], articles: Sequence[str], metadata: Sequence[str] = _METADATA
) -> Iterator[_Recording]:
    """Yield a new hub with a publication of tables, and a device that has a code."""
    hub, file = folder / "shop.db", folder / "field.db"
    folder.mkdir(exist_ok=True)
    _run(hub, *statements)
    merge = rowtide.connect(f"sqlite:///{hub}").merge
    merge.add_publication("shop")
    for article in articles:
        merge.add_article("shop", article, where="region = host_name()", column_tracking=True)
    code = merge.add_device("tablet", publication="shop", host_name="north")
    exchange, hubs = GatewayClient.exchange, name_hubs([f"sqlite:///{hub}"], lambda text: text)

    def recording(client: GatewayClient, step: str, body: bytes, key: str) -> bytes:
        said: dict[str, Any] = {"step": step, "key": key, "body": json.loads(body)}
        made.requests.append(said)
        try:
            answer = exchange(client, step, body, key)
        except RowtideError as error:
            said["problem"] = describe(error)
            raise
        said["answer"] = json.loads(answer)
        return answer

    with (
        patch.object(GatewayClient, "exchange", recording),
        serving_gateway(hubs, Address("127.0.0.1", 0), TlsOptions()) as at,
        Device(file, f"http://{at}/shop") as device,
    ):
        device.client.pause = lambda _seconds: None
        made = _Recording(hub, file, code, device, (*articles, *metadata))
        yield made


def _record(folder: Path) -> dict[str, Any]:
    with _recording(folder, (_TABLE, _ROWS), ("item",)) as made:
        device = made.device
        device.register(made.code)
        made.follow(device.sync)
        made.at_device(*_AT_DEVICE)
        made.at_hub(*_AT_HUB)
        made.follow(device.sync)
        device.wait(0.1)
        made.at_device("update item set name = 'twice' where id = 5")
        made.at_hub("update item set name = 'first' where id = 5")
        made.follow(device.sync)
        device.list_conflicts()
        made.follow(device.sync)
        device.logout()
    return {"code": made.code, "requests": made.requests}


def _exchange_parents(made: _Recording) -> None:
    """Parents and children in both directions, and a delete from the hub."""
    made.at_device(
        "insert into customer values (10, 'dan', null, 'north', '0a000000-0000-4000-8000-000000000010')",
        "insert into invoice values (10, 10, 1.10, 'north', '0a000000-0000-4000-8000-000000000011')",
    )
    made.at_hub(
        "insert into customer (id, name, region) values (20, 'eve', 'north')",
        "insert into invoice (id, customer, total, region) values (20, 20, 2.5, 'north')",
        "delete from invoice where id = 2",
    )
    made.follow(made.device.sync)


def _refuse(made: _Recording) -> None:
    """Triggers refuse a row of the device at the hub, and a row of the hub at the device.

    Then the device has forgotten which row is awaited, and is asked for it; neither refuses any more.
    """
    refusing = "create trigger refusing before insert on invoice when new.id = {} begin select raise(abort, '{}'); end"
    made.at_hub(refusing.format(30, "closed"), "insert into invoice (id, customer, region) values (40, 2, 'north')")
    made.at_device(refusing.format(40, "full"), "insert into invoice (id, customer, region) values (30, 3, 'north')")
    made.follow(made.device.sync)
    made.follow(made.device.sync)
    made.at_hub("drop trigger refusing")
    made.at_device(
        "drop trigger refusing",
        "insert into MSmerge_agent values (1)",
        "delete from MSmerge_retries where source = (select nickname from MSmerge_replinfo)",
        "delete from MSmerge_agent",
    )
    made.follow(made.device.sync)
    made.follow(made.device.sync)


def _leave(made: _Recording) -> None:
    """A row leaves the device's partition: the acknowledgement says which."""
    made.at_hub("update customer set region = 'south' where id = 2")
    made.follow(made.device.sync)


def _divide(made: _Recording) -> None:
    """A download of two answers; then one that the gateway has no more."""
    made.at_hub("update customer set note = 'first'", "update invoice set total = 7")
    with patch.object(device_sessions, "ROWS_EACH", 1):
        made.follow(made.device.sync)
    made.device.client.attempts = 1
    with suppress(RowtideError):
        made.device.client.ask("more", Envelope(MoreRequest(1, 1, 1)), More)


def _count_on(made: _Recording) -> None:
    """An update in the device's eleventh generation or later, whose number has hexadecimal digits beyond 9."""
    for number in range(9):
        made.at_device(f"update customer set name = {number} where id = 1")  # noqa: S608 - a number
        made.device.sync()
    made.requests.clear()
    made.at_device("update customer set note = 'of the device' where id = 1")
    made.follow(made.device.sync)


def _alter(made: _Recording) -> None:
    """The hub has a new column."""
    made.at_hub("alter table customer add column phone text", "update customer set phone = '112' where id = 1")
    made.at_device("update customer set note = 'before' where id = 2")
    made.follow(made.device.sync)


def _restore(made: _Recording) -> None:
    """A file that was restored from a backup."""
    copy = made.file.with_name("backup.db")
    shutil.copyfile(made.file, copy)
    made.at_device("update customer set note = 'later' where id = 1")
    made.device.sync()
    made.device.close()
    for end in ("-wal", "-shm"):
        made.file.with_name(f"{made.file.name}{end}").unlink(missing_ok=True)
    shutil.copyfile(copy, made.file)
    made.requests.clear()
    with suppress(RowtideError):
        made.device.sync()


_SAMPLE = """create table sample (id integer primary key, flag boolean, ratio double precision, seen datetime,
    photo blob, amount numeric, anything, region text)"""
_SAMPLES = (
    "(1, 1, 1e300, '2026-11-23 19:44:00', x'00ff', 9e999, 1, 'north')",
    "(2, 0, -9e999, null, x'', -0.5, 'it''s', 'north')",
    "(3, 2, 'abc', x'4142', 'text in blob', 'abc', x'00ff', 'north')",
    "(4, 'yes', 0.1, '', '\\x4142', x'43', 1.5, 'north')",
    "(5, null, 2.0, 'a', -12, 1.5, null, 'north')",
    "(6, null, 'NaN', 'a' || char(0) || 'b', 1e300, 9223372036854775807, 9e999, 'north')",
)


def _exchange_types(made: _Recording) -> None:
    """Values of several types, and of other storage classes than their columns', in both directions."""
    insert = "insert into sample (id, flag, ratio, seen, photo, amount, anything, region) values "
    made.at_hub(insert + ", ".join(_SAMPLES))
    made.follow(made.device.sync)
    made.at_device("update sample set region = region || '' where true")
    made.follow(made.device.sync)


_OTHERS: Mapping[str, Callable[[_Recording], None]] = {
    "parents": _exchange_parents,
    "refusals": _refuse,
    "leaving": _leave,
    "more": _divide,
    "generations": _count_on,
    "follow": _alter,
    "restored": _restore,
    "types": _exchange_types,
}


_OF_TYPES = "types"


def _record_other(folder: Path, happens: Callable[[_Recording], None]) -> Sequence[dict[str, Any]]:
    statements: Sequence[str] = (_CUSTOMER, _INVOICE, _CUSTOMERS, _INVOICES)
    articles: Sequence[str] = ("customer", "invoice")
    if folder.name == _OF_TYPES:
        statements, articles = (_SAMPLE,), ("sample",)
    kept = ("sysmerge_stored_subscriptions", "MSmerge_stored_contents", "MSmerge_stored_tombstone", "MSmerge_retries")
    with _recording(folder, statements, articles, kept) as made:
        made.device.register(made.code)
        made.device.sync()
        made.requests.clear()
        happens(made)
    return made.requests


with tempfile.TemporaryDirectory() as made_folder:
    base = Path(made_folder)
    found = _record(base)
    found["others"] = {name: _record_other(base / name, happens) for name, happens in _OTHERS.items()}
    json.dump(found, sys.stdout, indent=1)
