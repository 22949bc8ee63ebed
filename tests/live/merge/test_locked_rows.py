"""A row that a session of the hub has locked is late, and what references it with it; it is no conflict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from builders.merge.merged_databases import Merge, open_file_member, open_server_member

pytestmark = pytest.mark.live

ITEM = "create table item (id bigint primary key, name text)"
LINE = "create table line (id bigint primary key, item_id bigint references item (id))"
PART = "create table part (id bigint primary key, line_id bigint references line (id))"
TABLES = ("item", "line", "part")


@pytest.fixture
def merged(database: str, tmp_path: Path) -> Iterator[Merge]:
    """A hub and a device that has inserted item 1 with a line and a part, and item 2, offline."""
    with ExitStack() as opened:
        hub = opened.enter_context(open_server_member(database))
        device = opened.enter_context(open_file_member(tmp_path / "device.db"))
        merged = Merge(hub, [device])
        merged.begin(ITEM, LINE, PART, item={}, line={}, part={})
        device.execute(
            "insert into item (id, name) values (1, 'device'), (2, 'other')",
            "insert into line (id, item_id) values (1, 1)",
            "insert into part (id, line_id) values (1, 1)",
        )
        yield merged


def count_metadata(merged: Merge) -> int:
    """Return how many rows of the item table have metadata at the hub."""
    item = "select nickname from rowtide_merge.sysmergearticles where name = 'item'"
    query = f'select count(*) from rowtide_merge."MSmerge_contents" where tablenick = ({item})'
    return int(merged.hub.execute(query)[0][0])


def test_descendants_wait_with_a_row_whose_key_is_locked(merged: Merge) -> None:
    with psycopg.connect(merged.hub.url) as session:
        session.execute("insert into item (id, name) values (1, 'hub')")
        summary = merged.sync()
        assert summary.upload.total.refused == 3
        assert merged.hub.rows("item", "id") == [(2,)]
        assert merged.conflicts() == []
        session.rollback()
    merged.sync()

    assert [merged.hub.rows(table, "id") for table in TABLES] == [[(1,), (2,)], [(1,)], [(1,)]]
    assert merged.conflicts() == []
    assert merged.settle()[-1].is_quiet


@pytest.mark.exhaustive
def test_late_rows_that_lose_their_key_go_to_the_inbox(merged: Merge) -> None:
    with psycopg.connect(merged.hub.url) as session:
        session.execute("insert into item (id, name) values (1, 'hub')")
        merged.sync()
        session.commit()
    merged.settle()

    assert merged.hub.rows("item", "id, name") == [(1, "hub"), (2, "other")]
    assert [merged.hub.rows(table, "id") for table in TABLES[1:]] == [[], []]
    assert sorted(each.article for each in merged.merge.list_conflicts()) == ["item", "line", "part"]
    merged.require_equal("item", columns="id, name")
    assert merged.settle()[-1].is_quiet


@pytest.mark.exhaustive
def test_a_purge_waits_for_late_rows(merged: Merge) -> None:
    merged.settle(3)
    merged.subscribers[0].execute("update item set name = 'new' where id = 2")
    merged.settle()
    merged.subscribers[0].execute("update item set name = 'late' where id = 1")
    with psycopg.connect(merged.hub.url) as session:
        session.execute("select * from item where id = 1 for update")
        merged.sync()
        kept = count_metadata(merged)
        merged.merge.cleanup()
        assert count_metadata(merged) == kept > 0
    merged.settle(3)
    merged.merge.cleanup()

    assert merged.hub.rows("item", "id, name") == [(1, "late"), (2, "new")]
    assert count_metadata(merged) < kept
