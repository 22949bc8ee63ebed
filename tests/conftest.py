"""Fixtures live in `tests/fixtures`, one module per thing that a test can ask for."""

from __future__ import annotations

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

NEEDS = {"server": "live", "server_16": "live", "each_server": "live", "scarce_server": "live", "spark": "spark"}
"""What a fixture makes of the tests that use it, directly or not: nobody has to remember the mark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture in getattr(item, "fixturenames", ()):
            if fixture in NEEDS:
                item.add_marker(NEEDS[fixture])
