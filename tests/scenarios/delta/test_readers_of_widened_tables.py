"""delta-rs and Polars read tables whose columns were widened, but for those that are marked with type widening."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from builders.lakes.delta_tables import SCHEMA, append, locate, own
from rowtide.delta.checkpoints import write_checkpoint
from rowtide.delta.writing.alteration import rewrite, widen_columns
from rowtide.delta.writing.commits import Committer, create_table
from rowtide.delta.writing.widening_removal import mend

PACKAGES = ("deltalake==1.6.6", "polars==2.1.0", "pyarrow==26.0.1")
READS = """
import sys
from deltalake import DeltaTable
import polars
path = sys.argv[1]
print(sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()))
print(sorted(polars.read_delta(path)["id"].to_list()))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign") / "venv"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *PACKAGES], check=True)
    return folder / "bin" / "python"


def make(path: Path) -> Path:
    create_table(locate(path), json.dumps(SCHEMA).replace("long", "integer"), {})
    append(Committer(), locate(path), 1, pa.table({"id": pa.array([1], pa.int32())}))
    return path


def read(python: Path, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(python), "-c", READS, str(path)], capture_output=True, text=True, check=False)


@pytest.mark.exhaustive
def test_what_is_rewritten_or_mended_is_read_by_all(python: Path, tmp_path: Path) -> None:
    wide, rewritten, mended = pa.schema({"id": pa.int64()}), make(tmp_path / "rewritten"), make(tmp_path / "mended")
    rewrite(locate(rewritten), json.dumps(SCHEMA), lambda rows: rows.cast(wide), changes_rows=False)
    widen_columns(locate(mended), {"id": "long"})
    for path in (rewritten, mended):
        append(Committer(), locate(path), 5_000_000_000)
    # The last checkpoint that there is has the feature.
    write_checkpoint(own(mended), datetime.now(UTC))
    refused = read(python, mended)
    assert "reader features: {'typeWidening'}" in refused.stderr
    mend(locate(mended))
    for path in (rewritten, mended):
        seen = read(python, path)
        assert (seen.stdout.split("\n")[:2], seen.stderr) == (["[1, 5000000000]"] * 2, "")
