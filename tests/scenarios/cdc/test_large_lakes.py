"""More changes than memory is to hold, in files that overlap and are in no order: printed in order, within bounds."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import MadeLake
from builders.log.measured_processes import MIB
from rowtide.cdc.rows.conversion import change_schema

ORDERS = instance(table=source_table([("id", "bigint"), ("amount", "numeric(12,2)"), ("note", "text")], name="orders"))
FILES, ROWS, KEYS = 12, 250_000, 1_000_000
MOST_MEMORY = 500 * MIB
_PRINT = """
import sys
from pathlib import Path
import rowtide
from rowtide.cdc.lake_readers.presentation import present
from rowtide.cli.cdc.changes import show_change
from rowtide.cli.output.changes import print_changes
from rowtide.cli.output.rows import OutputFormat
lake = rowtide.open_lake(sys.argv[1])
ask = lake.get_net_changes if sys.argv[2] == "net" else lake.get_all_changes
print_changes(present(ask("public_orders")), OutputFormat.JSONL, sys.stdout, show=show_change)
print(Path("/proc/self/status").read_text(), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def large_lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three million updates of a million keys, shuffled over files that all have the whole range of LSNs."""
    made = MadeLake(tmp_path_factory.mktemp("large") / "lake")
    made.enable(ORDERS, 1)
    numbers = np.random.default_rng(0).permutation(FILES * ROWS)
    files = [make_updates(part) for part in np.split(numbers, FILES)]
    made.publish((ORDERS, files))
    return made.path


def make_updates(numbers: npt.NDArray[np.int64]) -> pa.Table:
    """Return the updates of these numbers in the order of commits."""
    values: dict[str, Any] = {
        "__$start_lsn": numbers // 10 + 1000,
        "__$seqval": numbers % 10 + 1,
        "__$operation": np.full(len(numbers), 4, np.int32),
        "__$update_mask": [b"\x07"] * len(numbers),
        "id": numbers % KEYS,
        "note": [f"note of {number} " + "x" * 100 for number in numbers.tolist()],
    }
    columns = (
        pa.array(values[field.name], field.type) if field.name in values else pa.nulls(len(numbers), field.type)
        for field in change_schema(ORDERS)
    )
    return pa.table(list(columns), schema=change_schema(ORDERS))


def print_numbers(lake: str, kind: str, temporary: Path) -> Iterator[int]:
    """Yield the numbers of the updates that a process of its own prints, and check its memory at the end."""
    command = [sys.executable, "-c", _PRINT, lake, kind]
    with (temporary / "status").open("w+") as status:
        with subprocess.Popen(
            command, env={"TMPDIR": str(temporary)}, stdout=subprocess.PIPE, stderr=status, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                yield int(line[line.index("note of ") + len("note of ") :].split(" ", 1)[0])
        status.seek(0)
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
    assert found is not None
    assert int(found[1]) * 1024 < MOST_MEMORY
    assert [path.name for path in temporary.iterdir()] == ["status"]


@pytest.mark.exhaustive
def test_all_changes_are_printed_in_order(large_lake: str, tmp_path: Path) -> None:
    assert list(print_numbers(large_lake, "all", tmp_path)) == list(range(FILES * ROWS))


@pytest.mark.exhaustive
def test_net_changes_are_each_key_s_last(large_lake: str, tmp_path: Path) -> None:
    last = FILES * ROWS
    assert list(print_numbers(large_lake, "net", tmp_path)) == list(range(last - KEYS, last))
