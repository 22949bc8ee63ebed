"""A failpoint kills the process that passes it, so each test has a process of its own to lose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from builders.faults.failpoints import (
    ACTION_FAILPOINTS,
    ADOPTION_FAILPOINTS,
    ARTICLE_COPY_FAILPOINTS,
    BASE_FAILPOINTS,
    BASE_REMOVAL_FAILPOINTS,
    BRANCH_FAILPOINTS,
    CAPTURE_ADDITION_FAILPOINTS,
    CAPTURE_FAILPOINTS,
    CLEANUP_FAILPOINTS,
    COPY_FAILPOINTS,
    CUSTOM_TARGET_FAILPOINTS,
    DEACTIVATION_FAILPOINTS,
    DECLARED_FAILPOINTS,
    DELIVERY_FAILPOINTS,
    DELTA_FAILPOINTS,
    DEVICE_FAILPOINTS,
    DISOWNING_FAILPOINTS,
    DISTRIBUTOR_FAILPOINTS,
    EARLY_DELIVERY_FAILPOINTS,
    EPOCH_FAILPOINTS,
    FOLLOWING_FAILPOINTS,
    GATEWAY_FAILPOINTS,
    JOINING_FAILPOINTS,
    LEAVING_FAILPOINTS,
    LOG_READER_FAILPOINTS,
    LOG_RESTART_FAILPOINTS,
    MENDING_FAILPOINTS,
    MERGE_FAILPOINTS,
    MERGE_SCHEMA_FAILPOINTS,
    OMITTING_FAILPOINTS,
    PART_FAILPOINTS,
    POSTGRES_TRACKING_FAILPOINTS,
    PREPARATION_FAILPOINTS,
    REPAIR_FAILPOINTS,
    RETYPING_FAILPOINTS,
    ROLLING_FAILPOINTS,
    SETTLING_FAILPOINTS,
    SKIP_FAILPOINTS,
    SNAPSHOT_FAILPOINTS,
    SOURCE_FAILPOINTS,
    SOURCE_REMOVAL_FAILPOINTS,
    SQLITE_DELIVERY_FAILPOINTS,
    SQLITE_FAILPOINTS,
    STREAM_FAILPOINTS,
    STREAM_RECOVERY_FAILPOINTS,
    SUBSCRIBER_REMOVAL_FAILPOINTS,
    SUBSCRIPTION_FAILPOINTS,
    SUSPENSION_FAILPOINTS,
    SWITCH_FAILPOINTS,
    TARGET_FAILPOINTS,
    UPGRADE_FAILPOINTS,
    VACUUM_FAILPOINTS,
    find_failpoints,
)

PASS = """
import sys
from rowtide.core.failpoints import failpoint
for name in sys.argv[1:]:
    failpoint(name)
    print(name, flush=True)
"""
KILLED = -signal.SIGKILL


def run(names: str, failpoint: str | None = None, mark: Path | None = None) -> tuple[int, str]:
    """Pass failpoints of these names in a child; return its exit code and the names that it got past."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROWTIDE_")}
    environment |= {"ROWTIDE_FAILPOINT": failpoint} if failpoint is not None else {}
    environment |= {"ROWTIDE_FAILPOINT_MARK": str(mark)} if mark is not None else {}
    command = [sys.executable, "-c", PASS, *names.split()]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return ended.returncode, " ".join(ended.stdout.split())


def test_without_the_environments_wish_nothing_happens() -> None:
    assert run("a b a") == (0, "a b a")


def test_it_fires_at_the_first_hit_of_its_name() -> None:
    assert run("a b a c", "b") == (KILLED, "a")


def test_it_fires_at_the_named_hit_of_its_name_only() -> None:
    assert run("b a a b b a", "b@3") == (KILLED, "b a a b")


def test_a_name_or_a_hit_that_never_comes_fires_never() -> None:
    assert run("a b a", "ab") == (0, "a b a")
    assert run("a b a", "a@3") == (0, "a b a")


def test_with_a_mark_it_fires_once_over_all_processes(tmp_path: Path) -> None:
    mark = tmp_path / "fired"

    assert run("a b", "b", mark) == (KILLED, "a")
    assert mark.exists()
    assert run("a b", "b", mark) == (0, "a b")


def test_a_hit_before_the_named_one_leaves_no_mark(tmp_path: Path) -> None:
    mark = tmp_path / "fired"

    assert run("a", "a@2", mark) == (0, "a")
    assert not mark.exists()


def test_tests_kill_at_every_failpoint_of_the_program() -> None:
    # Several kinds of nodes and formats have the same step.
    assert set(find_failpoints()) == set(
        ACTION_FAILPOINTS
        + LOG_READER_FAILPOINTS
        + PART_FAILPOINTS
        + EARLY_DELIVERY_FAILPOINTS
        + CAPTURE_FAILPOINTS
        + CAPTURE_ADDITION_FAILPOINTS
        + LOG_RESTART_FAILPOINTS
        + DISTRIBUTOR_FAILPOINTS
        + EPOCH_FAILPOINTS
        + ADOPTION_FAILPOINTS
        + DISOWNING_FAILPOINTS
        + SOURCE_FAILPOINTS
        + SUBSCRIPTION_FAILPOINTS
        + PREPARATION_FAILPOINTS
        + SUBSCRIBER_REMOVAL_FAILPOINTS
        + SOURCE_REMOVAL_FAILPOINTS
        + CLEANUP_FAILPOINTS
        + MENDING_FAILPOINTS
        + RETYPING_FAILPOINTS
        + SKIP_FAILPOINTS
        + BASE_FAILPOINTS
        + ROLLING_FAILPOINTS
        + BASE_REMOVAL_FAILPOINTS
        + DELIVERY_FAILPOINTS
        + DELTA_FAILPOINTS
        + VACUUM_FAILPOINTS
        + COPY_FAILPOINTS
        + SWITCH_FAILPOINTS
        + OMITTING_FAILPOINTS
        + SUSPENSION_FAILPOINTS
        + SNAPSHOT_FAILPOINTS
        + ARTICLE_COPY_FAILPOINTS
        + JOINING_FAILPOINTS
        + LEAVING_FAILPOINTS
        + REPAIR_FAILPOINTS
        + SETTLING_FAILPOINTS
        + DEACTIVATION_FAILPOINTS
        + SQLITE_FAILPOINTS
        + SQLITE_DELIVERY_FAILPOINTS
        + STREAM_FAILPOINTS
        + STREAM_RECOVERY_FAILPOINTS
        + POSTGRES_TRACKING_FAILPOINTS
        + MERGE_FAILPOINTS
        + MERGE_SCHEMA_FAILPOINTS
        + GATEWAY_FAILPOINTS
        + DEVICE_FAILPOINTS
        + TARGET_FAILPOINTS
        + BRANCH_FAILPOINTS
        + CUSTOM_TARGET_FAILPOINTS
        + FOLLOWING_FAILPOINTS
        + UPGRADE_FAILPOINTS
        + DECLARED_FAILPOINTS
    )
