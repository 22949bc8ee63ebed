"""Uploads of devices in several requests, with each kind of hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builders.commands.hints import run_printed
from builders.gateway.served_hubs import Gateway, run_at, serving_hub
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.gateway import device_files
from rowtide.gateway.client import GatewayClient
from rowtide.gateway.device import Device
from rowtide.gateway.errors import BodyTooLarge, GatewayNotReached
from rowtide.gateway.limits import GatewayLimits
from rowtide.merge.articles import FilterType
from rowtide.merge.errors.rows import LogicalRecordsTooLarge

TABLES = (
    "create table part (id integer primary key, name text not null unique, above integer references part (id))",
    "create table piece (id integer primary key, part_id integer not null references part (id))",
)
FEW = GatewayLimits(rows=10, requests_per_minute=10_000)


@pytest.fixture
def gateway(merged: Merge) -> Iterator[Gateway]:
    """A gateway that takes ten rows with one request."""
    merged.hub.execute(*TABLES)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "part")
    merged.merge.add_article(PUBLICATION, "piece")
    with serving_hub(merged, limits=FEW) as served:
        yield served


def device_of(gateway: Gateway, path: Path) -> Device:
    """Return a device with its file."""
    made = Device(path, gateway.url)
    made.client.pause = gateway.pauses.append
    made.register(gateway.merged.merge.add_device("tablet", publication=PUBLICATION))
    made.sync()
    return made


def another(gateway: Gateway, path: Path) -> Device:
    """Return the same device in another process."""
    made = Device(path, gateway.url)
    made.client.pause = gateway.pauses.append
    return made


@dataclass(slots=True)
class CutClient(GatewayClient):
    """A client on a network that is cut after some requests, before or after the last of them has arrived."""

    left: int = 0
    arrives: bool = False

    def exchange(self, step: str, body: bytes, key: str) -> bytes:
        if self.left == 0:
            if self.arrives:
                GatewayClient.exchange(self, step, body, key)
            raise GatewayNotReached(self.url, "it was cut")
        answer = GatewayClient.exchange(self, step, body, key)
        self.left -= 1
        return answer


def insert(path: Path, first: int, last: int) -> None:
    numbered = f"with recursive n (id) as (values ({first}) union all select id + 1 from n where id < {last})"
    run_at(path, f"{numbered} insert into part (id, name) select id, 'n' || id from n")


def rows(path: Path, table: str = "part") -> list[Any]:
    return run_at(path, f"select * from {table} order by id")


def at_hub(gateway: Gateway, table: str = "part") -> list[Any]:
    columns = "id, name, above" if table == "part" else "id, part_id"
    return sorted(gateway.merged.hub.rows(table, columns))


def visible(path: Path, table: str = "part") -> list[Any]:
    return [row[:3] if table == "part" else row[:2] for row in rows(path, table)]


def test_an_upload_of_any_size_goes(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device_of(gateway, path) as tablet:
        insert(path, 1, 40)
        summary = tablet.sync()
        assert summary.upload.total.inserts == 40
        assert not summary.upload.refused
        assert at_hub(gateway) == visible(path)
        assert len(at_hub(gateway)) == 40
        # One synchronisation is one entry, whatever its number of requests.
        listed = [one for one in gateway.merged.merge.list_history(PUBLICATION) if one.article is not None]
        assert [(one.state, one.article, one.phase, one.inserts) for one in listed] == [
            ("succeeded", "part", "upload", 40)
        ]
        before = tablet.client.requests
        assert tablet.sync().is_quiet
        assert tablet.client.requests - before == 1


@pytest.mark.parametrize("arrives", [False, True], ids=["request lost", "answer lost"])
def test_a_cut_upload_goes_on_after_what_was_confirmed(gateway: Gateway, tmp_path: Path, *, arrives: bool) -> None:
    path = tmp_path / "field.db"
    with device_of(gateway, path) as tablet:
        insert(path, 1, 64)
        tablet._client = CutClient(gateway.url, tablet.client.token, attempts=1, left=6, arrives=arrives)
        with pytest.raises(GatewayNotReached, match="cut"):
            tablet.sync()
    there = len(at_hub(gateway))
    assert 20 < there < 64
    last = max(gateway.merged.merge.list_history(PUBLICATION), key=lambda one: one.session_id)
    assert (last.state, last.inserts) == ("running", there)
    run_at(path, "update part set name = 'again' where id = 1", "delete from part where id = 2")
    with serving_hub(gateway.merged, limits=FEW) as elsewhere, another(elsewhere, path) as tablet:
        summary = tablet.sync()
        # What had come is not sent again, but for the part whose answer was lost.
        assert summary.upload.total.inserts == 64 - there
        assert tablet.client.requests < 15
        assert at_hub(gateway) == visible(path)
        assert tablet.sync().is_quiet
    assert not [each for each in tmp_path.iterdir() if each.name.endswith(".sending")]


def test_rows_that_need_later_ones_are_not_refused(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device_of(gateway, path) as tablet:
        insert(path, 1, 8)
        tablet.sync()
        # Some have the unique value of another; the new ones have a row above them that may come later.
        run_at(
            path,
            "update part set name = 'x' || id where id < 5",
            "update part set name = 'n' || (5 - id) where id < 5",
            "insert into part (id, name) select id + 100, 'new ' || id from part",
            "update part set above = id + 1 where id between 101 and 107",
            "insert into piece (id, part_id) select id, id from part",
        )
        summary = tablet.sync()
        assert not summary.upload.refusals
        assert summary.upload.total.conflicts == 0
        assert at_hub(gateway) == visible(path)
        assert at_hub(gateway, "piece") == visible(path, "piece")
        assert not gateway.merged.merge.list_conflicts(PUBLICATION)


def test_one_row_that_is_too_large_is_named(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    small = GatewayLimits(body_bytes=10_000)
    with device_of(gateway, path), serving_hub(gateway.merged, limits=small) as narrow:
        insert(path, 1, 3)
        run_at(path, "insert into part (id, name) values (4, hex(randomblob(20000)))")
        with another(narrow, path) as narrowed, pytest.raises(BodyTooLarge):
            narrowed.sync()
        assert len(at_hub(gateway)) in (2, 3)


ORDERS = (
    "create table orders (id integer primary key, note varchar(20))",
    "create table line (id integer primary key, order_id integer not null references orders (id), qty integer)",
)


@pytest.fixture
def ordered(merged: Merge) -> Iterator[Gateway]:
    """A gateway that takes ten rows with one request; an order and its lines are one record."""
    merged.hub.execute(*ORDERS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "orders", record_conflict_resolution=True)
    merged.merge.add_article(PUBLICATION, "line")
    merged.merge.add_filter(PUBLICATION, "line", "orders", "line.order_id = orders.id", filter_type=FilterType.RECORD)
    with serving_hub(merged, limits=FEW) as served:
        yield served


def order(path: Path, first: int, last: int) -> None:
    """Insert orders with five lines each."""
    numbered = f"with recursive n (id) as (values ({first}) union all select id + 1 from n where id < {last})"
    times = "with recursive n (id) as (values (1) union all select id + 1 from n where id < 5)"
    run_at(
        path,
        f"{numbered} insert into orders (id, note) select id, 'new' from n",
        f"{times} insert into line (id, order_id, qty) select o.id * 10 + n.id, o.id, 1 from orders o, n "
        f"where o.id between {first} and {last}",
    )


def orders_at_hub(gateway: Gateway) -> tuple[list[Any], list[Any]]:
    hub = gateway.merged.hub
    return sorted(hub.rows("orders", "id, note")), sorted(hub.rows("line", "id, order_id, qty"))


def orders_of(path: Path) -> tuple[list[Any], list[Any]]:
    return [row[:2] for row in rows(path, "orders")], [row[:3] for row in rows(path, "line")]


def test_logical_records_come_whole_of_several_parts(ordered: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device_of(ordered, path) as tablet:
        order(path, 1, 8)
        tablet._client = CutClient(ordered.url, tablet.client.token, attempts=1, left=3)
        with pytest.raises(GatewayNotReached, match="cut"):
            tablet.sync()
    assert orders_at_hub(ordered) == ([], [])
    # What has come is changed before the rest: rows that are gone, and one in another order.
    run_at(path, "update orders set note = 'more' where id = 1", "delete from line where id = 11")
    run_at(path, "update line set order_id = 3 where id = 21", "delete from line where order_id = 8")
    run_at(path, "delete from orders where id = 8")
    with another(ordered, path) as tablet:
        summary = tablet.sync()
        assert not summary.upload.refusals
        assert tablet.client.requests < 10
        assert orders_at_hub(ordered) == orders_of(path)
        assert len(orders_at_hub(ordered)[1]) == 34
        assert tablet.sync().is_quiet
        run_at(path, "update line set qty = 2", "update orders set note = 'again'")
        tablet.sync()
        assert orders_at_hub(ordered) == orders_of(path)
    assert not ordered.merged.merge.list_conflicts(PUBLICATION)


def test_parts_that_another_gateway_has_come_again(ordered: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device_of(ordered, path) as tablet:
        order(path, 1, 4)
        tablet._client = CutClient(ordered.url, tablet.client.token, attempts=1, left=2)
        with pytest.raises(GatewayNotReached):
            tablet.sync()
    with serving_hub(ordered.merged, limits=FEW) as elsewhere, another(elsewhere, path) as tablet:
        tablet.sync()
        assert orders_at_hub(ordered) == orders_of(path)
        assert len(orders_at_hub(ordered)[1]) == 20
        assert tablet.sync().is_quiet


def test_records_whose_last_answer_was_lost_are_there_once(ordered: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device_of(ordered, path) as tablet:
        order(path, 1, 2)
        tablet._client = CutClient(ordered.url, tablet.client.token, attempts=1, left=2, arrives=True)
        with pytest.raises(GatewayNotReached):
            tablet.sync()
    with another(ordered, path) as tablet:
        tablet.sync()
        assert tablet.client.requests <= 3
        assert orders_at_hub(ordered) == orders_of(path)
    assert not ordered.merged.merge.list_conflicts(PUBLICATION)


def test_kept_parts_are_counted_as_they_are_unpacked(
    ordered: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sends one letter again and again keeps little on the disk, and would take all memory at the end."""
    path = tmp_path / "field.db"
    monkeypatch.setattr(device_files, "MOST_KEPT_BYTES", 50_000)
    note = "x" * 20
    with device_of(ordered, path) as tablet:
        run_at(path, *(f"insert into orders (id, note) values ({key}, '{note}')" for key in range(2000)))
        with pytest.raises(LogicalRecordsTooLarge, match="50,000 bytes") as refused:
            tablet.sync()
        assert orders_at_hub(ordered) == ([], [])
        url = ordered.merged.hub.url
        run_printed(refused.value, url, FILE=f"sqlite:///{path}", URL=url)
        assert len(orders_at_hub(ordered)[0]) == 2000
        tablet.sync()
