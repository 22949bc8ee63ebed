"""The demo's interface to the second process, and the figures of a run."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.lake_readers.lake import Lake
from rowtide.cdc.lake_readers.presentation import present
from rowtide.cdc.published import change_table_path, system_table_path
from rowtide.core.values import frozen
from rowtide.delta.snapshot import open_snapshot
from rowtide.demo.errors import ProcessSilent
from rowtide.demo.processes import ACCOUNT, KEYS, Child, Directory
from rowtide.demo.proof import Read, TableProof, TargetVersion, instance_of
from rowtide.lake.stores import locate

_SHOWN_CHANGES = 8

Seconds = npt.NDArray[np.float64]


@frozen
class Span:
    """The LSN range of pgbench's transactions: above `after`, up to and including `last`."""

    after: int
    last: int


@frozen
class Figures:
    """`latency_*` is the time from a transaction's commit to the commit of its publication in the lake.

    `account_rows` are the last changes of `ACCOUNT` with the names `account_columns`, oldest first.
    """

    change_rows: dict[str, int]
    cycles: int
    latency_median_s: float
    latency_p95_s: float
    account_columns: Sequence[str]
    account_rows: Sequence[Sequence[object]]


def read_figures(lake: str, span: Span) -> Figures:
    """Read the figures of pgbench's transactions."""
    cycles, seconds = _latencies(system_table_path(lake, "lsn_time_mapping"), span)
    median_s, p95_s = np.percentile(seconds, (50, 95)).tolist()
    columns, rows = _describe_changes(lake)
    return Figures(
        change_rows={
            table: _read(change_table_path(lake, instance_of(table)), "__$operation").num_rows for table in KEYS
        },
        cycles=cycles,
        latency_median_s=median_s,
        latency_p95_s=p95_s,
        account_columns=columns,
        account_rows=rows,
    )


def _latencies(path: str, span: Span) -> tuple[int, Seconds]:
    """Return the number of cycles, and each transaction's time in seconds until the commit of its publication."""
    published = _read(path, "cycle", "start_lsn", "tran_commit_time")
    published = published.filter((pc.field("start_lsn") > span.after) & (pc.field("start_lsn") <= span.last))
    queryable_at = _commit_times(Path(path))
    cycles = published["cycle"].to_numpy()
    committed = published["tran_commit_time"].cast(pa.int64()).to_numpy() / 1e6
    seconds = np.array([queryable_at[cycle] for cycle in cycles.tolist()]) - committed
    return len(np.unique(cycles)), seconds


def _read(path: str, *columns: str) -> pa.Table:
    snapshot = open_snapshot(locate(path))
    assert snapshot is not None, "capture has made it"
    return snapshot.read(columns)


def _commit_times(path: Path) -> dict[int, float]:
    """Return when each cycle's commit was written, in seconds since 1970."""
    times = {}
    for commit in path.glob("_delta_log/*.json"):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "txn" in action:
                times[action["txn"]["version"]] = commit.stat().st_mtime
    return times


def _describe_changes(lake: str) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    changes = Lake(lake).get_all_changes(instance_of("pgbench_accounts"), row_filter_option="all update old")
    is_of_account = pc.field("aid") == ACCOUNT
    presented = present(replace(changes, batches=lambda: (rows.filter(is_of_account) for rows in changes.batches())))
    return presented.names, [*deque(presented.rows(), maxlen=_SHOWN_CHANGES)]


_TICK_S = 0.5
_CAPTURE_TIMEOUT_S = 300
_ANSWER_TIMEOUT_S = 120
_PROOF_TIMEOUT_S = 600


class Checker:
    """Sends requests to the second process, one at a time.

    `on_tick` is called twice a second meanwhile, and may raise.
    """

    def __init__(self, child: Child) -> None:
        self._child = child
        self.on_tick: Callable[[], None] = lambda: None

    @classmethod
    @contextmanager
    def start(cls, directory: Directory) -> Iterator[Checker]:
        """Start the process; it ends with the context."""
        command = [sys.executable, "-m", "rowtide.demo.checker_process", str(directory.lake)]
        with Child("checker", command, directory, answers=True) as child:
            yield cls(child)

    def await_capture(self) -> None:
        """Wait until capture has created all change tables."""
        deadline = time.monotonic() + _CAPTURE_TIMEOUT_S
        while not self._ask("is_possible"):
            if time.monotonic() > deadline:
                raise ProcessSilent("capture", _CAPTURE_TIMEOUT_S, "the change tables do not appear")
            self.on_tick()
            time.sleep(_TICK_S)

    def read(self, *, patience_s: float) -> Read | None:
        """Request the maximum LSN and a read up to it; see `ConsistentReader.read`."""
        found = self._ask("read", patience_s=patience_s)
        return Read(**found) if found is not None else None

    def compare(self, final: Path) -> list[TableProof]:
        """Request a comparison of all tables."""
        return [TableProof(**found) for found in self._ask("compare", _PROOF_TIMEOUT_S, final=str(final))]

    def compare_targets(
        self, final: Path, current: TargetVersion, history: TargetVersion, lsns: Sequence[int]
    ) -> list[TableProof]:
        """Request a comparison of the targets' tables, see `proof.compare_targets`."""
        versions = {"current": asdict(current), "history": asdict(history)}
        found = self._ask("compare_targets", _PROOF_TIMEOUT_S, final=str(final), lsns=list(lsns), **versions)
        return [TableProof(**comparison) for comparison in found]

    def figures(self, span: Span) -> Figures:
        """Request the figures."""
        return Figures(**self._ask("figures", after=span.after, last=span.last))

    def _ask(self, request: str, timeout_s: int = _ANSWER_TIMEOUT_S, **arguments: object) -> Any:
        self._child.send(json.dumps({"ask": request, **arguments}).encode())
        return self._answer(f"it does not answer to {request}", timeout_s)

    def _answer(self, awaited: str, timeout_s: int) -> Any:
        deadline = time.monotonic() + timeout_s
        while (line := self._child.receive(_TICK_S)) is None:
            if time.monotonic() > deadline:
                raise ProcessSilent(self._child.name, timeout_s, awaited)
            self.on_tick()
        return json.loads(line)
