"""The package as executors get it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rowtide.lake.application import zip_package

_IMPORTS = """
import sys
sys.path.insert(0, sys.argv[1])
import rowtide.cdc.capture.appends as engines
import rowtide.replication.running.spark_backlogs
import rowtide.tracking.spark.tasks
print(engines.__file__)
"""


def test_tasks_find_the_package_in_the_zip(tmp_path: Path) -> None:
    file = zip_package(tmp_path / "rowtide.zip")
    ran = subprocess.run([sys.executable, "-c", _IMPORTS, str(file)], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith(str(file)), ran.stderr
