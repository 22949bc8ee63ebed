"""Benchmarks of replication and of commands run to their end in their short forms; what they measure says nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[3]
_SHORT = ("--rows", "400", "--runs", "1", "--seconds", "2")


@pytest.mark.exhaustive
@pytest.mark.live
@pytest.mark.parametrize(
    ("workload", "ways"),
    [
        ("replication", ("| PostgreSQL's subscription |", "| rowtide, ", "| the same calls by one pipeline |")),
        ("replication-command", ("| PostgreSQL's subscription |", "| rowtide replication run --once |")),
        ("replication-copy", ("| psql to psql |", "| rowtide's snapshot |")),
        pytest.param(
            "replication-latency",
            ("| PostgreSQL's subscription |", "| rowtide replication run |"),
            marks=pytest.mark.exhaustive,
        ),
        (
            "replication-streams",
            ("| PostgreSQL's subscription |", "run --once, 1 stream |", "run --once, 4 streams |"),
        ),
        pytest.param(
            "replication-fan-out",
            ("| rowtide replication run | 10 | 1 |", "| PostgreSQL's subscription | 10 | 10 |"),
            marks=pytest.mark.exhaustive,
        ),
        ("changes", ("### rowtide cdc changes of four rows", "| rowtide cdc changes --format csv |", "| psql -c ")),
        ("commands", ("| psql --version |", "| rowtide --help |", "| rowtide replication run --once |")),
    ],
)
def test_workload_measures_every_way_and_compares_with_its_goal(workload: str, ways: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "benchmarks", "--workload", workload, *_SHORT]
    # As `make bench` has it: some measure what builders of the tests make.
    environment = os.environ | {"PYTHONPATH": str(_ROOT / "tests")}
    run = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)

    assert run.returncode == 0, run.stderr
    assert [way for way in ways if way not in run.stdout] == []
    assert f"| {workload}" in run.stdout.partition("### Goals")[2]
