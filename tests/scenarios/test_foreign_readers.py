"""Other engines read a lake by the page's recipe, beside a writer that publishes: whole cycles, and none too many."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.capture_instances import instance, source_table
from builders.made_lakes import MadeLake, make_rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "read-a-lake.md"
PACKAGES = ("deltalake==1.6.6", "duckdb==1.5.5", "pyarrow==26.0.1")
ORDERS = instance(table=source_table([("id", "integer"), ("note", "text")], name="orders"))
ROWS = 40
"""So many rows has each cycle, in two files."""
MOST_CYCLES = 120
_LOOK = """
import sys
lake, name, looks, rows_of_a_cycle = sys.argv[1], "public_orders", int(sys.argv[2]), int(sys.argv[3])
seen = []
for look in range(looks):
    rows = read_changes(lake, name)
    lsns = rows["__$start_lsn"].to_pylist()
    cycles = sorted(set(lsns))
    assert cycles == list(range(100, 100 + len(cycles))), cycles
    assert len(lsns) == len(cycles) * rows_of_a_cycle, len(lsns)
    assert count_changes(lake, name, 100, cycles[-1]) == len(lsns)
    seen.append(len(cycles))
assert seen == sorted(seen), seen
assert seen[-1] > seen[0], seen
"""


@pytest.fixture(scope="module")
def foreign_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of its own, with delta-rs and the DuckDB that most people have."""
    folder = tmp_path_factory.mktemp("foreign") / "venv"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES], check=True)
    return python


@contextmanager
def publishing(made: MadeLake) -> Iterator[None]:
    """Publish cycle after cycle, as capture does: the rows, then what publishes them."""
    is_over = threading.Event()

    def publish() -> None:
        while made.cycle < MOST_CYCLES and not is_over.is_set():
            publish_cycle(made)

    writer = threading.Thread(target=publish)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()


def publish_cycle(made: MadeLake) -> None:
    lsn = 100 + made.cycle
    rows = [
        {"__$start_lsn": lsn, "__$seqval": number, "__$operation": 2, "__$update_mask": b"\x03", "id": number}
        for number in range(ROWS)
    ]
    made.publish((ORDERS, [make_rows(ORDERS, rows[: ROWS // 2]), make_rows(ORDERS, rows[ROWS // 2 :])]))


@pytest.mark.exhaustive
def test_readers_of_other_engines_see_whole_published_cycles(foreign_python: Path, tmp_path: Path) -> None:
    made = MadeLake(tmp_path / "lake")
    made.enable(ORDERS, 90)
    publish_cycle(made)
    *_, of_delta_rs, of_duckdb = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    with publishing(made):
        looking = subprocess.run(
            [str(foreign_python), "-c", of_delta_rs + of_duckdb + _LOOK, made.path, "8", str(ROWS)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (looking.returncode, looking.stderr) == (0, "")
