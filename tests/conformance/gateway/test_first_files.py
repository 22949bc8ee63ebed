"""First files of devices that are cut on their way, with each kind of hub."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from builders.gateway.served_hubs import serving_hub
from builders.merge.merged_databases import PUBLICATION, FileMember, Merge
from rowtide.gateway.client import MOST_ATTEMPTS, GatewayClient
from rowtide.gateway.device import Device
from rowtide.gateway.device_files import DeviceFiles
from rowtide.gateway.errors import GatewayNotReached
from rowtide.merge.devices.credentials import read_token

RANDOM = {
    True: "lower(hex(randomblob(200)))",
    False: "(select string_agg(md5(random()::text || n.id || g), '') from generate_series(1, 12) g)",
}
NUMBERS = "with recursive n (id) as (select 1 union all select id + 1 from n where id < 1500)"


@dataclass(slots=True)
class CutClient(GatewayClient):
    """A client on a network that is cut after some bytes of a file."""

    left: int = 0

    def fetch(self, path: str, begin: int) -> Iterator[bytes]:
        for piece in GatewayClient.fetch(self, path, begin):
            yield piece[: self.left]
            self.left -= len(piece)
            if self.left <= 0:
                raise GatewayNotReached(self.url, "it was cut")


@pytest.fixture
def merged_items(merged: Merge) -> Merge:
    """A hub with rows that cannot be compressed."""
    random = RANDOM[isinstance(merged.hub, FileMember)]
    merged.hub.execute(
        "create table item (id integer primary key, name text)",
        f"insert into item (id, name) {NUMBERS} select n.id, {random} from n",
    )
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item")
    return merged


def count(path: Path) -> Any:
    with closing(sqlite3.connect(path)) as program:
        return program.execute("select count(*) from item").fetchone()[0]


@pytest.mark.parametrize("folder", ["shared", "another"])
def test_a_cut_file_goes_on_in_another_process(merged_items: Merge, tmp_path: Path, folder: str) -> None:
    path, files = tmp_path / "device" / "field.db", tmp_path / "files"
    for made in (path.parent, files, tmp_path / "another"):
        made.mkdir()
    with serving_hub(merged_items, files=str(files)) as gateway, Device(path, gateway.url) as tablet:
        tablet.register(merged_items.merge.add_device("tablet", publication=PUBLICATION))
        token = tablet.client.token
        tablet._client = CutClient(gateway.url, token, attempts=1, pause=lambda _seconds: None, left=100_000)
        with pytest.raises(GatewayNotReached, match="cut"):
            tablet.sync()
    assert not path.exists()
    (part,) = path.parent.glob("*.part")
    had = part.stat().st_size
    assert had == 100_000
    size = next(files.glob("*.gz")).stat().st_size
    where = files if folder == "shared" else tmp_path / "another"
    with serving_hub(merged_items, files=str(where)) as gateway, Device(path, gateway.url) as tablet:
        tablet.sync()
        if folder == "shared":
            assert tablet.client.received_bytes < size - had + 10_000
    assert count(path) == 1500
    assert sorted(one.name for one in path.parent.iterdir()) == ["field.db", "field.db.token"]


def test_a_file_that_takes_long_to_make_is_waited_for(merged_items: Merge, tmp_path: Path) -> None:
    files, paused = tmp_path / "files", 0
    with (
        serving_hub(merged_items, files=str(files)) as gateway,
        Device(tmp_path / "field.db", gateway.url) as tablet,
        ExitStack() as making,
    ):
        tablet.register(merged_items.merge.add_device("tablet", publication=PUBLICATION))
        credential = read_token(tablet.client.token)
        assert credential is not None
        making.enter_context(DeviceFiles(files)._alone(credential.device_id))

        def pause(_seconds: float) -> None:
            nonlocal paused
            paused += 1
            if paused == 3 * MOST_ATTEMPTS:
                making.close()

        tablet.client.pause = pause
        tablet.sync()
    assert paused == 3 * MOST_ATTEMPTS
    assert count(tmp_path / "field.db") == 1500
