"""An apply is stopped at a failpoint, as by SIGSTOP, while another process applies: when it wakes, it changes nothing.

Its lease is taken away meanwhile, as the server takes it from a process that is silent; it has verified it before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders.capture.applied_targets import AppliedTargets
from builders.capture.captured_databases import DEADLINE_S, CapturedDatabase, wait_until
from builders.faults.failpoints import CHANGE_FAILPOINTS, TARGET_FAILPOINTS
from builders.lakes.slice_models import found_slices, slices_of, states_by_change
from rowtide.log.errors import LeaseLost
from rowtide.targets import TargetFormat
from rowtide.targets.applying import SetTable
from rowtide.targets.definitions import TableState
from rowtide.targets.options import CURRENT, HISTORY, ApplyEngine
from rowtide.targets.table_format import without_lease
from rowtide.targets.tables import open_table

KEYS, COLUMNS = ("id",), ("id", "name")
WAYS = {
    "arrow": (TargetFormat.DELTA, ApplyEngine.AUTO),
    "spark": (TargetFormat.DELTA, ApplyEngine.SPARK),
    "iceberg": (TargetFormat.ICEBERG, ApplyEngine.AUTO),
}
SEEN = ("update item set name = 'b' where id = 1", "insert into item values (3, 'a')", "delete from item where id = 2")
MEANWHILE = {
    "the same": (),
    "more": ("update item set name = 'c' where id = 1", "insert into item values (2, 'back')"),
    # Net changes of both windows are none.
    "undone": (
        "update item set name = 'a' where id = 1",
        "delete from item where id = 3",
        "insert into item values (2, 'a')",
    ),
}
COMMITS = tuple(name for name in CHANGE_FAILPOINTS if not name.startswith("delta_checkpoint"))
"""Of our own committer, which writes tables without Spark, and the set's."""
_END_OF_NAMED_LEASES = """
select pg_terminate_backend(pid, 10000) from pg_locks
where locktype = 'advisory' and classid = x'726F7775'::int::oid
  and database = (select oid from pg_database where datname = current_database())
"""


@dataclass
class Sleeper:
    """An apply that stands at a failpoint."""

    failpoint: str
    stands: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def hit(self, name: str) -> None:
        if name == self.failpoint and not self.stands.is_set():
            self.stands.set()
            assert self.goes_on.wait(DEADLINE_S)


@contextmanager
def stopped(applied: AppliedTargets, monkeypatch: pytest.MonkeyPatch, failpoint: str) -> Iterator[Callable[[], None]]:
    """Let an apply come to a failpoint; yield what wakes it, and returns when it has ended."""
    sleeper = Sleeper(failpoint)
    for name, module in list(sys.modules.items()):
        if name.startswith("rowtide.") and hasattr(module, "failpoint") and name != "rowtide.core.failpoints":
            monkeypatch.setattr(module, "failpoint", sleeper.hit)
    with ThreadPoolExecutor() as pool:
        late: Future[Any] = pool.submit(applied.targets.apply, spark=applied.captured.spark)

        def wake() -> None:
            sleeper.goes_on.set()
            with suppress(LeaseLost):
                late.result()

        try:
            wait_until(lambda: sleeper.stands.is_set() or late.done(), what=f"a hit of {failpoint}")
            assert sleeper.stands.is_set(), late.result()
            yield wake
        finally:
            sleeper.goes_on.set()


def find_state(applied: AppliedTargets) -> dict[str, object]:
    """Return the versions of all tables, whatever a set says of them, and the sets'."""
    found: dict[str, object] = {}
    spark = applied.captured.spark.newSession()
    for target in applied.targets.list_definitions():
        known = SetTable(str(applied.captured.lake), target).read()
        found[target.name] = (known.number, known.lsn, known.tables)
        for instance in target.consumer.instance_names:
            table = open_table(spark, target, instance, without_lease).find()
            found[f"{target.name}.{instance}"] = (table.version, table.lsn) if table is not None else None
    return found


def verify_equal(applied: AppliedTargets) -> None:
    """Compare the tables with the source, and its history."""
    source = sorted(applied.captured.execute("select id, name from item"), key=repr)
    states = slices_of(states_by_change(applied.captured, "public_item", KEYS, COLUMNS))
    for listed in applied.targets.list_targets():
        assert listed.state == TableState.MEMBER, listed.note
        if listed.kind == CURRENT:
            assert applied.rows(listed.target, "public_item", *COLUMNS) == source
        else:
            rows = applied.targets.read(listed.target, "public_item", spark=applied.captured.spark).collect()
            assert found_slices((row.asDict() for row in rows), KEYS, COLUMNS) == states
            assert len(rows) == len(states)


def cases() -> Iterator[Any]:
    """Yield the ways and their failpoints; the default run has one without Spark."""
    for way in WAYS:
        for failpoint in (*TARGET_FAILPOINTS, *(COMMITS if way == "arrow" else ())):
            is_telling = (way, failpoint) == ("arrow", "target_commit.before")
            yield pytest.param(way, failpoint, marks=[] if is_telling else pytest.mark.exhaustive)


@pytest.mark.parametrize("kind", [CURRENT, HISTORY])
@pytest.mark.parametrize(("way", "failpoint"), list(cases()))
def test_an_apply_that_wakes_too_late_changes_nothing(
    captured: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, way: str, failpoint: str, kind: str
) -> None:
    captured.execute("create table item (id int primary key, name text)")
    captured.enable("item")
    applied = AppliedTargets(captured)
    form, engine = WAYS[way]
    applied.add("shop", "public_item", kind=kind, format=form, engine=engine)
    for statements in MEANWHILE.values():
        captured.execute("delete from item", "insert into item values (1, 'a'), (2, 'a')")
        applied.follow()
        captured.execute(*SEEN)
        captured.capture()
        with monkeypatch.context() as patched, stopped(applied, patched, failpoint) as wake:
            captured.execute(_END_OF_NAMED_LEASES)
            captured.execute(*statements)
            applied.follow()
            before = find_state(applied)
            wake()
        assert find_state(applied) == before
    verify_equal(applied)
    captured.execute("update item set name = 'later' where id < 3", "insert into item values (4, 'later')")
    applied.follow()
    verify_equal(applied)
