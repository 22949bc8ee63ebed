"""How many tasks run at a time, by an application's settings."""

from __future__ import annotations

import os

import pytest

from rowtide.lake.cores import count_cores

MASTER, SIZE = "spark.master", "spark.default.parallelism"


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({MASTER: "local"}, 1),
        ({MASTER: "local[3]"}, 3),
        ({MASTER: "local[3, 2]"}, 3),
        ({MASTER: "local[*]"}, os.cpu_count()),
        ({MASTER: "local[*,4]"}, os.cpu_count()),
        ({MASTER: "local[3]", SIZE: "7"}, 7),
        ({MASTER: "yarn", "spark.executor.instances": "5", "spark.executor.cores": "4"}, 20),
        ({MASTER: "spark://host:7077", "spark.dynamicAllocation.maxExecutors": "6"}, 6),
        # What a setting does not say as a number says nothing.
        ({MASTER: "k8s://https://host", "spark.dynamicAllocation.maxExecutors": "infinity"}, 50),
        ({}, 50),
    ],
)
def test_cores_are_those_of_the_settings(settings: dict[str, str], cores: int) -> None:
    assert count_cores(settings.get) == cores
