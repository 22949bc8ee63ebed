"""Synchronisations of devices by a gateway, with each kind of hub."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from builders.commands.checks import run_mend
from builders.gateway.served_hubs import HUB, Gateway, serving_hub
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.gateway.client import make_request_key, send_plain
from rowtide.gateway.device import Device
from rowtide.gateway.errors import DeviceHasFile, DeviceNotRegistered
from rowtide.gateway.limits import GatewayLimits
from rowtide.gateway.requests import DeviceFile, FileRequest
from rowtide.gateway.wire.envelopes import pack
from rowtide.handle import connect
from rowtide.merge.definitions import devices
from rowtide.merge.errors.devices import DeviceFileDiffers, DeviceRevoked, TokenOfAnother, TokenRefused
from rowtide.merge.errors.nodes import NodeRestored
from rowtide.merge.nodes.connecting import open_node

TABLE = "create table item (id integer primary key, name text, region varchar(10))"
ROWS = "insert into item (id, name, region) values (1, 'a', 'north'), (2, 'b', 'south'), (3, 'it''s', 'o''hara')"
COLUMNS = "id, name, region"
STRANGE = ("", "-0.0", "9223372036854775807", "0044-03-15 BC", "é😀", '"\\', "it's", "x" * 100_000)


def publish(merged: Merge) -> None:
    merged.hub.execute(TABLE, ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item", where="region = host_name()")


@pytest.fixture
def gateway(merged: Merge) -> Iterator[Gateway]:
    """A gateway, with one publication that is filtered."""
    publish(merged)
    with serving_hub(merged, limits=GatewayLimits(requests_per_minute=10_000)) as served:
        yield served


def device(gateway: Gateway, path: Path, name: str = "tablet", host_name: str = "north") -> Device:
    """Return a new device, which is registered and has no file."""
    made = Device(path, gateway.url)
    made.client.pause = gateway.pauses.append
    made.register(gateway.merged.merge.add_device(name, publication=PUBLICATION, host_name=host_name))
    return made


def rows(path: Path, sql: str = f"select {COLUMNS} from item order by id") -> list[Any]:
    with closing(sqlite3.connect(path)) as program:
        return program.execute(sql).fetchall()


def write(path: Path, *statements: str, values: tuple[Any, ...] = ()) -> None:
    with closing(sqlite3.connect(path)) as program:
        for sql in statements:
            program.execute(sql, values)
        program.commit()


def at_hub(gateway: Gateway, region: str = "north") -> list[Any]:
    return [row for row in gateway.merged.hub.rows("item", COLUMNS) if row[2] == region]


def test_a_device_begins_with_nothing_and_changes_go_both_ways(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        assert rows(path) == [(1, "a", "north")]
        write(
            path,
            "update item set name = 'A' where id = 1",
            "insert into item (id, name, region) values (4, 'd', 'north')",
        )
        gateway.merged.hub.execute("insert into item (id, name, region) values (5, 'e', 'north'), (6, 'f', 'south')")
        before = tablet.client.requests
        summary = tablet.sync()
        assert (summary.upload.total.moved, summary.download.total.moved) == (2, 1)
        tablet.sync()
        # An acknowledgement that says no more than that all came is left to the next request.
        assert tablet.client.requests - before == 2
    assert rows(path) == at_hub(gateway) == [(1, "A", "north"), (4, "d", "north"), (5, "e", "north")]


def test_values_arrive_exactly(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        for number, value in enumerate(STRANGE, 10):
            write(path, "insert into item (id, name, region) values (?, ?, 'north')", values=(number, value))
        write(path, "insert into item (id, name, region) values (50, null, 'north')")
        tablet.sync()
    assert [row[1] for row in at_hub(gateway) if row[0] >= 10] == [*STRANGE, None]


def test_a_partition_is_the_tokens_whatever_it_is_called(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path, host_name="o'hara") as tablet:
        tablet.sync()
    assert rows(path) == [(3, "it's", "o'hara")]


def test_direct_and_gateway_synchronise_one_file_in_turn(gateway: Gateway) -> None:
    merged = gateway.merged
    member = next(one for one in merged.subscribers if one.url.startswith("sqlite"))
    merged.merge.add_subscription(PUBLICATION, member.url, host_name="north")
    path = Path(member.url.removeprefix("sqlite:///"))
    with device(gateway, path) as tablet:
        for number in range(10, 14):
            member.execute(f"insert into item (id, name, region) values ({number}, 'x', 'north')")
            if number % 2:
                tablet.sync()
            else:
                merged.merge.sync(PUBLICATION, member.url)
            merged.hub.execute(f"update item set name = 'y' where id = {number}")
        tablet.sync()
        assert merged.merge.sync(PUBLICATION, member.url).is_quiet
    assert rows(path) == at_hub(gateway)


def test_a_lost_file_is_replaced_only_if_that_is_said(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        tablet.sync()
        path.unlink()
        with pytest.raises(DeviceHasFile):
            tablet.sync()
        tablet.sync(replace=True)
        write(path, "update item set name = 'new' where id = 1")
        tablet.sync()
    assert at_hub(gateway) == [(1, "new", "north")]
    listed = [one for one in gateway.merged.merge.status(PUBLICATION) if one.subscriber is not None]
    assert len(listed) == 1


def test_a_copied_file_is_refused(gateway: Gateway, tmp_path: Path) -> None:
    path, copy = tmp_path / "field.db", tmp_path / "copy.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        shutil.copy(path, copy)
        for _ in range(2):
            tablet.sync()
        copied = Device(copy, gateway.url, tablet.client.token)
        with copied, pytest.raises(NodeRestored):
            copied.sync()
        with device(gateway, copy, "other") as other, pytest.raises(NodeRestored):
            other.sync()


ALONE = """select id, name, region from item where rowguid in (
    select rowguid from MSmerge_log union all
    select rowguid from MSmerge_stored_contents
    where origin is null and stamp > (select sentgen from sysmerge_stored_subscriptions))"""
"""What a file has that its hub does not, as the page about clients says."""


def test_a_new_file_takes_what_a_restored_one_had(gateway: Gateway, tmp_path: Path) -> None:
    path, backup = tmp_path / "field.db", tmp_path / "backup.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        write(path, "insert into item (id, name, region) values (10, 'before', 'north')")
        tablet.sync()
        shutil.copy(path, backup)
        write(path, "insert into item (id, name, region) values (11, 'after', 'north')")
        tablet.sync()
        shutil.copy(backup, path)
        write(path, "insert into item (id, name, region) values (12, 'alone', 'north')")
        with pytest.raises(NodeRestored, match="was restored"):
            tablet.sync()

        alone = rows(path, ALONE)
        assert alone == [(12, "alone", "north")]
        path.unlink()
        tablet.sync(replace=True)
        write(path, *(f"insert into item (id, name, region) values {one}" for one in alone))
        tablet.sync()
    assert [row[1] for row in rows(path)] == ["a", "before", "after", "alone"]
    assert at_hub(gateway) == rows(path)


def test_another_devices_file_is_refused(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        tablet.sync()
    stolen = tmp_path / "south.db"
    with device(gateway, stolen, "thief", "south") as thief:
        shutil.copy(path, stolen)
        with pytest.raises(DeviceFileDiffers):
            thief.sync()


def test_a_token_is_for_one_publication(gateway: Gateway, tmp_path: Path) -> None:
    merged, path = gateway.merged, tmp_path / "field.db"
    merged.hub.execute("create table other (id integer primary key)")
    merged.merge.add_publication("second")
    merged.merge.add_article("second", "other")
    with device(gateway, path) as tablet:
        merged.merge.add_subscription("second", f"sqlite:///{path}")
        tablet.publication = "second"
        with pytest.raises(TokenOfAnother):
            tablet.sync()


def test_a_revoked_device_loses_nothing(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        tablet.sync()
        write(path, "update item set name = 'kept' where id = 1")
        gateway.merged.merge.revoke_device("tablet")
        with pytest.raises(DeviceRevoked):
            tablet.sync()
        assert at_hub(gateway) == [(1, "a", "north")]
        tablet.register(gateway.merged.merge.rotate_token("tablet"))
        tablet.sync()
    assert at_hub(gateway) == [(1, "kept", "north")]


def test_health_says_of_a_device_that_is_refused_for_hours(gateway: Gateway, tmp_path: Path) -> None:
    hub = gateway.merged.hub
    with device(gateway, tmp_path / "field.db") as tablet:
        tablet.sync()
        (status,) = gateway.merged.merge.status(PUBLICATION)
        assert (status.device, status.tokens_refused) == ("tablet", 0)
        assert status.last_contact is not None
        assert status.client_version
        # Its next request comes hours later, with another secret.
        tablet.client.token = tablet.client.token[:-1] + ("A" if tablet.client.token[-1] != "A" else "B")
        with pytest.raises(TokenRefused):
            tablet.sync()
        with open_node(hub.url) as node, node.transaction():
            hours_ago = datetime.now(UTC) - timedelta(hours=5)
            node.connection.execute(update(devices).values(last_contact=hours_ago))
        (refused,) = [one for one in connect(hub.url).health() if one.subject == "merge device tablet"]
        assert "its last contact: 5 hours ago; requests refused since then, for their token: 1" in refused.message
        run_mend(refused, hub.url)
        tablet.register(gateway.merged.merge.rotate_token("tablet"))
        tablet.sync()
    assert [one for one in connect(hub.url).health() if one.subject == "merge device tablet"] == []


def test_a_device_without_a_token_says_how_to_get_one(gateway: Gateway, tmp_path: Path) -> None:
    with Device(tmp_path / "field.db", gateway.url) as unknown, pytest.raises(DeviceNotRegistered, match="--code CODE"):
        unknown.sync()


def test_a_row_of_twenty_megabytes_goes_both_ways(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        write(path, "update item set name = hex(randomblob(10000000)) where id = 1")
        tablet.sync()
        assert [len(row[1]) for row in at_hub(gateway)] == [20_000_000]
        gateway.merged.hub.execute("update item set name = name || 'x' where id = 1")
        tablet.sync()
    assert [len(row[1]) for row in rows(path)] == [20_000_001]


def test_a_large_download_comes_in_several_answers(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        many = ", ".join(f"({number}, 'x', 'north')" for number in range(100, 25_100))
        gateway.merged.hub.execute(f"insert into item (id, name, region) values {many}")
        before = tablet.client.requests
        assert tablet.sync().download.total.inserts == 25_000
        assert tablet.client.requests - before == 2
    assert len(rows(path)) == 25_001


def test_a_bomb_and_too_many_rows_are_refused(gateway: Gateway, tmp_path: Path) -> None:
    token = device(gateway, tmp_path / "field.db").client.token
    bomb, _ = pack(bytes(300_000_000))
    headers = {"Authorization": f"Bearer {token}", "Content-Encoding": "gzip"}
    status, _, body = gateway.send("POST", f"/{HUB}/sync", bomb, headers)
    assert (status, json.loads(body)["code"]) == (413, "RT-8412")


def test_a_refused_row_blocks_nothing(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    merged = gateway.merged
    with device(gateway, path) as tablet:
        tablet.sync()
        merged.hub.execute("create unique index item_name on item (name)")
        write(path, "insert into item (id, name, region) values (10, 'b', 'north'), (11, 'good', 'north')")
        summary = tablet.sync()
        assert [refused.change.rowguid for refused in summary.upload.refused]
        assert (11, "good", "north") in at_hub(gateway)
        merged.hub.execute("update item set name = 'other' where id = 2")
        tablet.sync()
    assert (10, "b", "north") in at_hub(gateway)


def test_files_of_devices_are_readable_by_their_device_alone(gateway: Gateway, tmp_path: Path) -> None:
    with device(gateway, tmp_path / "field.db") as tablet:
        tablet.sync()
    other = device(gateway, tmp_path / "other.db", "other").client.token
    name = f"{tablet.client.token[4:14]}-{'0' * 24}.db.gz"
    for asked in (name, "../../etc/passwd", f"{other[4:14]}-{'0' * 24}.db.gz"):
        status, _, _ = gateway.send("GET", f"/{HUB}/files/{asked}", headers={"Authorization": f"Bearer {other}"})
        assert status == 404
    status, _, _ = gateway.send("GET", f"/{HUB}/files/{name}")
    assert status == 401


def test_ranges_of_a_file_are_those_that_devices_ask_for(merged: Merge, tmp_path: Path) -> None:
    """Others are ignored, as a list of ranges, or refused: each answer but a success is a problem document."""
    publish(merged)
    folder = tmp_path / "files"
    with serving_hub(merged, files=str(folder)) as gateway:
        client = gateway.add("tablet", host_name="north")
        said = send_plain(client, "file", FileRequest(), DeviceFile, key=make_request_key())
        whole = (folder / said.name).read_bytes()

        def get(name: str, **headers: str) -> tuple[int, str | None, bytes]:
            headers = {"Authorization": f"Bearer {client.token}", **headers}
            status, had, body = gateway.send("GET", f"/{HUB}/files/{name}", headers=headers)
            return status, had["content-range"], body

        size = len(whole)
        assert get(said.name, Range="bytes=100-") == (206, f"bytes 100-{size - 1}/{size}", whole[100:])
        assert get(said.name, Range="bytes=5-9") == (206, f"bytes 5-9/{size}", whole[5:10])
        assert get(said.name, Range=f"bytes=5-{size * 9}") == (206, f"bytes 5-{size - 1}/{size}", whole[5:])
        for ignored in ("bytes=0-1,3-4", "bytes=5-2", "bytes=-5", "bytes=x", "rows=1-2", "bytes=" + "9" * 30 + "-"):
            assert get(said.name, Range=ignored) == (200, None, whole), ignored
        status, ranged, body = get(said.name, Range=f"bytes={size}-")
        assert (status, ranged, json.loads(body)["code"]) == (416, f"bytes */{size}", "RT-8445")
        link = folder / f"{client.token[4:14]}-{'0' * 24}.db.gz"
        link.symlink_to(folder / said.name)
        (folder / "gone.db.gz").symlink_to(tmp_path / "nothing")
        assert get(link.name)[0] == 404
        other = gateway.add("other", host_name="north")
        assert send_plain(other, "file", FileRequest(), DeviceFile, key=make_request_key()).size > 0


def test_a_device_follows_a_changed_schema_with_its_rows(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        write(path, "update item set name = 'offline' where id = 1")
        gateway.merged.merge.alter_article(PUBLICATION, "item", "add column note varchar(20) default 'new'")
        tablet.sync()
    assert rows(path, "select id, name, note from item") == [(1, "offline", "new")]
    assert (1, "offline", "north") in at_hub(gateway)


def test_a_dropped_columns_unsent_value_is_kept_at_both_ends(gateway: Gateway, tmp_path: Path) -> None:
    path = tmp_path / "field.db"
    with device(gateway, path) as tablet:
        tablet.sync()
        write(path, "update item set name = 'offline' where id = 1")
        gateway.merged.merge.alter_article(PUBLICATION, "item", "drop column name")
        tablet.sync()
    assert rows(path, "select name from pragma_table_info('item') where name in ('id', 'name')") == [("id",)]
    for url in (gateway.merged.hub.url, f"sqlite:///{path}"):
        (conflict,) = connect(url).merge.list_conflicts(PUBLICATION)
        losing = json.loads(conflict.losing_row or "")
        assert (conflict.reason_code, losing["name"]) == ("RT-8188", "offline"), url
