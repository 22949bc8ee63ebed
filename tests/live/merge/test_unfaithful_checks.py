"""Checks and keys over expressions of a server's hub do not refuse rows that the hub or the device has."""

from __future__ import annotations

from pathlib import Path

from builders.merge.merged_databases import PUBLICATION, Merge, open_file_member, open_server_member


def test_checks_that_files_read_otherwise_are_listed(database: str, tmp_path: Path) -> None:
    with open_server_member(database) as hub, open_file_member(tmp_path / "device.db") as device:
        hub.execute(
            "create table task (id integer primary key, qty integer check (qty > 0), "
            "lasts interval constraint brief check (lasts < interval '9 days'))",
            "insert into task values (1, 1, '1 day')",
        )
        merge = Merge(hub, [device])
        merge.merge.add_publication(PUBLICATION)
        merge.merge.add_article(PUBLICATION, "task")
        omissions: list[str] = []
        merge.merge.add_subscription(
            PUBLICATION, device.url, on_omission=lambda omission: omissions.append(str(omission))
        )
        hub.execute("insert into task values (2, 2, '2 days')")

        assert merge.sync().download.total.inserts == 1
        assert omissions == ["check brief of public.task: SQLite compares interval as text"]
        assert "qty > 0" in device.execute("select sql from sqlite_schema where name = 'task'")[0][0]


def test_rows_swap_what_a_unique_generated_column_is_made_of(database: str, tmp_path: Path) -> None:
    with open_server_member(database) as hub, open_file_member(tmp_path / "device.db") as device:
        merge = Merge(hub, [device])
        made = "generated always as (lower(name)) stored unique"
        merge.begin(f"create table code (id integer primary key, name text, folded text {made})", code={})
        hub.execute("insert into code (id, name) values (1, 'A'), (2, 'B')")
        merge.sync()
        device.execute(
            "update code set name = 'C' where id = 1",
            "update code set name = 'A' where id = 2",
            "update code set name = 'B' where id = 1",
        )
        merge.sync()

        assert merge.conflicts() == []
        assert hub.rows("code", "id, folded") == [(1, "b"), (2, "a")]
