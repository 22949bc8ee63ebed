"""`rowtide cdc apply` is killed at each failpoint: the next one continues, and every change counts once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import CapturedDatabase
from builders.faults.failpoints import BRANCH_FAILPOINTS, TARGET_FAILPOINTS
from builders.lakes.slice_models import found_slices, slices_of, states_by_change
from rowtide.targets import TargetFormat

KEYS, COLUMNS = ("id",), ("id", "name")


def apply(url: str, failpoint: str | None = None) -> int:
    """Run the command; return its exit code."""
    environment = {**os.environ, "ROWTIDE_DB": url}
    if failpoint is not None:
        environment["ROWTIDE_FAILPOINT"] = failpoint
    return subprocess.run(
        [sys.executable, "-m", "rowtide", "cdc", "apply", "--once"], env=environment, check=False
    ).returncode


@pytest.mark.exhaustive  # each kill starts a JVM; test_applying interrupts in this process
@pytest.mark.parametrize("form", TargetFormat)
def test_a_killed_apply_is_done_again_once(captured: CapturedDatabase, form: TargetFormat) -> None:
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    applied = AppliedTargets(captured)
    for name, kind in (("now", "current"), ("past", "history")):
        applied.add(name, "public_item", kind=kind, format=form)
    places = TARGET_FAILPOINTS if form is TargetFormat.DELTA else (*BRANCH_FAILPOINTS, *TARGET_FAILPOINTS)
    for turn, failpoint in enumerate(places, 1):
        captured.execute(
            f"insert into item select n, 'new' from generate_series({turn}0, {turn}5) n",
            f"update item set name = name || {turn} where id % 2 = {turn % 2}",
            f"delete from item where id = {turn}3",
        )
        captured.capture()
        assert apply(captured.url, failpoint) == -signal.SIGKILL
        captured.execute(f"update item set name = 'after {turn}' where id = {turn}1")
        captured.capture()
        assert apply(captured.url) == 0
        assert applied.rows("now", "public_item") == sorted(captured.execute("select * from item"))
        rows = applied.targets.read("past", "public_item", spark=captured.spark).collect()
        states = states_by_change(captured, "public_item", KEYS, COLUMNS)
        assert found_slices((row.asDict() for row in rows), KEYS, COLUMNS) == slices_of(states)
        assert len(rows) == len(slices_of(states))
