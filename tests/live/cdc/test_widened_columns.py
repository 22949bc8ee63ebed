"""A column whose type is widened: in place by Delta's type widening, or rewritten for readers who do not know that."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate


@pytest.mark.parametrize(("option", "is_marked"), [((), True), (("--rewrite-widened",), False)])
def test_a_widened_column_is_marked_or_rewritten(
    captured: CapturedDatabase, option: tuple[str, ...], *, is_marked: bool
) -> None:
    captured.execute("create table item (id int primary key, n smallint)")
    captured.enable("item")
    captured.execute("insert into item values (1, 1)")
    captured.capture()
    captured.execute("alter table item alter n type bigint", "insert into item values (2, 5000000000)")
    assert rowtide("cdc", "run", "--once", *option, "--db", captured.url).code == 0

    table = open_snapshot(locate(str(Path(captured.lake, "cdc", "public_item_CT"))))
    assert table is not None
    assert ("typeWidening" in table.protocol.reader_features) is is_marked
    assert captured.values("public_item", "id", "n") == [(2, 1, 1), (2, 2, 5_000_000_000)]
