"""Appends the change rows of cycles to change tables: converted, counted, and committed once to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from rowtide.cdc.capture.change_files import (
    ChangeFile,
    Destination,
    Selection,
    count_change_rows,
    divide,
    select_records,
)
from rowtide.cdc.capture.engines import choose_engine, convert_by_spark, convert_in_process
from rowtide.cdc.capture.options import EngineSetting
from rowtide.cdc.capture.planning import CyclePlan
from rowtide.cdc.errors import ChangeRowsMiscounted
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.lake_tables import change_table_path
from rowtide.cdc.scans.sessions import Engine
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.failpoints import failpoint
from rowtide.delta.actions import AddFile
from rowtide.delta.commits import TableState
from rowtide.lake.stores import locate
from rowtide.storage.store import Store

_COMMITTERS = 8


@dataclass(frozen=True, slots=True)
class _Cycle:
    """A cycle's number, plan and engine, and the records that become its rows."""

    number: int
    plan: CyclePlan
    engine: Engine
    selections: Sequence[Selection]


class ChangeAppender:
    """Appends to the change tables of one lake."""

    def __init__(self, system_tables: SystemTables, store: Store, setting: EngineSetting) -> None:
        self._system_tables = system_tables
        self._committer = system_tables.committer
        self._store = store
        self._setting = setting

    def append(self, plan: CyclePlan, number: int, captured: Mapping[str, pa.Table], lease: LakeLease) -> Engine:
        """Append a cycle's rows to every change table that lacks the cycle; return the engine that converted them.

        `captured` are the cycle's records, see `read_captured`; commits are tagged with the lease's token. Raises
        `ChangeRowsMiscounted` before anything is committed, and the errors of the engine and of the committer.
        """
        engine = choose_engine(self._setting, sum(segment.rows for segment in plan.segments))
        cycle = _Cycle(number, plan, engine, select_records(plan))
        expected = count_change_rows(captured, cycle.selections)
        changed = [work.lifetime.instance for work in plan.work if expected.get(work.lifetime.instance.member_id)]
        tags = {"rowtide.token": str(lease.token), "rowtide.range": f"{plan.from_position}..{plan.to_position}"}
        with ThreadPoolExecutor(_COMMITTERS, "rowtide-commit") as pool:
            destinations = {
                instance.member_id: destination
                for instance, destination in zip(changed, pool.map(self._find_destination, changed), strict=True)
                # A cycle that is redone may have been committed to it.
                if destination.state.cycles.get(instance.member_id) != number
            }
            files = self._convert(cycle, destinations)
            for member_id, destination in destinations.items():
                _require_all(files.get(member_id, ()), expected[member_id], destination, number)
            commits = [
                pool.submit(self._commit, cycle, member_id, destination, files[member_id], tags)
                for member_id, destination in destinations.items()
            ]
            for commit in commits:
                commit.result()
        return engine

    def _find_destination(self, instance: Instance) -> Destination:
        location = locate(change_table_path(self._system_tables.lake, instance.capture_instance))
        return Destination(location, self._committer.read_state(location))

    def _convert(self, cycle: _Cycle, destinations: Mapping[str, Destination]) -> Mapping[str, list[ChangeFile]]:
        """Write the data files of some change tables; return them by the instances' member ids."""
        chosen = [one for one in cycle.selections if one.instance.member_id in destinations]
        parts = divide(cycle.plan.segments, chosen)
        if cycle.engine is Engine.SPARK and parts:
            tables = self._system_tables
            files = convert_by_spark(lambda: tables.spark, self._store, parts, destinations, cycle.number)
        else:
            files = convert_in_process(self._store, parts, destinations, cycle.number)
        by_member: dict[str, list[ChangeFile]] = {}
        for file in files:
            by_member.setdefault(file.member_id, []).append(file)
        return by_member

    def _commit(
        self,
        cycle: _Cycle,
        member_id: str,
        destination: Destination,
        files: Sequence[ChangeFile],
        tags: Mapping[str, str],
    ) -> None:
        def write(state: TableState) -> list[AddFile]:
            written = files
            if state.columns != destination.state.columns:
                altered = {member_id: Destination(destination.location, state)}
                written = self._convert(cycle, altered)[member_id]
            return [one.file for one in written]

        failpoint("change_table_append.before")
        self._committer.commit_once(
            destination.location, identity=member_id, cycle=cycle.number, write=write, tags=tags
        )
        failpoint("change_table_append.after")


def _require_all(files: Sequence[ChangeFile], expected: int, destination: Destination, cycle: int) -> None:
    """Raise `ChangeRowsMiscounted` unless a table's files have a row for each change that the log has for it."""
    written = sum(file.rows for file in files)
    if written != expected:
        raise ChangeRowsMiscounted(cycle, written, destination.location.path, expected)
