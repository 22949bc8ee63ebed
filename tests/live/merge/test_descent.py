"""What a PostgreSQL hub reads for a change at the top of several joins is what follows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.merge.merged_databases import PUBLICATION, Merge, open_file_member, open_server_member
from builders.servers.server_reads import count_read
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

pytestmark = pytest.mark.live

ROWS = 8000
CHANGED = 10
LEVELS = {"grade": "grade", "item": "grade", "line": "item", "detail": "line"}


@pytest.fixture
def merged(server: EmbeddedServer, tmp_path: Path) -> Iterator[Merge]:
    """Grades, items, lines and details, each of which follows the one above with its number; all have an owner."""
    with (
        fresh_database(server) as url,
        open_server_member(url) as hub,
        open_file_member(tmp_path / "member.db") as subscriber,
    ):
        merged = Merge(hub, [subscriber])
        merged.merge.add_publication(PUBLICATION)
        for table, parent in LEVELS.items():
            hub.execute(
                f"create table {table} (id integer primary key, {parent}_id integer, qty integer)",
                f"insert into {table} select n, case when '{table}' <> '{parent}' then n "
                f"when n > {ROWS // 2} then n - {ROWS // 2} end, 0 from generate_series(1, {ROWS}) n",
                f"create index on {table} ({parent}_id)",
                f"analyze {table}",
            )
            merged.merge.add_article(PUBLICATION, table, where="grade_id is null" if table == "grade" else None)
        for table, parent in LEVELS.items():
            name = "parent" if table == parent else parent
            merged.merge.add_filter(PUBLICATION, table, parent, f"{table}.{parent}_id = {name}.id")
        merged.merge.add_subscription(PUBLICATION, subscriber.url)
        hub.execute("vacuum analyze")
        yield merged


@pytest.mark.exhaustive
def test_a_change_reads_what_follows_it(merged: Merge) -> None:
    merged.sync()
    for changed in LEVELS:
        before = count_read(merged.hub)
        merged.hub.execute(f"update {changed} set qty = qty + 1 where id <= {CHANGED}")
        assert merged.sync().download.total.updates == CHANGED
        assert count_read(merged.hub) - before < ROWS / 2, changed
