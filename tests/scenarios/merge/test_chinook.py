"""Representatives' devices with their customers, invoices, lines and tracks, under random edits, cuts and kills."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from builders.merge.merged_databases import Merge, open_file_member, open_server_member
from builders.merge_machines.chinook import Shop
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

SOAK_S = 3600


@pytest.fixture(params=["file", pytest.param("server", marks=[pytest.mark.live, pytest.mark.exhaustive])])
def merged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Merge]:
    """A hub of either kind, and three files."""
    with ExitStack() as opened:
        hub, *devices = (opened.enter_context(open_file_member(tmp_path / f"{n}.db")) for n in range(4))
        if request.param == "server":
            server: EmbeddedServer = request.getfixturevalue("server")
            yield Merge(opened.enter_context(open_server_member(opened.enter_context(fresh_database(server)))), devices)
        else:
            yield Merge(hub, devices)


@pytest.mark.exhaustive
@pytest.mark.parametrize("edits", [12, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_each_representative_has_all_of_its_customers(merged: Merge, edits: int) -> None:
    shop = Shop(merged, Random(edits))
    shop.begin()
    shop.work(edits)

    shop.require_rest()


@pytest.mark.soak
@pytest.mark.timeout(2 * SOAK_S)
def test_an_hour_of_edits_cuts_and_kills_comes_to_rest(merged: Merge) -> None:
    shop = Shop(merged, Random(34))
    shop.begin()
    ends = time.monotonic() + SOAK_S
    while time.monotonic() < ends:
        shop.work(200)
        shop.require_rest()

    assert min(shop.cut, shop.killed) > 30
