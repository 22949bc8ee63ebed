"""A command answers at once: what is heavy is imported by the commands that use it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "apscheduler",
    "asyncio",
    "numpy",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pyspark",
    "rich",
    "sqlalchemy",
    "structlog",
    "typer",
)
_RUN = f"""
import sys
from rowtide.cli.main import main
try:
    main()
finally:
    print(*(module for module in {HEAVY} if module in sys.modules), file=sys.stderr)
"""


def run_and_name_heavy_imports(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, check=True)
    return done.stderr.strip()


@pytest.mark.parametrize("group", [[], ["cdc"], ["cdc", "lsn"], ["agent"], ["replication"], ["merge"], ["tracking"]])
def test_help_imports_nothing_heavy(group: list[str]) -> None:
    assert run_and_name_heavy_imports(*group, "--help") == ""


def test_a_command_without_database_imports_nothing_heavy() -> None:
    assert run_and_name_heavy_imports("cdc", "lsn", "increment", "0/1") == ""


def test_a_command_without_spark_imports_no_session() -> None:
    program = """
import sys
from rowtide.cli.main import run_command
assert run_command(["cdc", "lsn", "increment", "0/1"]) == 0
print("rowtide.lake.session" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    "module",
    [
        "rowtide.replication.api",
        "rowtide.merge.api",
        "rowtide.tracking.api",
        "rowtide.diagnosis.postgres.views",
        "rowtide.diagnosis.sqlite.views",
    ],
)
def test_who_asks_how_things_stand_needs_no_arrays(module: str) -> None:
    program = f"import sys, {module}; print(*({{'apscheduler', 'numpy', 'pyarrow', 'pyspark'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


def test_what_a_lake_answers_needs_neither_spark_nor_sqlalchemy() -> None:
    heavy = {"apscheduler", "duckdb", "polars", "pyspark", "py4j", "sqlalchemy"}
    program = (
        f"import sys, rowtide.cdc.lake_functions, rowtide.cli.output.changes; print(*({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


@pytest.mark.parametrize("api", ["cdc", "replication", "merge", "tracking"])
def test_a_feature_is_there_without_spark(api: str) -> None:
    program = f"import sys, rowtide.{api}.api; print(*({{'pyspark', 'py4j'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


def test_a_command_does_not_import_pandas_where_it_is_installed(tmp_path: Path) -> None:
    """Arrow would, for a second."""
    installed = tmp_path / "pandas.py"
    installed.write_text("raise SystemExit('pandas was imported')")
    program = """
import sys
from rowtide.cli import main
def run(_arguments):
    import pyarrow
    pyarrow.array(["one"])
    return 0
main.run_command = run
main.main()
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_imports_no_kind_of_subscriber_beforehand() -> None:
    others = {"sqlite3", "sqlalchemy.dialects.sqlite.base", "rowtide.delta.snapshot", "duckdb", "pydantic"}
    program = f"import sys, rowtide.replication.running.run; print(*({others} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


def test_messages_to_a_file_need_no_rich() -> None:
    program = """
import sys
from rowtide.cli.output.rows import notes
from rowtide.cli.output.progress import progress
def describe(reports):
    return [f"{report} postgresql://me:secret@host/shop \\r" for report in reports]
with progress("Beginning ...", describe) as report:
    report("Copied")
with notes.status("Waiting ...") as status:
    status.update("Waiting still ...")
print("rich" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("False\n", "Copied postgresql://me:***@host/shop \n")
