"""Fixtures live in `tests/fixtures`, one module per thing that a test can ask for."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from zlib import crc32

import pytest

pytest_plugins = [
    "fixtures.servers",
    "fixtures.lakes",
    "fixtures.captured",
    "fixtures.replicated",
    "fixtures.roles",
    "fixtures.sqlite_files",
    "fixtures.tracked",
    "fixtures.merged",
    "fixtures.recordings",
]

MEMORY = Path("/dev/shm")
ENOUGH_MEMORY_BYTES = 8 << 30
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ENOUGH_MEMORY_BYTES:
    # Processes are killed here, machines are not: what is written is there for the next without fsync. Besides, a
    # database is three hundred files, and ext4 looks at each file deleted within seconds before it gives a new one a
    # number: making and dropping a database would take longer than many tests.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

NEEDS = {"server": "live", "server_16": "live", "each_server": "live", "scarce_server": "live", "spark": "spark"}
"""What a fixture makes of the tests that use it, directly or not: nobody has to remember the mark."""
IN_TURN = {"each_server", "hub", "large", "merged", "odd", "server_of_odd", "sqlite_file", "tracked_file", "untracked"}
"""Fixtures that offer several databases: of a test's, `make test` takes one, not the same for all tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    offered: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in NEEDS:
                item.add_marker(NEEDS[fixture])
        if item.get_closest_marker("soak") is None and (case := _case_in_turn(item)) is not None:
            offered[case].append(item)
        # All that need Spark share one JVM; others share what their module starts.
        item.add_marker(pytest.mark.xdist_group("spark" if item.get_closest_marker("spark") else item.path.name))
    for case, alternatives in offered.items():
        turn = crc32(case.encode()) % len(alternatives)
        for item in alternatives[:turn] + alternatives[turn + 1 :]:
            item.add_marker("exhaustive")


def _case_in_turn(item: pytest.Item) -> str | None:
    """Return what a test shares with the same on other databases, None if there is no other."""
    call = getattr(item, "callspec", None)
    if call is None or not IN_TURN.intersection(call.params):
        return None
    # Where values go with the database, they have no index of their own.
    others = [
        (name, value if isinstance(value, str) else call.indices[name])
        for name, value in sorted(call.params.items())
        if name not in IN_TURN
    ]
    return f"{item.nodeid.partition('[')[0]} {others}"
