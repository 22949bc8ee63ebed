"""Checks that a file would evaluate otherwise than the hub do not refuse the hub's rows there."""

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
