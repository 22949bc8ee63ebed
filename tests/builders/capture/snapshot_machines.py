"""A captured database that is copied, captured, cleaned up, cut and bridged at random, and read as of its LSNs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import psycopg

from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.faults.failpoints import (
    BASE_FAILPOINTS,
    BASE_REMOVAL_FAILPOINTS,
    CAPTURE_FAILPOINTS,
    CHANGE_FAILPOINTS,
    CLEANUP_FAILPOINTS,
    EPOCH_FAILPOINTS,
    LOG_READER_FAILPOINTS,
    MENDING_FAILPOINTS,
    RETYPING_FAILPOINTS,
    ROLLING_FAILPOINTS,
)
from builders.lakes.base_tables import read_rows, snapshots_of
from builders.lakes.source_shadows import ShadowedTable, SourceShadow
from rowtide.cdc.ddl import retyping
from rowtide.cdc.errors.capturing import CleanupIncomplete, LowWaterMarkUnknown, SnapshotNotOpen, SnapshotOpen
from rowtide.cdc.errors.jobs import ConsumersBehind
from rowtide.cdc.errors.querying import (
    BeforeSnapshot,
    InstanceUnknown,
    KeyLost,
    NeverCopied,
    OutsideInterval,
    RewrittenSinceSnapshot,
)
from rowtide.cdc.published import RecordedInstance, read_instances, read_publication, system_table_path
from rowtide.cdc.recorded_snapshots import SnapshotState
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.snapshots.chunk_copies import CopyLimits
from rowtide.core import failpoints
from rowtide.core.lsn import CommitLsn
from rowtide.core.tables import Widened
from rowtide.handle import open_lake

PLACES = (
    *LOG_READER_FAILPOINTS,
    *CAPTURE_FAILPOINTS,
    *RETYPING_FAILPOINTS,
    *MENDING_FAILPOINTS,
    *CHANGE_FAILPOINTS,
    *BASE_FAILPOINTS,
    *BASE_REMOVAL_FAILPOINTS,
    *CLEANUP_FAILPOINTS,
    *ROLLING_FAILPOINTS,
)
Machine = TypeVar("Machine", bound="SnapshotMachine")
_OF_COPIES = ("delta_creation.before", "delta_creation.after", "snapshot_event.before", "snapshot_event.after")
_OF_CAPTURE = ("types_carried.before", "types_carried.after", "cycle_record.after", "publication.before")
"""Moments of the thread that copies and captures."""
NOT_READABLE = (BeforeSnapshot, InstanceUnknown, KeyLost, NeverCopied, OutsideInterval, RewrittenSinceSnapshot)


class Cut(Exception):
    """What ran has ended at a failpoint."""


@dataclass
class SnapshotMachine:
    """`step` does one thing; `check` compares tables as of LSNs with what the source had."""

    captured: CapturedDatabase
    chosen: random.Random
    patch: Callable[[object, str, object], None]
    """Sets an attribute, until the test ends."""
    odd_columns: int = 3
    all_images: bool = False
    loses_keys: bool = True
    shadow: SourceShadow = field(init=False)
    log: list[str] = field(default_factory=list)
    places: tuple[str, ...] = ()
    """Where it is cut, besides `PLACES`."""
    compared: int = 0
    cuts: int = 0
    _rewritten: dict[str, list[int]] = field(default_factory=dict)
    _cut_at: str | None = None
    _passes: int = 0
    _beside: tuple[str, Callable[[], None]] | None = None
    """What the main thread does at a failpoint, once."""

    def __post_init__(self) -> None:
        self.shadow = SourceShadow(
            self.chosen, self.captured.url, odd_columns=self.odd_columns, all_images=self.all_images
        )
        self.patch(failpoints, "_find_armed", self._cut)
        self.patch(retyping, "REWRITTEN_BYTES", self.chosen.choice((0, 20_000, retyping.REWRITTEN_BYTES)))
        self.captured.cdc.enable_db(str(self.captured.lake), widened=self.chosen.choice([*Widened]))
        for table in self.shadow.tables:
            snapshot, widened = self.chosen.random() < 0.8, self.chosen.choice([None, *Widened])
            self.captured.cdc.enable_table(table.name, before_images=table.images, snapshot=snapshot, widened=widened)
        if self.chosen.random() < 0.8:
            self.captured.capture()
            self._alter_beside_copies(0, _OF_COPIES)

    def step(self) -> None:
        """Do one thing."""
        self._do(self.chosen.choice(self.steps()))

    def steps(self) -> list[Callable[[], None]]:
        """Return what may be done next, as often as it is likely."""
        steps: list[Callable[[], None]] = [self._transact] * 8 + [self._capture] * 4 + [self._copy] * 4
        steps += [self._clean_up] * 2 + [self._request] * 2 + [self._change_request] + [self._alter]
        steps += [self._alter_beside_a_copy] * 2 + [self._mend]
        steps += [self._lose_key] * (self.loses_keys and self.chosen.random() < 0.2)
        return steps + [self._bridge] * (self.chosen.random() < 0.3)

    def _do(self, act: Callable[[], None]) -> None:
        """Do something, sometimes cut at a failpoint."""
        self.log.append(act.__name__)
        if act.__name__ != "_transact" and self.chosen.random() < 0.3:
            self._cut_at = self.chosen.choice(PLACES + self.places)
            self._passes = self.chosen.choice((0, 0, 1, 3))
        try:
            act()
        except Cut:
            self.cuts += 1
            self.log.append(f"cut at {self._cut_at}")
            self._cut_at = None
            wait_for_slot(self.captured)
            self.captured.take_over()
        finally:
            self._cut_at = None

    def settle(self) -> None:
        """Copy what is requested, and capture everything."""
        for listed in self.captured.cdc.list_snapshots():
            if listed.state == "paused":
                self.captured.cdc.resume_snapshot(listed.capture_instance)
        self.captured.copy_tables()

    def check(self, most: int = 3) -> None:
        """Compare tables as of some of the published LSNs."""
        for table in self.shadow.tables:
            lsns = self.readable(table)
            for lsn in self.chosen.sample(lsns, min(most, len(lsns))):
                found = open_lake(str(self.captured.lake)).get_table_as_of(table.instance, lsn).to_arrow().read_all()
                assert self.shadow.differences(table, found, lsn) == ([], []), (table.instance, lsn, self.log)
                self.compared += 1
            self._check_refusal(table)

    def recorded(self, table: ShadowedTable) -> RecordedInstance | None:
        """Return an instance as it is published."""
        publication = read_publication(str(self.captured.lake))
        if publication is None or publication.lsn is None:
            return None
        return read_instances(str(self.captured.lake), publication.cycle).get(table.instance)

    def published(self) -> list[CommitLsn]:
        """Return the LSNs of the published transactions, and the last that is published."""
        publication = read_publication(str(self.captured.lake))
        if publication is None or publication.lsn is None:
            return []
        mapped = read_rows(system_table_path(str(self.captured.lake), "lsn_time_mapping"))
        found = (row["start_lsn"] for row in mapped if row["start_lsn"] is not None)
        lsns = {lsn for lsn in found if lsn <= publication.lsn.value}
        return [CommitLsn(lsn) for lsn in sorted(lsns | {publication.lsn.value})]

    def readable(self, table: ShadowedTable) -> list[CommitLsn]:
        """Return the published LSNs as of which a table can be read, by the rules alone."""
        recorded = self.recorded(table)
        if recorded is None:
            return []
        covered = [
            one
            for one in snapshots_of(self.captured, table.instance)
            if one.is_whole
            and one.state is SnapshotState.COVERED
            and (recorded.whole_from is None or one.begin >= recorded.whole_from)
        ]
        found = []
        for lsn in self.published():
            usable = [one for one in covered if one.covered is not None and one.covered <= lsn]
            rewritten = self._rewritten.get(table.name, [])
            is_rewritten = usable and any(usable[-1].begin.value < at < lsn.value for at in rewritten)
            lost_above = table.key_lost_above if recorded.instance.index_columns else None
            has_key = lost_above is None or lsn.value <= lost_above
            if recorded.lsn <= lsn and usable and not is_rewritten and has_key:
                found.append(lsn)
        return found

    def _check_refusal(self, table: ShadowedTable) -> None:
        """An LSN that is not readable is refused, and not answered with something."""
        readable = set(self.readable(table))
        others = [lsn for lsn in self.published() if lsn not in readable]
        if not others or self.recorded(table) is None:
            return
        lsn = self.chosen.choice(others)
        try:
            open_lake(str(self.captured.lake)).get_table_as_of(table.instance, lsn)
        except NOT_READABLE:
            return
        raise AssertionError(f"{table.instance} as of {lsn} was read: {self.log}")

    def _transact(self) -> None:
        for _ in range(self.chosen.randint(1, 3)):
            self.shadow.transact()

    def _alter(self) -> None:
        self._note_rewriting(self.shadow.alter())

    def _alter_beside_a_copy(self) -> None:
        self._request()
        self._capture()
        self._alter_beside_copies(self.chosen.choice((0, 3, 6)), (*_OF_COPIES, *_OF_CAPTURE))

    def _alter_beside_copies(self, steps: int, places: Sequence[str]) -> None:
        """Alter a table after some steps of copies, and let the process that copies capture that at one of some places.

        The lake may have new types before capture publishes them.
        """
        with self.captured.open_both(CopyLimits(chunk_bytes=2048, workers=1)) as (capture, runner):

            def copy(steps: int) -> None:
                for _ in range(steps):
                    runner.step()
                    runner.wait(0.05)

            def capture_all() -> None:
                self.captured.capture_by(capture, target)

            copy(steps)
            self._note_rewriting(self.shadow.alter(widens=self.chosen.random() < 0.7))
            self.captured.read_log(target := self.captured.mark())
            place = self.chosen.choice(places)
            self.log.append(f"captured at {place}")
            is_cut = self.chosen.random() < 0.3
            try:
                if place in _OF_COPIES:
                    self._beside = place, capture_all
                    copy(6)
                    self._beside = None
                else:
                    self._beside = place, lambda: copy(3)
                if is_cut:
                    self._cut_at, self._passes = "types_carried.after", 0
                capture_all()
                self._cut_at = None
                # In this process, which continues with what it remembers.
                wait_until(lambda: not runner.step(), what="the copies end")
            except Cut:
                self.cuts += 1
            finally:
                self._beside = self._cut_at = None
        if is_cut:
            self.check(1)
            self._clean_up()
        self._copy()

    def _mend(self) -> None:
        table = self.chosen.choice(self.shadow.tables)
        self.log.append(f"mend {table.name}")
        self.captured.cdc.mend(table.instance)

    def _lose_key(self) -> None:
        self.log.append(self.shadow.lose_key())

    def _note_rewriting(self, statement: str) -> None:
        self.log.append(statement)
        name, _, command = statement.partition(": ")
        [table] = [table for table in self.shadow.tables if table.name == name]
        if " using " in command or ("drop column" in command and not table.key):
            self._rewritten.setdefault(name, []).append(table.states[-1].above)

    def _capture(self) -> None:
        kind = self.chosen.choice(("all", "all", "read", "some"))
        if kind == "all":
            self.captured.capture()
        elif kind == "read":
            self.captured.read_log()
        else:
            self.captured.read_log()
            with self.captured.open_capture(maxtrans=self.chosen.randint(1, 3)) as capture:
                for _ in range(self.chosen.randint(1, 4)):
                    capture.step()

    def _copy(self) -> None:
        """Copy for a moment, or to the end, while the tables change; then maybe publish."""
        limits = CopyLimits(chunk_bytes=self.chosen.choice((2048, 8192, None)), workers=self.chosen.choice((1, 2)))
        with self.captured.open_snapshots(limits) as runner:
            for _ in range(self.chosen.choice((3, 10, 60))):
                if not runner.step():
                    break
                runner.wait(0.01)
                with self._briefly():
                    if self.chosen.random() < 0.3:
                        self.shadow.transact(3)
                    if self.chosen.random() < 0.02:
                        self._alter()
        if self.chosen.random() < 0.5:
            self.captured.capture()

    @contextmanager
    def _briefly(self) -> Iterator[None]:
        """Give up what waits for a table's copy, which continues with the runner's next step."""
        session = self.shadow.session
        session.execute("set lock_timeout to '1s'")
        try:
            yield
        except psycopg.errors.LockNotAvailable:
            self.log.append("the table is being copied")
        finally:
            session.execute("reset lock_timeout")

    def _request(self) -> None:
        table = self.chosen.choice(self.shadow.tables)
        has_key = table.key and table.key_lost_above is None
        condition = f"id % 2 = {self.chosen.randint(0, 1)}" if has_key and self.chosen.random() < 0.4 else None
        self.log.append(f"resnapshot {table.name} {condition}")
        try:
            self.captured.cdc.resnapshot(table.instance, where=condition)
        except SnapshotOpen:
            self.log.append("open already")

    def _change_request(self) -> None:
        table = self.chosen.choice(self.shadow.tables)
        cdc = self.captured.cdc
        change = self.chosen.choice((cdc.pause_snapshot, cdc.resume_snapshot, cdc.resume_snapshot, cdc.cancel_snapshot))
        self.log.append(f"{change.__name__} {table.name}")
        try:
            change(table.instance)
        except SnapshotNotOpen:
            self.log.append("none is open")

    def _clean_up(self) -> None:
        lsns = self.published()
        if lsns:
            mark = self.chosen.choice(lsns[len(lsns) // 4 :])
            try:
                self.captured.cdc.cleanup(CleanupOrder(low_water_mark=mark))
            except ConsumersBehind:
                self.log.append("targets are behind")
            except LowWaterMarkUnknown:
                self.log.append("a cleanup that was cut has removed it first")
            except CleanupIncomplete as error:
                if "RT-2217" not in str(error):
                    raise
                # Until capture continues with them.
                self.log.append("types are half carried")

    def may_bridge(self) -> bool:
        """Tell whether a table can be compared."""
        return any(
            table.key and not table.gone and table.key_lost_above is None and self.readable(table)
            for table in self.shadow.tables
        )

    def _bridge(self) -> None:
        """Lose the slot, and what is not read yet; and begin again with the difference."""
        if not self.may_bridge():
            return
        self._cut_at = None
        self.captured.drop_slot()
        for _ in range(self.chosen.randint(0, 4)):
            self.shadow.transact()
        for place in (self.chosen.choice((None, *EPOCH_FAILPOINTS)), None):
            self._cut_at, self._passes = place, 0
            try:
                restarted = self.captured.cdc.find_gap().restarted
                self.log.append(f"bridged, but {dict(restarted)}")
                self.captured.cdc.bridge_gap("a test", restart=tuple(restarted))
                break
            except Cut:
                self.cuts += 1
                self.log.append(f"cut at {place}")
            finally:
                self._cut_at = None
                self.shadow.epoch = self.captured.manifest().state.epoch

    def _cut(self, name: str, _directory: str | None) -> None:
        if self._beside is not None and self._beside[0] == name and _is_main_thread():
            (_, act), self._beside = self._beside, None
            act()
        if name != self._cut_at:
            return
        if self._passes:
            self._passes -= 1
            return
        raise Cut(name)


@contextmanager
def opened(machine: Machine) -> Iterator[Machine]:
    """Close the session of a machine's source at the end."""
    try:
        yield machine
    finally:
        machine.shadow.close()


def wait_for_slot(captured: CapturedDatabase) -> None:
    """Wait until the reader that was cut has left."""
    query = "select 1 from pg_replication_slots where database = current_database() and active"
    wait_until(lambda: not captured.execute(query), what="the slot is free")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
