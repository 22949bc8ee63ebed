"""The page about lakes without Spark: its Python runs as it stands there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake, make_rows
from builders.lakes.outside_readers import list_blocks


def test_the_page_s_example_runs(tmp_path: Path) -> None:
    orders = instance(table=source_table([("id", "integer"), ("status", "text")], name="orders"))
    made = MadeLake(tmp_path / "lake")
    made.enable(orders, 90)
    row = {"__$start_lsn": 100, "__$seqval": 1, "__$operation": 2, "__$update_mask": b"\x03", "id": 1, "status": "new"}
    made.publish((orders, [make_rows(orders, [row])]))
    # Functions for other engines are run in tests/live/cdc/test_outside_readers.py.
    blocks = [block for block in list_blocks("python") if "def " not in block]
    assert len(blocks) == 4
    own = [block for block in blocks if "get_table_as_of" not in block]
    found: dict[str, Any] = {}
    exec("".join(own).replace("/data/lake", made.path), found)
    assert found["frame"].rows() == [(100, 2, None, 1, "new", None, None)]
