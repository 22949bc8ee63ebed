"""What uses Spark uses its public API, so that it runs on a cluster and over Spark Connect."""

from __future__ import annotations

import re
from pathlib import Path

import rowtide

PRIVATE = re.compile(r"\b_jvm\b|\b_jsparkSession\b|\b_jsc\b|\.rdd\b|\bparallelize\b|\bsparkContext\b")
REACH_THE_JVM = {
    "catalogs/hive.py",
    "lake/session.py",
    "lake/application.py",
    "lake/jvm.py",
    "targets/formats/iceberg.py",
}
"""To read a JVM's settings, to set up its local file system, to make an Iceberg branch, and to call Hive's client there
is no public way.
"""


def test_only_the_java_modules_reach_into_the_jvm() -> None:
    package = Path(rowtide.__file__).parent
    found = {str(module.relative_to(package)) for module in package.rglob("*.py") if PRIVATE.search(module.read_text())}
    assert found <= REACH_THE_JVM
