"""Fixtures live in `tests/fixtures`, one module per thing that a test can ask for."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "selection",
    "fixtures.servers",
    "fixtures.object_stores",
    "fixtures.lakes",
    "fixtures.spark_clusters",
    "fixtures.captured",
    "fixtures.replicated",
    "fixtures.killed_servers",
    "fixtures.roles",
    "fixtures.sqlite_files",
    "fixtures.tracked",
    "fixtures.merged",
    "fixtures.recordings",
    "fixtures.signals",
    "fixtures.browsers",
]

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY_BYTES = 8 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY_BYTES:
    # Processes are killed here, machines are not: what is written is there for the next without fsync. Besides, a
    # database is three hundred files, and ext4 looks at each file deleted within seconds before it gives a new one a
    # number: making and dropping a database would take longer than many tests.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

# No test goes by the configuration file of whoever runs it.
os.environ["ROWTIDE_CONFIG"] = os.devnull

# Listings keep names for completion there: not among the user's. Spark's jars are found where they are remembered.
_REMEMBERED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rowtide" / "jars"
_REMEMBERED.mkdir(parents=True, exist_ok=True)
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="rowtide-cache-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)
(Path(os.environ["XDG_CACHE_HOME"]) / "rowtide").mkdir()
(Path(os.environ["XDG_CACHE_HOME"]) / "rowtide" / "jars").symlink_to(_REMEMBERED)

# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

NEEDS = {
    "server": "live",
    "server_16": "live",
    "each_server": "live",
    "scarce_server": "live",
    "killed_servers": "live",
    "object_server": "live",
    "spark": "spark",
    "connect_url": "spark",
    "spark_cluster": "spark",
}
"""What a fixture makes of the tests that use it, directly or not: nobody has to remember the mark."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect twenty thousand tests without looking for garbage among them, now or whenever it is looked for later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in NEEDS:
                item.add_marker(NEEDS[fixture])
